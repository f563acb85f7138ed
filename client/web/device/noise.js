/**
 * Gaussian noise on the integers, sampled exactly: Canonne, Kamath, Steinke (2020), Algorithms 1-3, as `trimask_core.basics.randomness`.
 * Only integer arithmetic and fair bits, so that no floating-point residue of an answer survives in the noise.
 */
import { readLittleEndian } from "./bytes.js";

/** @typedef {import("./crypto.js").RandomSource} RandomSource */

const BUFFER = 1024;

/** Uniform integers from a buffered source. */
class Bits {
  /** @param {RandomSource} source */
  constructor(source) {
    this.#source = source;
  }
  #source;
  #buffer = new Uint8Array();
  #at = 0;

  /** @param {number} count */
  #take(count) {
    if (this.#at + count > this.#buffer.length) {
      this.#buffer = this.#source.read(Math.max(BUFFER, count));
      this.#at = 0;
    }
    this.#at += count;
    return readLittleEndian(this.#buffer.subarray(this.#at - count, this.#at));
  }

  /** Uniform on 0..bound-1, by rejection. @param {bigint} bound */
  below(bound) {
    const bits = bound === 1n ? 0 : (bound - 1n).toString(2).length;
    const count = Math.ceil(bits / 8);
    const excess = BigInt(8 * count - bits);
    for (;;) {
      const value = this.#take(count) >> excess;
      if (value < bound) return value;
    }
  }

  coin() {
    return (this.#take(1) & 1n) === 1n;
  }

  /** True with probability exp(-numerator/denominator), ratio in [0, 1]. @param {bigint} numerator @param {bigint} denominator */
  expMinus(numerator, denominator) {
    let k = 1n;
    while (this.below(denominator * k) < numerator) k += 1n;
    return k % 2n === 1n;
  }
}

/** Integers with P(x) proportional to exp(-x^2 / (2 sigma^2)), for a whole `sigma` >= 1. */
export class DiscreteGaussian {
  /** @param {bigint} sigma @param {RandomSource} source */
  constructor(sigma, source) {
    if (sigma < 1n) throw new RangeError("sigma must be a whole number of grid steps >= 1");
    this.#sigma = sigma;
    this.#bits = new Bits(source);
  }
  #sigma;
  #bits;

  /** @param {bigint} numerator @param {bigint} denominator */
  #bernoulliExp(numerator, denominator) {
    while (numerator > denominator) {
      if (!this.#bits.expMinus(1n, 1n)) return false;
      numerator -= denominator;
    }
    return this.#bits.expMinus(numerator, denominator);
  }

  /** @param {bigint} scale */
  #laplace(scale) {
    for (;;) {
      const remainder = this.#bits.below(scale);
      if (!this.#bits.expMinus(remainder, scale)) continue;
      let whole = 0n;
      while (this.#bits.expMinus(1n, 1n)) whole += 1n;
      const magnitude = remainder + scale * whole;
      if (!this.#bits.coin()) return magnitude;
      if (magnitude !== 0n) return -magnitude;
    }
  }

  /** One value. */
  sample() {
    const scale = this.#sigma + 1n;
    const variance = this.#sigma * this.#sigma;
    for (;;) {
      const candidate = this.#laplace(scale);
      // exp(-(|y| - sigma^2/t)^2 / (2 sigma^2)) = exp(-(t|y| - sigma^2)^2 / (2 sigma^2 t^2))
      const distance = scale * (candidate < 0n ? -candidate : candidate) - variance;
      if (this.#bernoulliExp(distance * distance, 2n * variance * scale * scale)) return candidate;
    }
  }
}
