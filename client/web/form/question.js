// One question of a form: what a person sees, and which attributes it fills. The port of trimask_core.form.question and .asked.

import { checkAnswer } from "./answering.js";
import { countDate, countTime } from "./counting.js";
import { readDay } from "./dates.js";
import { AnswerError, FormError } from "./errors.js";
import { words } from "./form_words.js";
import { readCondition } from "./relevance.js";
import { inLanguage } from "./texts.js";
import { showDate, showNumber } from "./writing.js";

/** @typedef {import("./relevance.js").Value} Value */
/** @typedef {import("./relevance.js").Node} Condition */
/** @typedef {import("./texts.js").Texts} Texts */
/** @typedef {{value: string, label: Texts, exclusive?: boolean}} Choice */
/** @typedef {{name: string, label: Texts, missing_indicator?: string}} GridRow */
/** @typedef {boolean | number | string} Filled */
/** @typedef {{name: string, kind: string, label: Texts, help?: Texts, unit?: Texts, required?: boolean, relevant?: string,
 *   message?: Texts, minimum?: number, maximum?: number, step?: number, choices?: Choice[], rows?: GridRow[], count?: string,
 *   origin?: string, earliest?: string, latest?: string, missing?: Filled, missing_indicator?: string}} QuestionData */

const KINDS = [
  "number", "integer", "slider", "yes_no", "single_choice", "multiple_choice", "date", "time", "grid", "heading",
];
const KEYS = [
  "name", "kind", "label", "help", "unit", "required", "relevant", "message", "minimum", "maximum", "step", "choices", "rows",
  "count", "origin", "earliest", "latest", "missing", "missing_indicator",
];

/** A question. `minimum` and `maximum` limit the attribute's value (for a date or a time, the count). */
export class Question {
  /** @param {QuestionData} data as in the study */
  constructor(data) {
    for (const key of Object.keys(data)) {
      if (!KEYS.includes(key)) throw new FormError(`form.questions.${data.name} has ${key}, which this page does not know`);
    }
    if (!KINDS.includes(data.kind)) throw new FormError(`form.questions.${data.name}: this page does not know ${data.kind} questions`);
    /** @type {QuestionData} */ this.data = data;
    /** @type {string} */ this.name = data.name;
    /** @type {string} */ this.kind = data.kind;
    /** @type {Texts} */ this.label = data.label;
    /** @type {Texts | null} */ this.help = data.help ?? null;
    /** @type {Texts | null} */ this.unit = data.unit ?? null;
    /** @type {boolean} */ this.required = data.required ?? true;
    /** @type {Condition | null} */
    this.relevant = data.relevant == null ? null : readCondition(data.relevant, `form.questions.${data.name}.relevant`);
    /** @type {Texts | null} */ this.message = data.message ?? null;
    /** @type {number | null} */ this.minimum = data.minimum ?? null;
    /** @type {number | null} */ this.maximum = data.maximum ?? null;
    /** @type {number | null} */ this.step = data.step ?? null;
    /** @type {Choice[]} */ this.choices = data.choices ?? [];
    /** @type {GridRow[]} */ this.rows = data.rows ?? [];
    /** @type {string | null} */ this.count = data.count ?? null;
    /** @type {string} */ this.origin = data.origin ?? "";
    /** @type {string} */ this.earliest = data.earliest ?? "";
    /** @type {string} */ this.latest = data.latest ?? "";
    /** @type {Filled | null} */ this.missing = data.missing ?? null;
    /** @type {string} */ this.missingIndicator = data.missing_indicator ?? "";
    /** @type {Question[]} the questions that take an answer: itself, a grid's rows, or for a heading none */
    this.parts = this.kind === "heading" ? [] : this.kind === "grid" ? this.rows.map((row) => this.line(row)) : [this];
  }

  /** @param {GridRow} row */
  line(row) {
    const { required, relevant, choices, missing } = this.data;
    return new Question(/** @type {QuestionData} */ ({ ...row, kind: "single_choice", required, relevant, choices, missing }));
  }

  /** The attributes it fills, the indicator of a missing answer not among them. */
  get attributes() {
    if (this.kind === "multiple_choice") return this.choices.map((choice) => `${this.name}_${choice.value}`);
    return this.kind === "grid" ? this.rows.map((row) => row.name) : this.kind === "heading" ? [] : [this.name];
  }

  /** The answer as a value; null for no answer to an optional question. Throws `AnswerError` in this language.
   * @param {unknown} answer @param {string} language @returns {Value | null} */
  check(answer, language) {
    return checkAnswer(this, answer, language);
  }

  /** The attributes of a checked value; of null, the declared encoding of a missing answer.
   * @param {Value | null} value @returns {Record<string, Filled>} */
  encode(value) {
    /** @type {Record<string, Filled>} */
    const filled = {};
    if (this.missingIndicator) filled[this.missingIndicator] = value === null;
    if (value === null) {
      if (this.missing === null) throw new AnswerError(this.name, "an answer is needed");
      for (const name of this.attributes) filled[name] = this.missing;
    } else if (Array.isArray(value)) {
      for (const choice of this.choices) filled[`${this.name}_${choice.value}`] = value.includes(choice.value);
    } else {
      filled[this.name] = this.kind === "date" || this.kind === "time" ? this.counted(String(value)) : value;
    }
    return filled;
  }

  /** A checked date or time as the attribute's number.
   * @param {string} value */
  counted(value) {
    return this.kind === "time" ? countTime(value, this.count, this.origin) : countDate(value, this.count, this.origin);
  }

  /** A multiple choice after one of its answers was pressed: an exclusive one and the rest put each other out.
   * @param {string[]} chosen @param {string} value @returns {string[]} */
  toggled(chosen, value) {
    if (chosen.includes(value)) return chosen.filter((one) => one !== value);
    const alone = new Set(this.choices.filter((choice) => choice.exclusive).map((choice) => choice.value));
    const kept = alone.has(value) ? [] : chosen.filter((one) => !alone.has(one));
    return this.choices.map((choice) => choice.value).filter((one) => one === value || kept.includes(one));
  }

  // As one person sees it

  /** What is offered, as [value, label]; for yes_no the two words.
   * @param {string} language @returns {[string, string][]} */
  offered(language) {
    if (this.kind === "yes_no") return [["yes", words(language, "yes")], ["no", words(language, "no")]];
    return this.choices.map((choice) => [choice.value, inLanguage(choice.label, language)]);
  }

  /** A checked value in words, as a review shows what was understood; empty for no answer.
   * @param {Value | null} value @param {string} language @returns {string} */
  shown(value, language) {
    if (value === null) return "";
    const labels = new Map(this.offered(language));
    if (Array.isArray(value)) return value.map((one) => labels.get(one)).join(", ");
    if (typeof value === "boolean") return words(language, value ? "yes" : "no");
    if (typeof value === "number") return `${showNumber(value, language)} ${this.unit?.[language] ?? ""}`.trim();
    const day = this.kind === "date" ? readDay(value) : null;
    return day === null ? (labels.get(value) ?? value) : showDate(day, language);
  }
}
