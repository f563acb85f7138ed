/** The columns that prove that every column of a report was multiplied by one root s: `trimask_core.moments.columns`. */
import { bitWeights, PLAIN } from "./column.js";

/** @typedef {import("./column.js").Column} Column */
/** @typedef {import("../schema.js").Schema} Schema */
/** @typedef {import("../weight.js").Weight} Weight */

export const ROOT = "weight";

/** s: from the bits of the table's choice, or from bits of its own, from `bit` on. @param {Schema} schema @param {Weight} weight @param {number[][]} choices @param {number} bit @returns {Column} */
export function rootColumn(schema, weight, choices, bit) {
  /** @type {Column} */
  const plain = { ...PLAIN, name: ROOT, kind: "root", source: weight.attribute, width: BigInt(weight.steps) };
  if (weight.weights.length) {
    const names = [...schema.attributes.filter((item) => item.kind === "categorical"), ...schema.derived.filter((item) => item.cuts.length)];
    const [firstBit = 0] = choices[names.findIndex((item) => item.name === weight.attribute)] ?? [];
    const weights = weight.weights.map((value) => weight.wholeRoot(value));
    return { ...plain, largest: weights.reduce((most, root) => (root > most ? root : most), 0n), firstBit, weights };
  }
  const least = weight.wholeRoot(weight.bounds[0]);
  return { ...plain, offset: -least, largest: plain.width, firstBit: bit, weights: bitWeights(plain.width - least) };
}

/** s and s z_1..s z_q, which stand after z_1..z_q. @param {Column[]} columns @param {bigint[]} bounds @param {Column} root @returns {Column[]} */
export function weightedColumns(columns, bounds, root) {
  const at = columns.length;
  /** @type {Column[]} */
  const products = columns.map(({ name, width }, j) => ({
    ...PLAIN, name, kind: "product", factors: [j, at], width: width * root.width, largest: /** @type {bigint} */ (bounds[j]) * root.largest,
  }));
  return [root, ...products];
}
