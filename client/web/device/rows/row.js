/**
 * From answers to the payloads of the rows suite, one a right provider: `trimask_core.rows.device`, `payloads` and, for the frame,
 * `noise_columns`. Encode, clip if the study asks for it, multiply by the root of the weight if it has one,
 * round to the grid, add discrete Gaussian noise; then the noise columns under B_0; then round and split. What follows the noise is post-processing of integers.
 */
import { concat } from "../bytes.js";
import { Stream } from "../crypto.js";
import { VerificationError } from "../errors.js";
import { fsum, ldexp, roundHalfEven } from "../floats.js";
import { DiscreteGaussian } from "../noise.js";
import { Normals, normalsFromWords } from "../normals.js";
import { drawKeys, expandKey, tagComponent, writeElements } from "./tags.js";

/** @typedef {import("../bytes.js").Bytes} Bytes */
/** @typedef {import("../crypto.js").RandomSource} RandomSource */
/**
 * What the row arithmetic asks of a study.
 * @typedef {object} RowSettings
 * @property {number} rowNorm R
 * @property {number} schemaRowNorm the schema's largest
 * @property {number} sigma
 * @property {number} tau
 * @property {number} gridExponent
 * @property {number} columns p
 * @property {number} right K1
 * @property {number} shareSteps s in grid steps
 * @property {RowFrame} frame
 */

const PANEL = 64; // normals are drawn a panel at a time; the same seed must give the same frame
const LOW_BITS = 20;
const DITHER_STEPS = 8; // what stays of the noise columns in the answers, in grid steps: docs/theory/calibration.md#second-rounding
const EXACT_INTEGERS = 2 ** 53;
const [SEED, VECTOR] = [Uint8Array.of(1), Uint8Array.of(2)];

/** @param {number} value @param {number} exponent @param {(value: number) => number} whole */
function onGrid(value, exponent, whole) {
  const scaled = ldexp(value, -exponent);
  if (!(Math.abs(scaled) < EXACT_INTEGERS)) throw new VerificationError("a value does not fit the integer grid");
  return whole(scaled);
}

/** @param {number} value */
function exact(value) {
  if (!(Math.abs(value) < EXACT_INTEGERS)) {
    throw new VerificationError("a component does not fit 53 bits; the study's grid leaves too little headroom");
  }
  return value;
}

/**
 * The row, brought to norm `limit` if it is longer. The sum is rounded once, so that every client gets the same bits.
 * @param {number[]} row @param {number} limit
 */
export function shortenRow(row, limit) {
  const norm = Math.sqrt(fsum(row.map((value) => value * value)));
  return norm > limit ? row.map((value) => value * (limit / norm)) : row;
}

/**
 * x1 on the grid with its discrete Gaussian noise: the last place the answers themselves are seen.
 * @param {RowSettings} study @param {number[]} row @param {RandomSource} source @param {number} [root] of the weight: 1 in a study without
 */
export function noisyAnswers(study, row, source, root = 1) {
  const limit = study.rowNorm;
  // Where the study asks for a smaller R than the schema allows.
  const held = shortenRow(row, limit).map((value) => value * root);
  // Rounding to nearest keeps |value| <= 1, so it cannot lengthen a row beyond the schema's R; a smaller R it could.
  const whole = limit < study.schemaRowNorm ? Math.trunc : roundHalfEven;
  const steps = held.map((value) => onGrid(value, study.gridExponent, whole));
  if (!study.sigma) return steps;
  const noise = new DiscreteGaussian(BigInt(Math.ceil(ldexp(study.sigma, -study.gridExponent))), source);
  return steps.map((step) => exact(Number(BigInt(step) + noise.sample())));
}

/**
 * x B_0 on the grid. x2 B_0[p1:] has the law of g - (g F^T) F for g ~ N(0, tau^2 I_p), so F alone is needed. A trace of g F^T
 * stays: it makes what is lost by rounding independent of the answers and their noise.
 * @param {RowSettings} study @param {number[]} x1 @param {RandomSource} source
 */
export async function maskRow(study, x1, source) {
  const normals = await Normals.open(source.read(32), "secure normals");
  const g = (await normals.next(study.columns)).map((value) => study.tau * value);
  const seen = study.frame.unapply(g);
  const taken = 1 - (study.sigma ? Math.min(1, (DITHER_STEPS * ldexp(1, study.gridExponent)) / study.tau) : 0);
  const shift = x1.map((step, place) => ldexp(step, study.gridExponent) - taken * Number(seen[place]));
  const masked = study.frame.apply(shift);
  return Array.from(g, (value, place) => onGrid(value + Number(masked[place]), study.gridExponent, roundHalfEven));
}

/** The component a seed stands for. The same integers on every machine. @param {Uint8Array} seed @param {number} columns @param {number} scaleSteps */
export async function expandComponent(seed, columns, scaleSteps) {
  const stream = await Stream.open(seed, "component");
  const even = columns + (columns & 1);
  const data = await stream.read(8 * even + 4 * columns);
  const low = new DataView(data.buffer, data.byteOffset + 8 * even);
  const scale = scaleSteps * 2 ** -LOW_BITS;
  return Array.from(normalsFromWords(data.subarray(0, 8 * even), columns), (normal, place) => {
    const bits = low.getUint32(4 * place, true) & ((1 << LOW_BITS) - 1);
    return exact(roundHalfEven(normal * scale) * 2 ** LOW_BITS + bits - 2 ** (LOW_BITS - 1));
  });
}

/**
 * Seeds of components 1..K1-1, and all components: what the seeds stand for, and the row minus those.
 * @param {number[]} row @param {number} right @param {number} scaleSteps @param {RandomSource} source
 */
export async function splitRow(row, right, scaleSteps, source) {
  if (right < 2) throw new RangeError("a row is split among two right providers at least");
  if (!(scaleSteps >= 2 ** (LOW_BITS + 8))) throw new RangeError("components of this scale would show the row");
  const seeds = Array.from({ length: right - 1 }, () => source.read(32));
  const components = await Promise.all(seeds.map((seed) => expandComponent(seed, row.length, scaleSteps)));
  let remainder = row;
  for (const component of components) remainder = remainder.map((value, place) => exact(value - Number(component[place])));
  return { seeds, components: [...components, remainder] };
}

/** @typedef {{ start: number, half: number, v: Float64Array }} Reflection */

/**
 * The frame F, the first p1 rows of the device mask B_0, by its reflections: F = E_k^T D H_k ... H_1, H_i = I - v_i v_i^T / h_i.
 * Sums are added up from left to right, so that they have the same bits everywhere.
 */
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

/** @param {number[]} values @returns {Bytes} little-endian, 8 bytes each */
function packSigned(values) {
  const view = new DataView(new ArrayBuffer(8 * values.length));
  values.forEach((value, place) => view.setBigInt64(8 * place, BigInt(value), true));
  return new Uint8Array(view.buffer);
}

/**
 * One payload a right provider. @param {import("../study.js").Study} study of the rows suite @param {import("../schema.js").Answers} answers
 * @param {RandomSource} source @returns {Promise<Bytes[]>}
 */
export async function rowPayloads(study, answers, source) {
  const settings = await study.rowSettings();
  const x1 = noisyAnswers(settings, study.schema.encode(answers), source, study.rootOf(answers));
  const row = await maskRow(settings, x1, source);
  const { seeds, components } = await splitRow(row, settings.right, settings.shareSteps, source);
  const holders = study.rows.tagHolders;
  const drawn = drawKeys(holders, source);
  const made = [...seeds.map((seed) => concat(SEED, seed)), concat(VECTOR, packSigned(components[components.length - 1] ?? []))];
  await Promise.all(
    drawn.map(async ({ spare, keys }, k) => {
      const expanded = await Promise.all(keys.map((seed) => expandKey(seed, row.length)));
      const tagged = await tagComponent(components[k] ?? [], spare, expanded);
      made[k] = concat(made[k] ?? SEED, ...tagged.tags.map(writeElements), spare, ...tagged.spareTags.map(writeElements));
    }),
  );
  // Keys of others' components follow, in the order of those.
  holders.forEach((held, k) =>
    held.forEach((holder, place) => {
      made[holder - 1] = concat(made[holder - 1] ?? SEED, drawn[k]?.keys[place] ?? SEED);
    }),
  );
  return made;
}
