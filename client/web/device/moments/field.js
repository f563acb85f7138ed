/** The field of the moments suite: whole numbers modulo P = 2^61 - 1, 8 bytes each, little-endian. */
import { Stream } from "../crypto.js";

export const P = (1n << 61n) - 1n; // no **, which compilers for older engines make of Math.pow
export const ELEMENT_BYTES = 8;

/** @param {bigint} value */
export const modulo = (value) => {
  const rest = value % P;
  return rest < 0n ? rest + P : rest;
};

/** One uniform element: the low 61 bits of a word; P itself, which is zero a second time, is rejected. @param {import("../crypto.js").RandomSource} source */
export function draw(source) {
  for (;;) {
    const data = source.read(ELEMENT_BYTES);
    const value = new DataView(data.buffer, data.byteOffset).getBigUint64(0, true) & P;
    if (value !== P) return value;
  }
}

/** The uniform elements a 32-byte seed stands for: one provider's share of a report. @param {Uint8Array} seed @param {number} count */
export async function expandElements(seed, count) {
  const stream = await Stream.open(seed, "moments share");
  /** @type {bigint[]} */
  const kept = [];
  while (kept.length < count) {
    const missing = count - kept.length;
    const data = await stream.read(ELEMENT_BYTES * missing);
    const view = new DataView(data.buffer, data.byteOffset);
    for (let k = 0; k < missing; k++) {
      const value = view.getBigUint64(ELEMENT_BYTES * k, true) & P;
      if (value !== P) kept.push(value);
    }
  }
  return kept;
}

/** @param {bigint[]} elements @returns {import("../bytes.js").Bytes} */
export function pack(elements) {
  const view = new DataView(new ArrayBuffer(ELEMENT_BYTES * elements.length));
  elements.forEach((value, place) => {
    if (value < 0n || value >= P) throw new RangeError("a field element is from 0 to P - 1");
    view.setBigUint64(ELEMENT_BYTES * place, value, true);
  });
  return new Uint8Array(view.buffer);
}

/** (0, 1/1, 1/2, ..., 1/largest): P = (P // n) n + P % n gives each from an earlier one. @param {number} largest */
export function smallInverses(largest) {
  const inverses = [0n, 1n];
  for (let n = 2n; n <= BigInt(largest); n++) {
    inverses.push(((P - P / n) * inverses[Number(P % n)]) % P);
  }
  return inverses;
}
