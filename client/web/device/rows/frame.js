/**
 * The frame F, the first p1 rows of the device mask B_0, by its reflections: F = E_k^T D H_k ... H_1, H_i = I - v_i v_i^T / h_i.
 * Sums are added up from left to right: `trimask_core.rows.noise_columns`, so the same bits.
 */
import { Normals } from "../normals.js";

const PANEL = 64; // normals are drawn a panel at a time; the same seed must give the same frame

/** @typedef {{ start: number, half: number, v: Float64Array }} Reflection */

export class RowFrame {
  /** @param {Reflection[]} reflections @param {Float64Array} signs the diagonal of D @param {number} columns */
  constructor(reflections, signs, columns) {
    this.#reflections = reflections;
    this.#signs = signs;
    this.columns = columns;
  }
  #reflections;
  #signs;

  /** @param {Uint8Array} seed @param {number} rows @param {number} columns */
  static async expand(seed, rows, columns) {
    const normals = await Normals.open(seed, "haar frame");
    const signs = new Float64Array(rows);
    /** @type {Reflection[]} */
    const reflections = [];
    for (let start = 0; start < rows; start += PANEL) {
      const [width, length] = [Math.min(PANEL, rows - start), columns - start];
      const drawn = await normals.next(width * length);
      for (let i = 0; i < width; i++) {
        // What lies before the reflection's first coordinate is drawn and not part of it.
        const v = drawn.slice(i * length + i, (i + 1) * length);
        const first = v[0];
        const norm = Math.sqrt(dot(v, v, 0));
        const sign = first < 0 ? -1 : 1;
        v[0] = first + sign * norm;
        signs[start + i] = -sign;
        reflections.push({ start: start + i, half: norm * (norm + Math.abs(first)), v });
      }
    }
    return new RowFrame(reflections, signs, columns);
  }

  /** x F, for x with p1 entries. @param {ArrayLike<number>} row */
  apply(row) {
    const out = new Float64Array(this.columns);
    this.#signs.forEach((sign, place) => (out[place] = Number(row[place]) * sign));
    for (let k = this.#reflections.length - 1; k >= 0; k--) reflect(out, this.#reflections[k]);
    return out;
  }

  /** x F^T, for x with p entries. @param {Float64Array} row */
  unapply(row) {
    const work = row.slice();
    for (const reflection of this.#reflections) reflect(work, reflection);
    return this.#signs.map((sign, place) => Number(work[place]) * sign);
  }
}

/** @param {Float64Array} one @param {Float64Array} other @param {number} start where `one` begins */
function dot(one, other, start) {
  let total = one[start] * other[0];
  for (let i = 1; i < other.length; i++) total += one[start + i] * other[i];
  return total;
}

/** @param {Float64Array} row @param {Reflection} reflection */
function reflect(row, { start, half, v }) {
  const share = dot(row, v, start) / half;
  for (let i = 0; i < v.length; i++) row[start + i] = row[start + i] - share * v[i];
}
