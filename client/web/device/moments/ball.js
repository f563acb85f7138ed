/** The ball: rows shrunk to |x| <= R on the device, in the whole numbers by which the proof holds them to it: `trimask_core.moments.ball`. */
import { StudyError } from "../errors.js";
import { bitWeights, leastOf, shrinks } from "./column.js";
import { P } from "./field.js";
import { floorDivide, Fraction } from "./fraction.js";

/** @typedef {import("./column.js").Column} Column */

const SHRINK_BITS = 20n; // rows are shrunk by k / 2^20
const SPARE_BITS = 6;
/** @param {bigint} value */
const abs = (value) => (value < 0n ? -value : value);

/** R^2 of every row the bits allow: 1 for x_0, 1 for each choice question, (largest / w)^2 for the other columns. @param {Column[]} columns @param {number} choices */
export function boxRadiusSquared(columns, choices) {
  return columns
    .filter((column) => column.kind !== "level" && column.kind !== "clipped")
    .reduce((total, column) => total.plus(new Fraction(column.largest, column.width).squared()), new Fraction(1n + BigInt(choices)));
}

/** t, each column's c_j, and C. */
export class Ball {
  /** @param {Column[]} columns `clipped` among them @param {number} choices @param {number} rowNorm x_0 = 1 counted */
  constructor(columns, choices, rowNorm) {
    const squares = columns.map((column) => column.width * column.width);
    const widest = squares.reduce((most, square) => (square > most ? square : most), 0n);
    this.exponent = widest.toString(2).length + SPARE_BITS;
    const unit = 1n << BigInt(this.exponent);
    this.coefficients = squares.map((square) => (unit + square - 1n) / square);
    // The least a row can be shrunk to: every question on a level that is not the reference, odd columns at 1.
    let least = BigInt(choices) * unit;
    columns.forEach((column, place) => {
      const c = /** @type {bigint} */ (this.coefficients[place]);
      if (column.factors !== null) {
        const [a, b] = column.factors;
        least += c * leastOf(/** @type {Column} */ (columns[a])) * leastOf(/** @type {Column} */ (columns[b]));
      } else if (column.level === null) {
        least += c * leastOf(column);
      }
    });
    const square = Fraction.of(rowNorm).squared();
    const within = !square.below(new Fraction(unit + least, unit)) && square.below(boxRadiusSquared(columns, choices));
    if (!(rowNorm > 0) || !within) throw new StudyError("no ball of this norm holds a row of these questions", "row_norm", "suite.ball_norm");
    this.capacity = floorDivide((square.top - square.bottom) * unit, square.bottom);
    const most = columns.reduce((total, { largest }, place) => total + /** @type {bigint} */ (this.coefficients[place]) * largest * largest, 0n);
    if (most + this.capacity >= P) throw new StudyError("the check of the ball does not fit into 61 bits", "row_norm", "suite.ball_norm");
    this.weights = bitWeights(this.capacity);
  }

  /** C - sum_j c_j z_j^2; below 0 outside the ball. @param {bigint[]} z */
  left(z) {
    return z.reduce((left, value, place) => left - /** @type {bigint} */ (this.coefficients[place]) * value * value, this.capacity);
  }

  /** The row itself where it is inside; else shrunk by the largest k / 2^20 that fits, with `clipped` set. @param {Column[]} columns @param {bigint[]} z */
  clip(columns, z) {
    if (this.left(z) >= 0n) return z;
    let [low, high] = [0n, 1n << SHRINK_BITS]; // k = low fits (the constructor has seen to that), k = high does not
    while (high - low > 1n) {
      const middle = (low + high) / 2n;
      if (this.left(shrunk(columns, z, middle)) >= 0n) low = middle;
      else high = middle;
    }
    return shrunk(columns, z, low);
  }
}

/** Bounded columns times k / 2^20, towards 0 and to the parity z must have; |z| never grows with a smaller k. @param {Column[]} columns @param {bigint[]} z @param {bigint} k */
function shrunk(columns, z, k) {
  /** @type {bigint[]} */
  const row = [];
  columns.forEach((column, place) => {
    const value = /** @type {bigint} */ (z[place]);
    if (column.factors !== null) {
      const [a, b] = column.factors;
      row.push(/** @type {bigint} */ (row[a]) * /** @type {bigint} */ (row[b]));
    } else if (shrinks(column)) {
      let size = (abs(value) * k) >> SHRINK_BITS;
      size -= (size ^ abs(value)) & 1n;
      if (size < (abs(value) & 1n)) size = abs(value) & 1n;
      row.push(value > 0n ? size : -size);
    } else {
      row.push(column.kind === "clipped" ? 1n : value);
    }
  });
  return row;
}
