// One question of a form: its settings, and the attributes its answer fills. The port of trimask_core.form.question; what a kind
// of question is, `kinds.js` says.

import { AnswerError } from "../device/errors.js";
import { KINDS } from "./kinds.js";
import { Unread } from "./parse_input.js";
import { strip } from "./plain_text.js";
import { readCondition } from "./skip_logic.js";
import { FormError, inLanguage, words } from "./texts.js";

/** @typedef {import("./skip_logic.js").Value} Value */
/** @typedef {import("./texts.js").Texts} Texts */
/** @typedef {{value: string, label: Texts, exclusive?: boolean}} Choice */
/** @typedef {{name: string, label: Texts, missing_indicator?: string}} GridRow */
/** @typedef {boolean | number | string} Filled */
/** @typedef {{name: string, kind: string, label: Texts, help?: Texts, unit?: Texts, required?: boolean, relevant?: string,
 *   message?: Texts, minimum?: number, maximum?: number, step?: number, choices?: Choice[], rows?: GridRow[], count?: string,
 *   origin?: string, earliest?: string, latest?: string, missing?: Filled, missing_indicator?: string}} QuestionData */

const KEYS = [
  "name", "kind", "label", "help", "unit", "required", "relevant", "message", "minimum", "maximum", "step", "choices", "rows",
  "count", "origin", "earliest", "latest", "missing", "missing_indicator",
];
// What a question's own message is said for.
const LIMITS = ["between", "step", "dates", "outside", "times", "outside_time"];

/** A question. `minimum` and `maximum` limit the attribute's value (for a date or a time, the count). */
export class Question {
  /** @param {QuestionData} data as in the study */
  constructor(data) {
    for (const key of Object.keys(data)) {
      if (!KEYS.includes(key)) throw new FormError(`form.questions.${data.name} has ${key}, which this page does not know`);
    }
    const rules = Object.hasOwn(KINDS, data.kind) ? KINDS[data.kind] : undefined;
    if (rules === undefined) throw new FormError(`form.questions.${data.name}: this page does not know ${data.kind} questions`);
    /** @type {QuestionData} */ this.data = data;
    /** @type {string} */ this.name = data.name;
    /** @type {string} */ this.kind = data.kind;
    /** @type {import("./kinds.js").Kind} what its kind says */ this.rules = rules;
    /** @type {Texts} */ this.label = data.label;
    /** @type {Texts | null} */ this.help = data.help ?? null;
    /** @type {Texts | null} */ this.unit = data.unit ?? null;
    /** @type {boolean} */ this.required = data.required ?? true;
    /** @type {import("./skip_logic.js").Node | null} */
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
    this.parts = rules.parts(this);
  }

  /** One line of a grid.
   * @param {GridRow} row */
  line(row) {
    const { required, relevant, choices, missing } = this.data;
    return new Question(/** @type {QuestionData} */ ({ ...row, kind: "single_choice", required, relevant, choices, missing }));
  }

  /** The answer as a value; null for no answer to an optional question. Throws `AnswerError` in this language.
   * @param {unknown} answer @param {string} language @returns {Value | null} */
  check(answer, language) {
    const nothing = answer == null || (Array.isArray(answer) && answer.length === 0);
    if (nothing || (typeof answer === "string" && strip(answer) === "")) {
      if (this.required) throw new AnswerError(this.name, words(language, "needed"));
      return null;
    }
    try {
      return this.rules.read(this, answer, language);
    } catch (error) {
      if (!(error instanceof Unread)) throw error;
      const own = this.message !== null && LIMITS.includes(error.reason) ? this.message : null;
      throw new AnswerError(this.name, own ? inLanguage(own, language) : words(language, error.reason, error.values));
    }
  }

  /** The attributes of a checked value; of null, the declared encoding of a missing answer.
   * @param {Value | null} value @returns {Record<string, Filled>} */
  encode(value) {
    const filled = this.missingIndicator ? { [this.missingIndicator]: value === null } : {};
    if (value !== null) return { ...filled, ...this.rules.encode(this, value) };
    const { missing } = this;
    if (missing === null) throw new AnswerError(this.name, "an answer is needed");
    return { ...filled, ...Object.fromEntries(this.rules.attributes(this).map((name) => [name, missing])) };
  }

  /** A multiple choice after one of its answers was pressed: an exclusive one and the rest put each other out.
   * @param {string[]} chosen @param {string} value @returns {string[]} */
  toggled(chosen, value) {
    if (chosen.includes(value)) return chosen.filter((one) => one !== value);
    const alone = new Set(this.choices.filter((choice) => choice.exclusive).map((choice) => choice.value));
    const kept = alone.has(value) ? [] : chosen.filter((one) => !alone.has(one));
    return this.choices.map((choice) => choice.value).filter((one) => one === value || kept.includes(one));
  }

  /** What is offered, as [value, label]; for yes_no the two words.
   * @param {string} language */
  offered(language) {
    return this.rules.offered(this, language);
  }

  /** A checked value in words, as a review shows what was understood; empty for no answer.
   * @param {Value | null} value @param {string} language */
  shown(value, language) {
    return value === null ? "" : this.rules.show(this, value, language);
  }
}
