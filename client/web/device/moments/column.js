/** The columns of the moments suite: how attributes become whole numbers z, and which bits hold them: `trimask_core.moments.column`. */
import { StudyError } from "../errors.js";

/** @typedef {import("../schema.js").Schema} Schema */
/** @typedef {import("../schema.js").Attribute} Attribute */
/**
 * One column; `largest` bounds |z|, `factors` are the columns of a product.
 * @typedef {object} Column
 * @property {string} name
 * @property {"bounded" | "level" | "product" | "log" | "clipped"} kind
 * @property {string} source the attribute it is read from; empty for a product and `clipped`
 * @property {bigint} offset
 * @property {bigint} width
 * @property {bigint} largest
 * @property {number} minimum
 * @property {number} step
 * @property {bigint} steps
 * @property {string | null} level
 * @property {number} firstBit -1: a product has no bits
 * @property {bigint[]} weights
 * @property {[number, number] | null} factors
 */

export const CLIPPED = "clipped";
const DEFAULT_STEPS = 1000n;
const DIVIDES = 1e-9;
/** @type {Omit<Column, "name" | "kind">} */
const PLAIN = {
  source: "", offset: 0n, width: 1n, largest: 1n, minimum: 0, step: 2, steps: 1n, level: null, firstBit: -1, weights: [], factors: null,
};

/** @param {Column} column whether clipping moves it towards 0; products follow their factors */
export const shrinks = (column) => column.kind === "bounded" || column.kind === "log";

/** The least |z| a clipped row can have here: z keeps the parity of the offset. @param {Column} column */
export const leastOf = (column) => (shrinks(column) ? column.offset & 1n : 1n);

/** Halves are rounded up. @param {number} value */
const nearest = (value) => BigInt(Math.floor(value + 0.5));

/** The value in whole steps 0..steps. @param {Column} column @param {number} value */
export function answerOf(column, value) {
  const found = nearest((value - column.minimum) / column.step);
  return found < 0n ? 0n : found > column.steps ? column.steps : found;
}

/** 1, 2, 4, ... and a last one such that bits give exactly 0..largest, whatever it is. @param {bigint} largest */
export function bitWeights(largest) {
  if (largest < 1n) return [];
  const powers = Array.from({ length: largest.toString(2).length - 1 }, (_, i) => 1n << BigInt(i));
  return [...powers, largest - powers.reduce((total, power) => total + power, 0n)];
}

/** Bits that give the number; the last one is set only where the others are not enough. @param {bigint} number @param {bigint[]} weights */
export function bitsOf(number, weights) {
  const powers = weights.length - 1;
  const last = number >= 1n << BigInt(powers) ? 1n : 0n;
  const rest = number - last * /** @type {bigint} */ (weights[powers]);
  return [...Array.from({ length: powers }, (_, i) => (rest >> BigInt(i)) & 1n), last];
}

/** The columns, the bits of each choice question (reference first), and how many bits there are. @param {Schema} schema */
export function columnsOf(schema) {
  /** @type {Column[]} */
  const columns = [];
  /** @type {number[][]} */
  const choices = [];
  let used = 0;
  for (const attribute of schema.attributes) {
    if (attribute.kind === "categorical") {
      const first = used;
      choices.push(attribute.levels.map((_, place) => first + place));
      attribute.levels.forEach((level, place) => {
        const name = `${attribute.name}_${level}`;
        if (place) columns.push({ ...PLAIN, name, kind: "level", source: attribute.name, level, firstBit: first + place, weights: [1n] });
      });
      used += attribute.levels.length;
    } else {
      const column = bounded(attribute, used);
      columns.push(column);
      used += column.weights.length;
    }
  }
  for (const derived of schema.derived) {
    if (derived.kind === "log") {
      const [low, high] = schema.boundsOf(derived);
      const [steps, weights] = [DEFAULT_STEPS, bitWeights(DEFAULT_STEPS)];
      const size = { offset: steps, width: steps, largest: steps, steps, minimum: low, step: (high - low) / Number(steps) };
      columns.push({ ...PLAIN, ...size, name: derived.name, kind: "log", source: String(derived.of[0]), firstBit: used, weights });
      used += weights.length;
    } else {
      const places = [derived.of[0], derived.of[derived.of.length - 1]].map((name) =>
        columns.findIndex((column) => column.name === name && column.kind === "bounded"),
      );
      const [a = 0, b = 0] = places.sort((one, other) => one - other);
      const [one, other] = [/** @type {Column} */ (columns[a]), /** @type {Column} */ (columns[b])];
      const size = { width: one.width * other.width, largest: one.largest * other.largest };
      columns.push({ ...PLAIN, ...size, name: derived.name, kind: "product", factors: [a, b] });
    }
  }
  return { columns, choices, used };
}

/** The column that says whether the device shrank the row to the ball; one bit that costs 1/16 of |x|^2. @param {number} bit @returns {Column} */
export const clippedColumn = (bit) => ({ ...PLAIN, name: CLIPPED, kind: "clipped", width: 4n, firstBit: bit, weights: [1n] });

/** @param {Attribute} attribute @param {number} bit @returns {Column} */
function bounded(attribute, bit) {
  const { minimum, step, steps } = gridOf(attribute);
  let offset = steps;
  if (attribute.centre !== null) {
    const found = nearest((2 * (attribute.centre - minimum)) / step);
    offset = found < 0n ? 0n : found > 2n * steps ? 2n * steps : found;
  }
  const scale = attribute.scale === null ? steps : nearest((2 * attribute.scale) / step);
  const far = 2n * steps - offset;
  return {
    ...PLAIN, name: attribute.name, kind: "bounded", source: attribute.name, offset, width: scale < 1n ? 1n : scale,
    largest: offset > far ? offset : far, minimum, step, steps, firstBit: bit, weights: bitWeights(steps),
  };
}

/** The least answer, the step, and how many steps there are. @param {Attribute} attribute */
function gridOf(attribute) {
  const [low, high] = attribute.bounds;
  if (attribute.kind === "binary") return { minimum: 0, step: 1, steps: 1n };
  if (attribute.kind === "integer") {
    const [least, most] = [Math.ceil(low), Math.floor(high)];
    if (most <= least) throw new StudyError("give minimum and maximum with at least two whole numbers", "bad_grid", attribute.name);
    return { minimum: least, step: 1, steps: BigInt(most) - BigInt(least) };
  }
  if (attribute.step === null) return { minimum: low, step: (high - low) / Number(DEFAULT_STEPS), steps: DEFAULT_STEPS };
  const ratio = (high - low) / attribute.step;
  if (!Number.isFinite(ratio)) throw new StudyError("step is too small for its range", "bad_grid", attribute.name);
  const steps = Math.max(1, Math.floor(ratio + 0.5));
  if (Math.abs(ratio - steps) > DIVIDES * steps) throw new StudyError("step does not divide the range", "bad_grid", attribute.name);
  return { minimum: low, step: (high - low) / steps, steps: BigInt(steps) };
}
