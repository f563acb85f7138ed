/** From z back to the schema's own columns: a study whose columns could not be found from the sums is refused: `trimask_core.moments.columns`. */
import { ONES } from "../derived.js";
import { StudyError } from "../errors.js";

/** @typedef {import("./column.js").Column} Column */
/** @typedef {import("../schema.js").Schema} Schema */
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
 * @param {import("../derived.js").Column} column @param {import("../derived.js").Derived} derived @param {Schema} schema
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
