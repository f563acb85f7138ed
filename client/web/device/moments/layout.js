/** Which elements a report has, in one fixed order that devices and providers agree on: `trimask_core.moments.layout`. */
import { StudyError } from "../errors.js";
import { naturalLog } from "../floats.js";
import { Ball, boxRadiusSquared } from "./ball.js";
import { answerOf, bitsOf, checkNatural, CLIPPED, clippedColumn, columnsOf, holds, rootColumn, shrinks, weightedColumns } from "./column.js";
import { Fraction, wholeRoot } from "./fraction.js";

/** `proved`: the columns whose products are shared and checked: z, or z, s and s z. @typedef {{ bits: bigint[], z: bigint[], clipped: boolean, root: bigint, proved: bigint[] }} Encoded */

const LARGEST_PRODUCT = 1n << 59n; // sums are decoded as signed numbers below P / 2, with room for noise

export class MomentsLayout {
  /** @param {import("../schema.js").Schema} schema @param {number | null} rowNorm of the ball @param {import("../weight.js").Weight | null} [weight] */
  constructor(schema, rowNorm, weight = null) {
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
    this.weight = weight;
    /** s of a weighted study. */
    this.root = weight === null ? null : rootColumn(schema, weight, found.choices, this.ballBit);
    if (weight !== null && this.root !== null && !weight.weights.length) this.ballBit += this.root.weights.length;
    this.bits = this.ballBit + (this.ball === null ? 0 : this.ball.weights.length);
    const bounds = this.columns.map((_, j) => this.bound(j));
    const published = this.root === null ? this.columns : weightedColumns(this.columns, bounds, this.root);
    /** The columns whose products are opened in sums, s first in a weighted study, each with the largest a report can have. */
    this.published = published.map((column, j) => ({ column, bound: this.root === null ? /** @type {bigint} */ (bounds[j]) : column.largest }));
    /** The columns whose products a report has: the q columns; in a weighted study s and s z_1..s z_q after them. */
    this.proved = this.root === null ? this.columns : [...this.columns, ...published];
    const size = this.proved.length;
    this.elements = 2 * this.bits + (size * (size + 1)) / 2 + size + 4;
    /** R^2 >= |x|^2 of every row the check accepts, x_0 = 1 counted: the box's, or the ball's. */
    this.radiusSquared = rowNorm === null ? boxRadiusSquared(this.columns) : Fraction.of(rowNorm).squared();
    checkNatural(schema, this.columns);
    this.published.forEach(({ column, bound }) => {
      if (bound * bound >= LARGEST_PRODUCT) throw new StudyError("its squares do not fit; give coarser steps", "overflow", column.name);
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
    const clipped = this.ball !== null && z[z.length - 1] === 1n;
    const bits = this.#bits(z);
    if (this.weight === null || this.root === null) return { bits, z, clipped, root: 1n, proved: z };
    const { firstBit, weights, offset } = this.root;
    let root = 0n;
    if (this.weight.weights.length) {
      // Of the level the report says: a number that was shrunk to the ball is in the interval it is shrunk to.
      root = weights.reduce((total, one, i) => total + one * bits[firstBit + i], 0n);
    } else {
      root = this.weight.wholeRoot(this.weight.of(values));
      bitsOf(root + offset, weights).forEach((bit, i) => (bits[firstBit + i] = bit));
    }
    return { bits, z, clipped, root, proved: [...z, root, ...z.map((value) => root * value)] };
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
