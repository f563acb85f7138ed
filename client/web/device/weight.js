/** How much a person's answers count, by which a device scales its row: `trimask_core.study.weight`. */
import { StudyError } from "./errors.js";
import { items, keysOf, objectOf, realOf, textOf, wholeOf } from "./reading.js";

const LARGEST_RATIO = 10000;
const MOST_STEPS = 1024;

/** @param {string} problem @returns {never} */
function impossible(problem) {
  throw new StudyError(problem, "weight", "weight");
}

/** The answer to a numeric attribute, or a table by the levels of a choice or of bins. */
export class Weight {
  /** @param {import("./json.js").Json | undefined} data @param {import("./schema.js").Schema} schema */
  constructor(data, schema) {
    const given = objectOf(data, "weight");
    keysOf(given, ["attribute", "weights", "steps"], "weight");
    this.attribute = textOf(given["attribute"], "weight.attribute");
    this.weights = items(given["weights"], "weight.weights").map((value) => realOf(value, "weight.weights", true));
    /** S of the moments suite: the root of the largest weight in whole steps; 0 in the rows suite. */
    this.steps = wholeOf(given["steps"], "weight.steps");
    if (!this.weights.every((value) => value > 0)) impossible("weights must be above 0");
    if (!(0 <= this.steps && this.steps <= MOST_STEPS)) impossible(`steps must be between 0 and ${MOST_STEPS}`);
    if (!schema.ones) impossible("a weighted study needs the ones column");
    const derived = schema.derived.find((item) => item.name === this.attribute);
    const attribute = schema.attributes.find((item) => item.name === (derived?.kind === "bins" ? derived.of[0] : this.attribute));
    const levels = derived?.kind === "bins" ? derived.levels : attribute?.kind === "categorical" ? attribute.levels : null;
    const number = attribute && ["continuous", "integer"].includes(attribute.kind) && derived === undefined;
    if (!attribute || (this.weights.length ? levels === null || levels.length !== this.weights.length : !number)) {
      impossible("must be by a numeric attribute, or by the levels of a choice or of bins, a number for each");
    }
    const [low, high] = this.weights.length ? [Math.min(...this.weights), Math.max(...this.weights)] : attribute.bounds;
    if (!(low > 0)) impossible("the least weight must be above 0");
    if (high > LARGEST_RATIO * low) impossible(`the greatest weight is more than ${LARGEST_RATIO} times the least`);
    this.bounds = /** @type {[number, number]} */ ([low, high]);
    /** The attribute that is asked: bins are of one. */
    this.asked = attribute.name;
    this.#levels = levels ?? [];
    this.#cuts = derived?.cuts ?? [];
  }
  #levels;
  #cuts;

  /** w of a person. @param {Map<string, number | string>} values as `Schema.read` gives them @returns {number} */
  of(values) {
    const value = values.get(this.asked);
    if (!this.weights.length) return Number(value);
    const place = typeof value === "string" ? this.#levels.indexOf(value) : this.#cuts.filter((cut) => Number(value) >= cut).length;
    return Number(this.weights[place]);
  }

  /** The root of w / w_max, by which the rows suite multiplies a row. @param {number} weight */
  root(weight) {
    return Math.sqrt(weight / this.bounds[1]);
  }

  /** s of 1..S: halves are rounded up, and nobody counts nothing. @param {number} weight */
  wholeRoot(weight) {
    return BigInt(Math.min(this.steps, Math.max(1, Math.floor(this.steps * this.root(weight) + 0.5))));
  }
}
