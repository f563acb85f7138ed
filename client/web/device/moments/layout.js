/** Which elements a report has, in one fixed order that devices and providers agree on: `trimask_core.moments.layout`. */
import { StudyError } from "../errors.js";
import { naturalLog } from "../floats.js";
import { Ball, boxRadiusSquared } from "./ball.js";
import { answerOf, bitsOf, CLIPPED, clippedColumn, columnsOf, holds, shrinks } from "./column.js";
import { Fraction, wholeRoot } from "./fraction.js";
import { checkNatural } from "./natural.js";

/** @typedef {import("./column.js").Column} Column */
/** @typedef {{ bits: bigint[], z: bigint[], clipped: boolean }} Encoded */

const LARGEST_PRODUCT = 2n ** 59n; // sums are decoded as signed numbers below P / 2, with room for noise

export class MomentsLayout {
  /** @param {import("../schema.js").Schema} schema @param {number | null} rowNorm of the ball */
  constructor(schema, rowNorm) {
    const found = columnsOf(schema);
    this.schema = schema;
    this.choices = found.choices;
    this.comparisons = found.comparisons;
    if (rowNorm !== null && schema.columns.some((column) => column.name === CLIPPED)) {
      throw new StudyError("is a column of its own with a ball", "bad_name", CLIPPED);
    }
    this.columns = rowNorm === null ? found.columns : [...found.columns, clippedColumn(found.used)];
    this.ball = rowNorm === null ? null : new Ball(this.columns, rowNorm);
    /** The first bit of what is left of the ball: all bits before it are answers'. */
    this.ballBit = found.used + (rowNorm === null ? 0 : 1);
    this.bits = this.ballBit + (this.ball === null ? 0 : this.ball.weights.length);
    const q = this.columns.length;
    this.elements = 2 * this.bits + (q * (q + 1)) / 2 + q + 4;
    /** R^2 >= |x|^2 of every row the check accepts, x_0 = 1 counted: the box's, or the ball's. */
    this.radiusSquared = rowNorm === null ? boxRadiusSquared(this.columns) : Fraction.of(rowNorm).squared();
    checkNatural(schema, this.columns);
    this.columns.forEach((column, j) => {
      if (this.bound(j) ** 2n >= LARGEST_PRODUCT) throw new StudyError("its squares do not fit; give coarser steps", "overflow", column.name);
    });
  }

  /** |z_j| is at most this in every accepted report. @param {number} j */
  bound(j) {
    const { largest } = this.columns[j];
    if (this.ball === null) return largest;
    const inside = wholeRoot(this.ball.capacity / this.ball.coefficients[j]);
    return inside < largest ? inside : largest;
  }

  /** Bits and z of a person's answers, inside the ball. @param {import("../schema.js").Answers} answers @returns {Encoded} */
  encode(answers) {
    const values = this.schema.read(answers);
    /** @type {bigint[]} */
    let z = [];
    for (const column of this.columns) {
      if (column.factors !== null) {
        const [a, b] = column.factors;
        z.push(z[a] * z[b]);
      } else if (column.kind === "interval") {
        z.push(holds(column, this.columns[column.number], z[column.number]));
      } else if (column.kind === "level") {
        z.push(values.get(column.source) === column.level ? 1n : 0n);
      } else if (column.kind === "clipped") {
        z.push(0n);
      } else {
        const value = Number(values.get(column.source));
        z.push(2n * answerOf(column, column.kind === "log" ? naturalLog(value) : value) - column.offset);
      }
    }
    if (this.ball !== null) z = this.ball.clip(this.columns, z);
    return { bits: this.#bits(z), z, clipped: this.ball !== null && z[z.length - 1] === 1n };
  }

  /** @param {bigint[]} z */
  #bits(z) {
    /** @type {bigint[]} */
    const bits = new Array(this.ballBit).fill(0n);
    this.columns.forEach((column, place) => {
      const value = z[place];
      if (shrinks(column)) {
        bitsOf((value + column.offset) / 2n, column.weights).forEach((bit, i) => (bits[column.firstBit + i] = bit));
      } else if (column.factors === null) {
        bits[column.firstBit] = value;
      }
    });
    for (const [reference = 0, ...others] of this.choices) {
      bits[reference] = others.reduce((left, other) => left - bits[other], 1n);
    }
    for (const { number, first, last, above, below, weights } of this.comparisons) {
      const answer = (z[number] + this.columns[number].offset) / 2n;
      const k = first.filter((start) => start <= answer).length - 1;
      const rests = [answer - first[k], last[k] - answer];
      [above, below].forEach((start, place) =>
        bitsOf(rests[place], weights).forEach((bit, i) => (bits[start + i] = bit)),
      );
    }
    return this.ball === null ? bits : [...bits, ...bitsOf(this.ball.left(z), this.ball.weights)];
  }
}
