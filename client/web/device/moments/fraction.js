/** Ratios of whole numbers: what the ball and its radius are compared by, without rounding. */
import { frexp } from "../floats.js";

export class Fraction {
  /** @param {bigint} top @param {bigint} [bottom] above 0 */
  constructor(top, bottom = 1n) {
    this.top = top;
    this.bottom = bottom;
  }

  /** Exactly what a double is. @param {number} value finite */
  static of(value) {
    const [mantissa, exponent] = frexp(value);
    const top = BigInt(mantissa * 2 ** 53);
    const power = BigInt(exponent - 53);
    return power >= 0n ? new Fraction(top << power) : new Fraction(top, 1n << -power);
  }

  /** @param {Fraction} other */
  plus(other) {
    return new Fraction(this.top * other.bottom + other.top * this.bottom, this.bottom * other.bottom);
  }

  squared() {
    return new Fraction(this.top * this.top, this.bottom * this.bottom);
  }

  /** @param {Fraction} other */
  below(other) {
    return this.top * other.bottom < other.top * this.bottom;
  }

  /** The double near it: a few last bits may be off, so it only enters comparisons with a margin. */
  toNumber() {
    const shift = BigInt(Math.max(0, this.top.toString(2).length, this.bottom.toString(2).length) - 900);
    if (shift <= 0n) return Number(this.top) / Number(this.bottom);
    return Number(this.top >> shift) / Number(this.bottom >> shift);
  }
}

/** The whole part of the square root. @param {bigint} value */
export function wholeRoot(value) {
  if (value < 2n) return value;
  let root = 1n << BigInt(Math.ceil(value.toString(2).length / 2));
  for (;;) {
    const next = (root + value / root) >> 1n;
    if (next >= root) return root;
    root = next;
  }
}

/** floor(top / bottom), bottom above 0. @param {bigint} top @param {bigint} bottom */
export const floorDivide = (top, bottom) => (top >= 0n ? top / bottom : -((-top + bottom - 1n) / bottom));
