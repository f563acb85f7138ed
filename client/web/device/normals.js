/**
 * Standard normals from random words, the same to the last bit on every machine: Box-Muller by additions, multiplications,
 * divisions, square roots and frexp alone, in the order of `trimask_core.rows.noise_columns`. Nothing here may be rearranged.
 */
import { Stream } from "./crypto.js";
import { frexp } from "./floats.js";

const LN2 = 0.6931471805599453;
const SQRT_HALF = Math.sqrt(0.5);
const QUARTER_TURN = Math.PI / 2;
const factorials = [1];
for (let n = 1; n < 20; n++) factorials.push(factorials[n - 1] * n);
const ATANH = Float64Array.from({ length: 12 }, (_, k) => 1 / (2 * k + 1));
const SIN = Float64Array.from({ length: 10 }, (_, k) => (k % 2 ? -1 : 1) / factorials[2 * k + 1]);
const COS = Float64Array.from({ length: 10 }, (_, k) => (k % 2 ? -1 : 1) / factorials[2 * k]);

/** @param {Float64Array} coefficients @param {number} x */
function horner(coefficients, x) {
  let total = coefficients[coefficients.length - 1];
  for (let k = coefficients.length - 2; k >= 0; k--) total = total * x + coefficients[k];
  return total;
}

/**
 * One standard normal for each little-endian 64-bit word of an even number of words, and the first `count` of them.
 * @param {Uint8Array} words @param {number} [count]
 */
export function normalsFromWords(words, count = words.length / 8) {
  const view = new DataView(words.buffer, words.byteOffset, words.length);
  const normals = new Float64Array(words.length / 8);
  for (let at = 0; at < words.length; at += 16) {
    // A sum of two doubles, each exact, is rounded once: as Python's float of the whole number.
    const uniform = view.getUint32(at + 4, true) * 2 ** 32 + view.getUint32(at, true);
    let [mantissa, exponent] = frexp((uniform + 1) * 2 ** -64);
    if (mantissa < SQRT_HALF) {
      mantissa *= 2;
      exponent -= 1;
    }
    const f = (mantissa - 1) / (mantissa + 1);
    const logUniform = exponent * LN2 + 2 * f * horner(ATANH, f * f);
    let radius = Math.sqrt(Math.max(-2 * logUniform, 0));

    const high = view.getUint32(at + 12, true);
    const quadrant = high >>> 30;
    const fraction = (high & 0x3fffffff) * 2 ** 32 + view.getUint32(at + 8, true);
    const angle = (fraction * 2 ** -62 - 0.5) * QUARTER_TURN;
    const square = angle * angle;
    const sine = angle * horner(SIN, square);
    const cosine = horner(COS, square);
    if (quadrant & 2) radius = -radius;
    normals[at / 8] = radius * (quadrant & 1 ? -sine : cosine);
    normals[at / 8 + 1] = radius * (quadrant & 1 ? cosine : sine);
  }
  return normals.subarray(0, count);
}

/** Standard normals expanded from a 32-byte seed. */
export class Normals {
  /** @param {Stream} stream */
  constructor(stream) {
    this.#stream = stream;
  }
  #stream;

  /** @param {Uint8Array} seed @param {string} label */
  static async open(seed, label) {
    return new Normals(await Stream.open(seed, label));
  }

  /** The next `count`. An odd count discards the last of its pair. @param {number} count */
  async next(count) {
    return normalsFromWords(await this.#stream.read(8 * (count + (count & 1))), count);
  }
}
