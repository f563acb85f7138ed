/** The ball: rows shrunk to |x| <= R on the device, in the whole numbers by which the proof holds them to it: `trimask_core.moments.layout`. */
import { StudyError } from "../errors.js";
import { bitWeights, holds, leastOf, shrinks } from "./column.js";
import { P } from "./field.js";
import { floorDivide, Fraction } from "./fraction.js";

/** @typedef {import("./column.js").Column} Column */

const SHRINK_BITS = 20n; // rows are shrunk by k / 2^20
const SPARE_BITS = 6;
/** @param {bigint} value */
const abs = (value) => (value < 0n ? -value : value);

/** The sum of the columns' sizes, of a group the largest alone: its other columns are 0 then. @param {Column[]} columns @param {Fraction[]} sizes */
function oneAGroup(columns, sizes) {
  /** @type {Map<string, Fraction>} */
  const groups = new Map();
  let total = new Fraction(1n);
  columns.forEach(({ group }, place) => {
    const size = sizes[place];
    if (!group) total = total.plus(size);
    else if (groups.get(group)?.below(size) ?? true) groups.set(group, size);
  });
  return [...groups.values()].reduce((sum, size) => sum.plus(size), total);
}

/** R^2 of every row the bits allow: 1 for x_0, (largest / w)^2 for a column, the largest of those for a group. @param {Column[]} columns */
export function boxRadiusSquared(columns) {
  const held = columns.filter((column) => column.kind !== "clipped");
  return oneAGroup(held, held.map((column) => new Fraction(column.largest, column.width).squared()));
}

/** t, each column's c_j, and C. */
export class Ball {
  /** @param {Column[]} columns `clipped` among them @param {number} rowNorm x_0 = 1 counted */
  constructor(columns, rowNorm) {
    const squares = columns.map((column) => column.width * column.width);
    const widest = squares.reduce((most, square) => (square > most ? square : most), 0n);
    this.exponent = widest.toString(2).length + SPARE_BITS;
    const unit = 1n << BigInt(this.exponent);
    this.coefficients = squares.map((square) => (unit + square - 1n) / square);
    // The least every row can be shrunk to: a level that is not the reference in every group, odd columns at 1.
    /** @type {bigint[]} */
    const smallest = [];
    for (const column of columns) {
      const { factors } = column;
      smallest.push(factors === null ? leastOf(column) : smallest[factors[0]] * smallest[factors[1]]);
    }
    const least = oneAGroup(columns, smallest.map((size, place) => new Fraction(this.coefficients[place] * size, unit)));
    const square = Fraction.of(rowNorm).squared();
    const within = !square.below(least) && square.below(boxRadiusSquared(columns));
    if (!(rowNorm > 0) || !within) throw new StudyError("no ball of this norm holds a row of these questions", "row_norm", "suite.ball_norm");
    this.capacity = floorDivide((square.top - square.bottom) * unit, square.bottom);
    const most = columns.reduce((total, { largest }, place) => total + this.coefficients[place] * largest * largest, 0n);
    if (most + this.capacity >= P) throw new StudyError("the check of the ball does not fit into 61 bits", "row_norm", "suite.ball_norm");
    this.weights = bitWeights(this.capacity);
  }

  /** C - sum_j c_j z_j^2; below 0 outside the ball. @param {bigint[]} z */
  left(z) {
    return z.reduce((left, value, place) => left - this.coefficients[place] * value * value, this.capacity);
  }

  /** The row itself where it is inside; else shrunk by a k / 2^20 that fits while the next does not, with `clipped` set. @param {Column[]} columns @param {bigint[]} z */
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
    const value = z[place];
    if (column.factors !== null) {
      const [a, b] = column.factors;
      row.push(row[a] * row[b]);
    } else if (column.kind === "interval") {
      row.push(holds(column, columns[column.number], row[column.number]));
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
