/**
 * Columns that the device forms of answers: squares, logarithms, intervals of a number, and products: `trimask_core.study.derived`,
 * where the table of kinds is. A factor of a product is an attribute, a level, or derived before it.
 */
import { StudyError } from "./errors.js";
import { naturalLog } from "./floats.js";
import { items, keysOf, objectOf, realOf, textOf } from "./reading.js";

/** @typedef {"square" | "product" | "log" | "bins" | "threshold"} DerivedKind */
/**
 * One column of the row: scaled = (value - center) / halfRange. `level` is that of an indicator. A column `within` an indicator
 * is a number on its members and 0 elsewhere; its value is (number - middle) there.
 * @typedef {{ name: string, center: number, halfRange: number, source: string, level: string | null, within: string | null, middle: number }} Column
 */
/**
 * What an item of the schema is as a factor: a number, a choice, or a number within a choice, which is no factor.
 * @typedef {object} Part
 * @property {"number" | "choice" | "within"} kind
 * @property {Column[]} columns
 * @property {string[]} levels a choice's, in the order of `columns`
 * @property {boolean} complete whether one of them is always chosen
 * @property {string[]} madeOf the attributes and bins it is formed of
 * @property {[number, number]} bounds a number's
 */

export const ONES = "one";
const NAME = /^[A-Za-z][A-Za-z0-9_]{0,62}$/;
const LEVEL = /^[A-Za-z0-9_]+$/;
const KINDS = ["square", "product", "log", "bins", "threshold"];

/** @param {string} problem @param {string} field @param {string} [reason] @returns {never} */
function impossible(problem, field, reason = "bad_derived") {
  throw new StudyError(problem, reason, field);
}

/** @param {string} name */
export function checkName(name) {
  if (!NAME.test(name) || name === ONES) impossible(`use a letter, then letters, digits and _, and not '${ONES}'`, name, "bad_name");
  return name;
}

/** @param {string[]} levels @param {number} least @param {string} name */
export function checkLevels(levels, least, name) {
  if (levels.length < least || new Set(levels).size !== levels.length) impossible(`give at least ${least} different levels`, name, "bad_levels");
  if (!levels.every((level) => LEVEL.test(level))) impossible("levels may have letters, digits and _ only", name, "bad_levels");
}

/** @param {string} name @param {Partial<Column>} [more] @returns {Column} */
export const columnOf = (name, more = {}) => ({ name, center: 0, halfRange: 1, source: name, level: null, within: null, middle: 0, ...more });

/** Mapped to [-1, 1]; the clamp only removes a last-bit overshoot of the division. @param {Column} column @param {number} value */
export const scaleTo = (column, value) => Math.min(1, Math.max(-1, (value - column.center) / column.halfRange));

/** @param {string} name @param {[number, number]} bounds @param {string[]} [madeOf] @returns {Part} */
export function numberPart(name, bounds, madeOf = [name]) {
  const [low, high] = bounds;
  const column = columnOf(name, { center: (low + high) / 2, halfRange: (high - low) / 2 });
  return { kind: "number", columns: [column], levels: [], complete: false, madeOf, bounds };
}

/** @param {string} name @param {string[]} levels @returns {Part} */
export function choicePart(name, levels) {
  const columns = levels.map((level) => columnOf(`${name}_${level}`, { source: name, level }));
  return { kind: "choice", columns, levels, complete: true, madeOf: [name], bounds: [0, 1] };
}

/** Each level of a choice alone, by the name of its column. @param {Part} part @returns {[string, Part][]} */
export const singles = (part) =>
  part.columns.map((column) => [column.name, { kind: "choice", columns: [column], levels: [""], complete: false, madeOf: part.madeOf, bounds: [0, 1] }]);

/** A column, or a group of columns, formed on the device from answers. */
export class Derived {
  /** @param {import("./json.js").Json} data */
  constructor(data) {
    const given = objectOf(data, "schema.derived");
    this.name = checkName(textOf(given["name"], "schema.derived.name"));
    const kind = textOf(given["kind"], this.name);
    if (!KINDS.includes(kind)) impossible(`kind must be one of ${KINDS.join(", ")}`, this.name, "bad_kind");
    this.kind = /** @type {DerivedKind} */ (kind);
    const own = kind === "bins" ? ["cuts", "levels"] : kind === "threshold" ? ["cuts"] : [];
    keysOf(given, ["name", "kind", "of", ...own], this.name);
    this.of = items(given["of"], this.name).map((name) => textOf(name, this.name));
    if (this.of.length !== (kind === "product" ? 2 : 1)) impossible(`a ${kind} is of ${kind === "product" ? "two" : "one"}`, this.name);
    this.cuts = own.length ? items(given["cuts"], this.name).map((cut) => realOf(cut, `${this.name}.cuts`, true)) : [];
    this.levels = kind === "bins" ? items(given["levels"], this.name).map((level) => textOf(level, this.name)) : [];
    if (own.length && (!this.cuts.length || (kind === "threshold" && this.cuts.length !== 1))) impossible("give cuts; a threshold has one", this.name);
    if (this.cuts.some((cut, place) => place > 0 && cut <= Number(this.cuts[place - 1]))) impossible("cuts must go up", this.name);
    if (kind === "bins") checkLevels(this.levels, this.cuts.length + 1, this.name);
    if (kind === "bins" && this.levels.length !== this.cuts.length + 1) impossible("give a level for each interval", this.name, "bad_levels");
  }

  /** Its columns, from those of what it is formed of; refused where it cannot be formed. @param {Part[]} sources @returns {Part} */
  part(sources) {
    const [first, second = first] = /** @type {[Part, Part?]} */ (sources);
    const [low, high] = first.bounds;
    if (this.cuts.length && !(low < Number(this.cuts[0]) && Number(this.cuts[this.cuts.length - 1]) <= high)) {
      impossible("cuts must be above the least value and at most the greatest", this.name);
    }
    if (this.kind === "bins") return choicePart(this.name, this.levels);
    if (this.kind === "threshold") return numberPart(this.name, [0, 1]);
    if (this.kind !== "product" || (first.kind === "number" && second.kind === "number")) return this.#number(sources);
    return this.#product(first, second);
  }

  /** @param {Part[]} sources */
  #number(sources) {
    const bounds = this.#bounds(sources.map((source) => source.bounds));
    if (!(Number.isFinite(bounds[0]) && Number.isFinite(bounds[1]) && bounds[0] < bounds[1])) {
      impossible("its bounds are not finite or not apart", this.name);
    }
    return numberPart(this.name, bounds, sources.flatMap((source) => source.madeOf));
  }

  /** @param {Part} first @param {Part} second @returns {Part} */
  #product(first, second) {
    if (first.kind === "within" || second.kind === "within") impossible("a number within a choice is no factor", this.name);
    const madeOf = [...first.madeOf, ...second.madeOf];
    /** @param {string} level */
    const named = (level) => (level ? `${this.name}_${level}` : this.name);
    if (first.kind === "choice" && second.kind === "choice") {
      if (first.madeOf.some((name) => second.madeOf.includes(name))) impossible("levels of one choice exclude each other", this.name);
      const levels = first.levels.flatMap((a) => second.levels.map((b) => [a, b].filter(Boolean).join("_")));
      const columns = levels.map((level) => columnOf(named(level), { source: this.name, level: level || "yes" }));
      return { kind: "choice", columns, levels, complete: first.complete && second.complete, madeOf, bounds: [0, 1] };
    }
    const [choice, number] = first.kind === "choice" ? [first, second] : [second, first];
    const held = number.columns[0];
    const columns = choice.levels.map((level, place) =>
      columnOf(named(level), { halfRange: held.halfRange, source: this.name, within: choice.columns[place]?.name ?? null, middle: held.center }),
    );
    return { kind: "within", columns, levels: choice.levels, complete: choice.complete, madeOf, bounds: [0, 1] };
  }

  /** From the bounds of what it is formed from. @param {[number, number][]} sources @returns {[number, number]} */
  #bounds(sources) {
    const [low, high] = /** @type {[number, number]} */ (sources[0]);
    if (this.kind === "log") {
      if (low <= 0) impossible("a logarithm needs an attribute with minimum > 0", this.name);
      return [naturalLog(low), naturalLog(high)];
    }
    const other = /** @type {[number, number]} */ (sources[sources.length - 1]);
    const corners = this.kind === "square" ? [low * low, high * high] : [low, high].flatMap((a) => other.map((b) => a * b));
    const least = this.kind === "square" && low <= 0 && 0 <= high ? 0 : Math.min(...corners);
    return [least, Math.max(...corners)];
  }

  /**
   * The values of its columns in original units, and scaled, from those of what it is formed of.
   * @param {Part} part @param {Part[]} sources @param {number[][]} values @returns {{ made: number[], scaled: number[] }}
   */
  form(part, sources, values) {
    const [first, last] = [values[0], values[values.length - 1]];
    const column = part.columns[0];
    if (this.cuts.length) {
      const at = this.cuts.filter((cut) => Number(first[0]) >= cut).length;
      if (this.kind === "threshold") return { made: [at], scaled: [scaleTo(column, at)] };
      const made = this.levels.map((_, place) => Number(place === at));
      return { made, scaled: made };
    }
    if (part.kind === "choice") {
      const made = first.flatMap((a) => last.map((b) => a * b));
      return { made, scaled: made };
    }
    if (part.kind === "within") {
      const [chosen, value, number] = sources[0]?.kind === "choice" ? [first, Number(last[0]), sources[1]] : [last, Number(first[0]), sources[0]];
      const held = /** @type {Column} */ (number?.columns[0]);
      return {
        made: chosen.map((indicator) => (indicator ? value - held.center : 0)),
        scaled: chosen.map((indicator) => (indicator ? scaleTo(held, value) : 0)),
      };
    }
    const [low, high] = part.bounds;
    const formed = this.kind === "log" ? naturalLog(Number(first[0])) : Number(first[0]) * Number(last[0]);
    const value = Math.min(Math.max(formed, low), high);
    return { made: [value], scaled: [scaleTo(column, value)] };
  }
}
