/** Clipping to an ellipsoid around a public centre, before a row is rounded and masked: `trimask_core.clipping`. */
import { ONES } from "./derived.js";
import { StudyError } from "./errors.js";
import { fsum } from "./floats.js";
import { items, keysOf, objectOf, realOf, textOf } from "./reading.js";

/** @typedef {import("./json.js").Json} Json */
/** @typedef {import("./schema.js").Schema} Schema */

/** Columns with their public centre and deviations in original units, and the radius C of the ball. */
export class Clipping {
  /** @param {Json} data @param {Schema} schema */
  constructor(data, schema) {
    const given = objectOf(data, "clipping");
    keysOf(given, ["columns", "centre", "deviations", "radius"], "clipping");
    this.columns = items(given["columns"], "clipping.columns").map((name) => textOf(name, "clipping.columns"));
    this.centre = items(given["centre"], "clipping.centre").map((value) => realOf(value, "clipping.centre"));
    this.deviations = items(given["deviations"], "clipping.deviations").map((v) => realOf(v, "clipping.deviations"));
    this.radius = realOf(given["radius"], "clipping.radius");
    const count = this.columns.length;
    if (!count || this.centre.length !== count || this.deviations.length !== count) {
      throw new StudyError("give each column one centre and one deviation", "", "clipping");
    }
    if (new Set(this.columns).size !== count) throw new StudyError("names a column twice", "clipping", "clipping");
    if (![...this.deviations, this.radius].every((value) => value > 0)) {
      throw new StudyError("needs deviations and radius above 0", "clipping", "clipping");
    }
    this.#chosen = this.columns.map((name, place) => {
      const at = schema.columns.findIndex((column) => column.name === name);
      const column = schema.columns[at];
      if (!column || name === ONES || column.level !== null) {
        throw new StudyError(`${name} is not a numeric column of this study`, "clipping", "clipping");
      }
      if (Math.abs(Number(this.centre[place]) - column.center) > column.halfRange) {
        throw new StudyError(`the centre of ${name} must be within its bounds`, "clipping", "clipping");
      }
      return { at, column };
    });
  }
  #chosen;

  /** The scaled row with its declared columns inside the ball. @param {number[]} row */
  apply(row) {
    const total = fsum(this.deviations);
    const moved = this.#chosen.map(({ at, column }, place) => {
      const scaling = 1 / Math.sqrt(Number(this.deviations[place]) * total);
      const middle = (Number(this.centre[place]) - column.center) / column.halfRange;
      return { at, middle, weight: scaling * column.halfRange, away: Number(row[at]) - middle };
    });
    const norm = Math.sqrt(fsum(moved.map(({ weight, away }) => weight * away * (weight * away))));
    const clipped = [...row];
    if (norm > this.radius) {
      const keep = this.radius / norm;
      for (const { at, middle, away } of moved) clipped[at] = middle + keep * away;
    }
    return clipped;
  }
}
