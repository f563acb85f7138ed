/**
 * Double precision as Python's `math` has it, by operations that IEEE 754 defines to the bit.
 *
 * `Math.log` and the like may differ in the last bit between engines: what enters a row does not use them.
 */

const word = new DataView(new ArrayBuffer(8));

/** @param {number} value finite @returns {[number, number]} mantissa in [1/2, 1) and exponent, or (0, 0) */
export function frexp(value) {
  if (value === 0) return [value, 0];
  word.setFloat64(0, value);
  const exponent = (word.getUint32(0) >>> 20) & 0x7ff;
  if (exponent === 0) {
    const [mantissa, power] = frexp(value * 2 ** 64);
    return [mantissa, power - 64];
  }
  word.setUint32(0, (word.getUint32(0) & 0x800fffff) | 0x3fe00000);
  return [word.getFloat64(0), exponent - 1022];
}

/** value 2^power. Both factors are powers of two, so only an underflow rounds. @param {number} value @param {number} power */
export function ldexp(value, power) {
  const near = Math.max(-1000, Math.min(1000, power));
  const far = Math.max(-1000, Math.min(1000, power - near));
  return value * 2 ** near * 2 ** far;
}

/** To the nearest whole number, halves to the even one. @param {number} value */
export function roundHalfEven(value) {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest !== 0.5) return rest < 0.5 ? below : below + 1;
  return below % 2 === 0 ? below : below + 1;
}

/**
 * The sum, rounded once (Shewchuk 1997; as Python's `math.fsum`).
 * @param {Iterable<number>} values
 */
export function fsum(values) {
  /** @type {number[]} */
  let partials = [];
  for (let x of values) {
    const kept = [];
    for (let y of partials) {
      if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
      const high = x + y;
      const low = y - (high - x);
      if (low) kept.push(low);
      x = high;
    }
    partials = [...kept, x];
  }
  let total = partials.pop() ?? 0;
  let low = 0;
  while (partials.length) {
    const x = total;
    const y = /** @type {number} */ (partials.pop());
    total = x + y;
    low = y - (total - x);
    if (low) break;
  }
  // Halfway between two doubles, what is left decides.
  const next = partials[partials.length - 1] ?? 0;
  if ((low < 0 && next < 0) || (low > 0 && next > 0)) {
    const y = low * 2;
    const x = total + y;
    if (y === x - total) total = x;
  }
  return total;
}

// log 2 in two parts: 33 bits, so that a whole multiple of it is exact, and the rest.
const [LN2_HIGH, LN2_LOW] = [0.6931471803691238, 1.9082149292705877e-10];
const SQRT_HALF = Math.sqrt(0.5);
const ATANH = Array.from({ length: 12 }, (_, k) => 1 / (2 * k + 1));

/**
 * The natural logarithm, the same to the bit on every machine: `trimask_core.study.derived`, operation by operation.
 * @param {number} value above 0
 */
export function naturalLog(value) {
  let [mantissa, exponent] = frexp(value);
  if (mantissa < SQRT_HALF) {
    mantissa *= 2;
    exponent -= 1;
  }
  const f = (mantissa - 1) / (mantissa + 1);
  const x = f * f;
  let t = ATANH[11];
  for (let k = 10; k >= 0; k--) t = t * x + ATANH[k];
  return exponent * LN2_HIGH + (2 * f * t + exponent * LN2_LOW);
}

/** 2/sqrt(pi) int_x^inf e^(-t^2) dt, relative error below 1e-13: for checking claims, never for a row. @param {number} x @returns {number} */
export function erfc(x) {
  if (x < 0) return 2 - erfc(-x);
  if (x < 2) {
    // erf(x) = 2/sqrt(pi) e^(-x^2) sum_n 2^n x^(2n+1) / (2n+1)!!, all terms positive
    let term = x;
    let total = x;
    for (let n = 1; term > total * 1e-18; n++) {
      term *= (2 * x * x) / (2 * n + 1);
      total += term;
    }
    return 1 - (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * total;
  }
  if (x > 27) return 0;
  // The continued fraction of Laplace from its tail; 80 terms are enough from 2 on.
  let fraction = x;
  for (let k = 80; k > 0; k--) fraction = x + k / 2 / fraction;
  return Math.exp(-x * x) / (Math.sqrt(Math.PI) * fraction);
}
