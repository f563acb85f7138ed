/**
 * The columns of the moments suite: how attributes become whole numbers z, and which bits hold them; those that prove that all were
 * multiplied by one root; and the way from z back to the schema's own: `trimask_core.moments.columns`.
 */
import { ONES } from "../derived.js";
import { StudyError } from "../errors.js";

/** @typedef {import("../schema.js").Schema} Schema */
/** @typedef {import("../schema.js").Attribute} Attribute */
/** @typedef {import("../derived.js").Derived} Derived */
/** @typedef {import("../weight.js").Weight} Weight */
/**
 * One column; `largest` bounds |z|, `factors` are the columns of a product.
 * @typedef {object} Column
 * @property {string} name
 * @property {"bounded" | "level" | "interval" | "product" | "log" | "clipped" | "root"} kind
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
 * @property {string} group of the columns of one group at most one is not 0
 * @property {number} number an interval's: the column of the number
 * @property {bigint} first an interval's least answer in whole steps
 * @property {bigint} last and its greatest
 */
/**
 * What proves that a number is in the interval it says: one bit an interval, then the bits of answer - first (`above`) and of
 * last - answer (`below`), with the same weights.
 * @typedef {{ number: number, bits: number[], first: bigint[], last: bigint[], above: number, below: number, weights: bigint[] }} Comparison
 */

export const CLIPPED = "clipped";
const ROOT = "weight";
const DEFAULT_STEPS = 1000n;
const DIVIDES = 1e-9;
/** @type {Omit<Column, "name" | "kind">} */
const PLAIN = {
  source: "", offset: 0n, width: 1n, largest: 1n, minimum: 0, step: 2, steps: 1n, level: null, firstBit: -1, weights: [], factors: null, group: "", number: -1,
  first: 0n, last: 0n,
};

/** @param {Column} column whether clipping moves it towards 0; products follow their factors */
export const shrinks = (column) => column.kind === "bounded" || column.kind === "log";

/** The least |z| a clipped row can have here: z keeps the parity of the offset. @param {Column} column */
export const leastOf = (column) => (shrinks(column) ? column.offset & 1n : 1n);

/** Of an interval: 1 if the number's z is in it. @param {Column} column @param {Column} number @param {bigint} z */
export function holds(column, number, z) {
  const answer = (z + number.offset) / 2n;
  return column.first <= answer && answer <= column.last ? 1n : 0n;
}

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
  if (!weights.length) return [];
  const powers = weights.length - 1;
  const last = number >= 1n << BigInt(powers) ? 1n : 0n;
  const rest = number - last * weights[powers];
  return [...Array.from({ length: powers }, (_, i) => (rest >> BigInt(i)) & 1n), last];
}

/** The columns, the bits of each choice (reference first), comparisons, and how many bits there are. @param {Schema} schema */
export function columnsOf(schema) {
  /** @type {Column[]} */
  const columns = [];
  /** @type {number[][]} */
  const choices = [];
  /** @type {Comparison[]} */
  const comparisons = [];
  const whole = withReference(schema);
  let used = 0;
  for (const attribute of schema.attributes) {
    const { name: group, levels } = attribute;
    if (attribute.kind === "categorical") {
      const first = used;
      choices.push(levels.map((_, place) => first + place));
      levels.forEach((level, place) => {
        const name = `${group}_${level}`;
        if (place || whole.has(group)) columns.push({ ...PLAIN, name, kind: "level", source: group, level, firstBit: first + place, weights: [1n], group });
      });
      used += levels.length;
    } else {
      const column = bounded(attribute, used);
      columns.push(column);
      used += column.weights.length;
    }
  }
  for (const derived of schema.derived) {
    const { name } = derived;
    if (derived.kind === "log") {
      const [low, high] = schema.part(name).bounds;
      const [steps, weights] = [DEFAULT_STEPS, bitWeights(DEFAULT_STEPS)];
      const size = { offset: steps, width: steps, largest: steps, steps, minimum: low, step: (high - low) / Number(steps) };
      columns.push({ ...PLAIN, ...size, name, kind: "log", source: String(derived.of[0]), firstBit: used, weights });
      used += weights.length;
    } else if (derived.cuts.length) {
      const number = columns.findIndex((column) => column.name === derived.of[0]);
      const made = intervals(derived, number, columns[number], used);
      const own = schema.part(name).columns.map((column) => column.name);
      // Below the cut is the reference of a threshold.
      (derived.kind === "threshold" ? ["", ...own] : own).forEach((column, place) => {
        if (!place && !whole.has(name)) return;
        const [first = 0n, last = 0n, firstBit = 0] = [made.first[place], made.last[place], made.bits[place]];
        columns.push({ ...PLAIN, name: column, kind: "interval", firstBit, weights: [1n], group: name, number, first, last });
      });
      choices.push(made.bits);
      comparisons.push(made);
      used = made.below + made.weights.length;
    } else {
      columns.push(...products(schema, derived, columns));
    }
  }
  return { columns, choices, comparisons, used };
}

/** The choices whose reference level is a column too. @param {Schema} schema */
function withReference(schema) {
  const made = new Map(schema.derived.map((derived) => [derived.name, derived]));
  const references = new Map([...schema.groups].map(([name, levels]) => [`${name}_${levels[0]}`, name]));
  const found = new Set();
  // From the last on: what a product is formed of stands before it.
  for (const derived of [...schema.derived].reverse()) {
    for (const name of derived.of) {
      if (references.has(name)) found.add(references.get(name));
      if (schema.part(name).kind === "choice" && (found.has(derived.name) || made.get(name)?.kind === "product")) found.add(name);
    }
  }
  return found;
}

/** The intervals between the cuts, in the steps of the number's grid; a cut between steps counts from the next on. @param {Derived} derived @param {number} number @param {Column} column @param {number} bit @returns {Comparison} */
function intervals(derived, number, column, bit) {
  const cuts = derived.cuts.map((cut) => BigInt(Math.ceil((cut - column.minimum) / column.step - DIVIDES)));
  const [first, last] = [[0n, ...cuts], [...cuts.map((cut) => cut - 1n), column.steps]];
  const sizes = first.map((start, place) => last[place] - start);
  if (sizes.some((size) => size < 0n)) throw new StudyError("an interval has no step of the number's grid in it", "bad_grid", derived.name);
  const weights = bitWeights(sizes.reduce((most, size) => (size > most ? size : most), 0n));
  const above = bit + first.length;
  return { number, bits: first.map((_, place) => bit + place), first, last, above, below: above + weights.length, weights };
}

/** One number's, or one for every column of its choices. @param {Schema} schema @param {Derived} derived @param {Column[]} columns @returns {Column[]} */
function products(schema, derived, columns) {
  const places = new Map(columns.map((column, place) => [column.name, place]));
  const parts = [derived.of[0], derived.of[derived.of.length - 1]].map((name) => schema.part(String(name)));
  if (parts[0]?.kind === "number" && parts[1]?.kind === "choice") parts.reverse(); // the choice's levels name the columns
  const [ones, others] = [parts[0]?.columns ?? [], parts[1]?.columns ?? []];
  const own = schema.part(derived.name);
  /** @type {Column[]} */
  const found = [];
  ones.forEach((one, row) =>
    others.forEach((other, place) => {
      const both = [places.get(one.name), places.get(other.name)];
      if (both.includes(undefined)) return;
      const [a = 0, b = 0] = /** @type {number[]} */ (both).sort((x, y) => x - y);
      const [first, second] = [columns[a], columns[b]];
      const size = { width: first.width * second.width, largest: first.largest * second.largest };
      const name = String(own.columns[row * others.length + place]?.name);
      found.push({ ...PLAIN, ...size, name, kind: "product", factors: [a, b], group: own.kind === "number" ? "" : derived.name });
    }),
  );
  return found;
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

/** value = constant + sum of coefficient z_j over `terms`. @typedef {{ constant: number, terms: Map<number, number> }} Form */

/** `StudyError` unless each of the schema's columns is a constant and a linear combination of z. @param {Schema} schema @param {Column[]} columns */
export function checkNatural(schema, columns) {
  const places = new Map(columns.map((column, place) => [column.name, place]));
  const derived = new Map(schema.derived.map((item) => [item.name, item]));
  /** @type {Map<string, Form>} */
  const found = new Map();
  for (const column of schema.columns) {
    if (column.source === ONES) continue;
    const made = derived.get(column.source);
    const place = places.get(column.name);
    if (made && (made.kind === "product" || made.kind === "square")) {
      found.set(column.name, product(column, made, schema, columns, found));
    } else if (place !== undefined) {
      const { minimum, step, offset } = columns[place];
      found.set(column.name, { constant: minimum + (step * Number(offset)) / 2, terms: new Map([[place, step / 2]]) });
    } else {
      const others = (schema.groups.get(column.source) ?? []).slice(1).map((level) => Number(places.get(`${column.source}_${level}`)));
      found.set(column.name, { constant: 1, terms: new Map(others.map((j) => [j, -1])) });
    }
  }
}

/**
 * The product of two forms; of a number within a level: of the level and (number - middle).
 * @param {import("../derived.js").Column} column @param {Derived} derived @param {Schema} schema
 * @param {Column[]} columns @param {Map<string, Form>} found @returns {Form}
 */
function product(column, derived, schema, columns, found) {
  const parts = [derived.of[0], derived.of[derived.of.length - 1]].map((name) => schema.part(String(name)));
  if (parts[0]?.kind === "number" && parts[1]?.kind === "choice") parts.reverse();
  const [ones, others] = [parts[0]?.columns ?? [], parts[1]?.columns ?? []];
  const at = schema.part(derived.name).columns.indexOf(column);
  const first = /** @type {Form} */ (found.get(String(ones[Math.floor(at / others.length)]?.name)));
  const second = /** @type {Form} */ (found.get(String(others[at % others.length]?.name)));
  const [a, b] = [first.constant, second.constant - column.middle];
  /** @type {Map<number, number>} */
  const terms = new Map();
  /** @param {number} j @param {number} value */
  const add = (j, value) => terms.set(j, (terms.get(j) ?? 0) + value);
  for (const [j, coefficient] of first.terms) add(j, coefficient * b);
  for (const [j, coefficient] of second.terms) add(j, coefficient * a);
  for (const [j, one] of first.terms) {
    for (const [k, other] of second.terms) {
      const [low, high] = [Math.min(j, k), Math.max(j, k)];
      const place = columns.findLastIndex(({ factors }) => factors !== null && factors[0] === low && factors[1] === high);
      // z is measured from a centre: (z_1 + a)(z_2 + b) z_3 has z_1 z_3 and z_2 z_3 in it.
      if (place < 0) throw new StudyError("declare the products its values come from too", "bad_derived", derived.name);
      add(place, one * other);
    }
  }
  for (const [j, part] of terms) if (!part) terms.delete(j);
  return { constant: a * b, terms };
}
