/** The attributes a study asks for, and how answers become a row of numbers in [-1, 1]: `trimask_core.study.schema`. */
import { checkLevels, checkName, choicePart, columnOf, Derived, numberPart, ONES, scaleTo, singles } from "./derived.js";
import { AnswerError, StudyError } from "./errors.js";
import { items, keysOf, objectOf, realOf, textOf } from "./reading.js";

/** @typedef {import("./json.js").Json} Json */
/** @typedef {"continuous" | "integer" | "binary" | "categorical"} AttributeKind */
/** @typedef {import("./derived.js").Part} Part */
/** @typedef {Record<string, unknown>} Answers */

const NUMBER = /^\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*$/;
const [TRUE, FALSE] = [["yes", "true", "1"], ["no", "false", "0"]];

/** @param {string} reason @param {string} problem @param {string} field @returns {never} */
function impossible(reason, problem, field) {
  throw new StudyError(problem, reason, field);
}

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
    if (kind === "categorical") checkLevels(this.levels, 2, this.name);
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
    const named = [...this.attributes, ...this.derived].map((item) => item.name);
    this.parts = this.#parts();
    /** The p1 columns, in the order of the row. */
    this.columns = [...(this.ones ? [columnOf(ONES)] : []), ...named.flatMap((name) => this.part(name).columns)];
    const columns = this.columns.map((column) => column.name);
    for (const names of [named, columns]) {
      const twice = names.find((name, place) => names.indexOf(name) !== place);
      if (twice !== undefined) impossible("bad_name", "is named twice", twice);
    }
    const level = named.find((name) => columns.includes(name) && this.part(name).columns[0]?.name !== name);
    if (level !== undefined) impossible("bad_name", "is named twice: a level has this name too", level);
    /** Everything of which a person has exactly one: choices, bins and products of those, each with its levels. */
    this.groups = new Map(
      named.filter((name) => this.part(name).kind === "choice" && this.part(name).complete).map((name) => [name, this.part(name).levels]),
    );
  }

  /** The largest norm a row can have: 1 for the ones column, each attribute and each derived item. */
  get rowNorm() {
    return Math.sqrt(Number(this.ones) + this.attributes.length + this.derived.length);
  }

  /** What can be a factor, by name: attributes, single levels, and derived columns. @param {string} name @returns {Part} */
  part(name) {
    return /** @type {Part} */ (this.parts.get(name));
  }

  #parts() {
    /** @type {Map<string, Part>} */
    const found = new Map();
    const choices = this.attributes.filter((item) => item.kind === "categorical");
    for (const item of this.attributes) {
      found.set(item.name, item.kind === "categorical" ? choicePart(item.name, item.levels) : numberPart(item.name, item.bounds));
    }
    for (const { name } of choices) for (const [level, part] of singles(/** @type {Part} */ (found.get(name)))) found.set(level, part);
    const kinds = new Map(this.attributes.map((item) => [item.name, item.kind]));
    for (const derived of this.derived) {
      for (const name of derived.of) {
        if (!found.has(name)) impossible("bad_derived", `${name} is not an attribute of this study, a level, or derived before it`, derived.name);
        const kind = kinds.get(name) ?? "categorical";
        if (derived.kind !== "product" && (kind === "categorical" || (derived.cuts.length && kind === "binary"))) {
          impossible("bad_derived", `${name} is not a numeric attribute of this study`, derived.name);
        }
      }
      const part = derived.part(derived.of.map((name) => /** @type {Part} */ (found.get(name))));
      found.set(derived.name, part);
      if (derived.kind === "bins") for (const [level, single] of singles(part)) found.set(level, single);
    }
    return found;
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
    /** In original units: a number's value, or an indicator a level. @type {Map<string, number[]>} */
    const formed = new Map();
    for (const { name, levels } of this.attributes) {
      const value = values.get(name);
      if (typeof value === "string") {
        const indicators = levels.map((level) => Number(level === value));
        levels.forEach((level, place) => formed.set(`${name}_${level}`, [Number(indicators[place])]));
        formed.set(name, indicators);
        row.push(...indicators);
      } else {
        formed.set(name, [Number(value)]);
        row.push(scaleTo(/** @type {import("./derived.js").Column} */ (this.part(name).columns[0]), Number(value)));
      }
    }
    for (const derived of this.derived) {
      const part = this.part(derived.name);
      const sources = derived.of.map((name) => this.part(name));
      const { made, scaled } = derived.form(part, sources, derived.of.map((name) => /** @type {number[]} */ (formed.get(name))));
      formed.set(derived.name, made);
      part.columns.forEach((column, place) => formed.has(column.name) || formed.set(column.name, [Number(made[place])]));
      row.push(...scaled);
    }
    return row;
  }
}
