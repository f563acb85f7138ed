/** The attributes a study asks for, and how answers become a row of numbers in [-1, 1]: `trimask_core.schema`. */
import { AnswerError, StudyError } from "./errors.js";
import { naturalLog } from "./floats.js";
import { items, keysOf, objectOf, realOf, textOf } from "./reading.js";

/** @typedef {import("./json.js").Json} Json */
/** @typedef {"continuous" | "integer" | "binary" | "categorical"} AttributeKind */
/** @typedef {"square" | "product" | "log"} DerivedKind */
/** @typedef {{ name: string, center: number, halfRange: number, level: string | null }} Column */
/** @typedef {Record<string, unknown>} Answers */

export const ONES = "one";
const NAME = /^[A-Za-z][A-Za-z0-9_]{0,62}$/;
const NUMBER = /^\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*$/;
const [TRUE, FALSE] = [["yes", "true", "1"], ["no", "false", "0"]];

/** @param {string} reason @param {string} problem @param {string} field @returns {never} */
function impossible(reason, problem, field) {
  throw new StudyError(problem, reason, field);
}

/** @param {string} name */
function checkName(name) {
  if (!NAME.test(name) || name === ONES) {
    impossible("bad_name", `use a letter, then letters, digits and _, and not '${ONES}'`, name);
  }
  return name;
}

/** @param {string} name @param {number} low @param {number} high @returns {Column} */
const scaled = (name, low, high) => ({ name, center: (low + high) / 2, halfRange: (high - low) / 2, level: null });

/** The clamp only removes a last-bit overshoot of the division. @param {Column} column @param {number} value */
const scaleTo = (column, value) => Math.min(1, Math.max(-1, (value - column.center) / column.halfRange));

/** One thing a person is asked. */
export class Attribute {
  /** @param {Json} data */
  constructor(data) {
    const given = objectOf(data, "schema.attributes");
    this.name = checkName(textOf(given["name"], "schema.attributes.name"));
    const kind = textOf(given["kind"], this.name);
    if (!["continuous", "integer", "binary", "categorical"].includes(kind)) {
      impossible("bad_kind", "kind must be one of continuous, integer, binary, categorical", this.name);
    }
    this.kind = /** @type {AttributeKind} */ (kind);
    const own = kind === "categorical" ? ["levels"] : kind === "binary" ? [] : ["minimum", "maximum"];
    const grid = kind === "continuous" ? ["step", "centre", "scale"] : kind === "integer" ? ["centre", "scale"] : [];
    keysOf(given, ["name", "kind", "label", "unit", ...own], this.name, grid);
    this.label = textOf(given["label"], this.name);
    this.unit = textOf(given["unit"], this.name);
    this.levels = kind === "categorical" ? items(given["levels"], this.name).map((level) => textOf(level, this.name)) : [];
    if (kind === "categorical") this.#checkLevels();
    /** @param {string} key @returns {number | null} always written with a point: `minimum` 0 is 0.0 */
    const number = (key) => (key in given ? realOf(given[key], `${this.name}.${key}`, true) : null);
    this.bounds = /** @type {[number, number]} */ ([number("minimum") ?? 0, number("maximum") ?? 1]);
    if (!(this.bounds[0] < this.bounds[1])) impossible("bounds_reversed", "minimum must be below maximum", this.name);
    this.step = number("step");
    this.centre = number("centre");
    this.scale = number("scale");
    for (const value of [this.step, this.scale]) {
      if (value !== null && !(value > 0)) impossible("bad_grid", "step and scale must be above 0", this.name);
    }
    if (this.centre !== null && !(this.bounds[0] <= this.centre && this.centre <= this.bounds[1])) {
      impossible("bad_grid", "centre must be between its bounds", this.name);
    }
  }

  #checkLevels() {
    if (this.levels.length < 2 || new Set(this.levels).size !== this.levels.length) {
      impossible("bad_levels", "give at least two different levels", this.name);
    }
    if (!this.levels.every((level) => /^[A-Za-z0-9_]+$/.test(level))) {
      impossible("bad_levels", "levels may have letters, digits and _ only", this.name);
    }
  }

  /** The answer as a number (or a level), or `AnswerError`. Never clipped. @param {unknown} answer @returns {number | string} */
  read(answer) {
    if (this.kind === "categorical") {
      if (typeof answer !== "string" || !this.levels.includes(answer)) {
        throw new AnswerError(this.name, `choose one of ${this.levels.join(", ")}`);
      }
      return answer;
    }
    if (this.kind === "binary") {
      const word = String(answer).trim().toLowerCase();
      if (TRUE.includes(word)) return 1;
      if (FALSE.includes(word)) return 0;
      throw new AnswerError(this.name, "answer yes or no");
    }
    const written = typeof answer === "string" && NUMBER.test(answer);
    if (typeof answer !== "number" && !written) throw new AnswerError(this.name, "give a number");
    const value = Number(answer);
    if (!Number.isFinite(value)) throw new AnswerError(this.name, "give a finite number");
    const [low, high] = this.bounds;
    if (!(low <= value && value <= high)) {
      throw new AnswerError(this.name, `must be between ${low} and ${high}${this.unit && ` ${this.unit}`}`);
    }
    if (this.kind === "integer" && !Number.isInteger(value)) throw new AnswerError(this.name, "give a whole number");
    return value;
  }
}

/** A column formed on the device from answers: the square, the product, or the logarithm. */
export class Derived {
  /** @param {Json} data */
  constructor(data) {
    const given = objectOf(data, "schema.derived");
    keysOf(given, ["name", "kind", "of"], "schema.derived");
    this.name = checkName(textOf(given["name"], "schema.derived.name"));
    const kind = textOf(given["kind"], this.name);
    if (!["square", "product", "log"].includes(kind)) {
      impossible("bad_kind", "kind must be one of square, product, log", this.name);
    }
    this.kind = /** @type {DerivedKind} */ (kind);
    this.of = items(given["of"], this.name).map((name) => textOf(name, this.name));
    if (this.of.length !== (kind === "product" ? 2 : 1)) {
      impossible("bad_derived", `a ${kind} is of ${kind === "product" ? "two" : "one"}`, this.name);
    }
  }

  /** From the bounds of what it is formed from. @param {[number, number][]} sources @returns {[number, number]} */
  bounds(sources) {
    const [low, high] = /** @type {[number, number]} */ (sources[0]);
    if (this.kind === "log") {
      if (low <= 0) impossible("bad_derived", "a logarithm needs an attribute with minimum > 0", this.name);
      return [naturalLog(low), naturalLog(high)];
    }
    const other = /** @type {[number, number]} */ (sources[sources.length - 1]);
    const corners = this.kind === "square" ? [low * low, high * high] : [low, high].flatMap((a) => other.map((b) => a * b));
    const least = this.kind === "square" && low <= 0 && 0 <= high ? 0 : Math.min(...corners);
    return [least, Math.max(...corners)];
  }

  /** @param {number[]} values */
  form(values) {
    const [first, last] = [Number(values[0]), Number(values[values.length - 1])];
    return this.kind === "log" ? naturalLog(first) : first * last;
  }
}

/** Attributes, derived columns and the ones column. */
export class Schema {
  /** @param {Json} data */
  constructor(data) {
    const given = objectOf(data, "schema");
    keysOf(given, ["attributes", "derived", "ones"], "schema");
    this.attributes = items(given["attributes"], "schema.attributes").map((item) => new Attribute(item));
    this.derived = items(given["derived"], "schema.derived").map((item) => new Derived(item));
    if (typeof given["ones"] !== "boolean") throw new StudyError("must be true or false", "", "schema.ones");
    this.ones = given["ones"];
    if (!this.attributes.length) impossible("no_attributes", "a study needs at least one attribute", "schema.attributes");
    this.columns = this.#columns();
    const named = [...this.attributes, ...this.derived].map((item) => item.name);
    for (const names of [named, this.columns.map((column) => column.name)]) {
      const twice = names.find((name, place) => names.indexOf(name) !== place);
      if (twice !== undefined) impossible("bad_name", "is named twice", twice);
    }
  }

  /** The largest norm a row can have: 1 for the ones column, each scaled value and each group of levels. */
  get rowNorm() {
    return Math.sqrt(Number(this.ones) + this.attributes.length + this.derived.length);
  }

  /** @param {Derived} derived */
  boundsOf(derived) {
    const sources = derived.of.map((name) => {
      const found = this.attributes.find((item) => item.name === name && item.kind !== "categorical");
      return found?.bounds ?? impossible("bad_derived", `${name} is not a numeric attribute of this study`, derived.name);
    });
    const [low, high] = derived.bounds(sources);
    if (!(Number.isFinite(low) && Number.isFinite(high) && low < high)) {
      impossible("bad_derived", "its bounds are not finite or not apart", derived.name);
    }
    return /** @type {[number, number]} */ ([low, high]);
  }

  /** @returns {Column[]} the p1 columns, in the order of the row */
  #columns() {
    /** @type {Column[]} */
    const columns = this.ones ? [{ name: ONES, center: 0, halfRange: 1, level: null }] : [];
    for (const attribute of this.attributes) {
      if (attribute.kind === "categorical") {
        for (const level of attribute.levels) columns.push({ name: `${attribute.name}_${level}`, center: 0, halfRange: 1, level });
      } else {
        columns.push(scaled(attribute.name, ...attribute.bounds));
      }
    }
    for (const derived of this.derived) columns.push(scaled(derived.name, ...this.boundsOf(derived)));
    return columns;
  }

  /** Each attribute's number or level; `AnswerError` for what is missing, unknown, mistyped or out of bounds. @param {Answers} answers */
  read(answers) {
    const known = new Set(this.attributes.map((attribute) => attribute.name));
    const unknown = Object.keys(answers).sort().find((name) => !known.has(name));
    if (unknown !== undefined) throw new AnswerError(unknown, "is not asked by this study");
    /** @type {Map<string, number | string>} */
    const values = new Map();
    for (const attribute of this.attributes) {
      const answer = Object.hasOwn(answers, attribute.name) ? answers[attribute.name] : undefined;
      if (answer === undefined || answer === null) throw new AnswerError(attribute.name, "an answer is needed");
      values.set(attribute.name, attribute.read(answer));
    }
    return values;
  }

  /** The row x1, scaled. @param {Answers} answers */
  encode(answers) {
    const values = this.read(answers);
    const row = this.ones ? [1] : [];
    for (const attribute of this.attributes) {
      const value = values.get(attribute.name);
      if (typeof value === "string") row.push(...attribute.levels.map((level) => Number(level === value)));
      else row.push(scaleTo(scaled(attribute.name, ...attribute.bounds), Number(value)));
    }
    for (const derived of this.derived) {
      const [low, high] = this.boundsOf(derived);
      const value = Math.min(Math.max(derived.form(derived.of.map((name) => Number(values.get(name)))), low), high);
      row.push(scaleTo(scaled(derived.name, low, high), value));
    }
    return row;
  }
}
