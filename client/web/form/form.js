// A study's own form: what is asked, in which order, and how answers become the schema's attributes. The port of
// trimask_core.form.form: two programs that show the same form send the same rows.

import { AnswerError } from "../device/errors.js";
import { Question } from "./question.js";
import { FormError, inLanguage } from "./texts.js";

/** @typedef {import("./question.js").QuestionData} QuestionData */
/** @typedef {import("./texts.js").Texts} Texts */
/** @typedef {import("./skip_logic.js").Value} Value */
/** @typedef {import("./question.js").Filled} Filled */
/** @typedef {Record<string, unknown>} Responses as a person gave them, by question */
/** @typedef {{version: string, language: string, text: string}} ConsentText */

/** @typedef {{languages: string[], questions: QuestionData[], title?: Texts, purpose?: Texts, intro?: Texts,
 *   consent?: {version: string, text: Texts}, eligibility?: EligibilityData[], eligibility_first?: boolean}} FormData */
/** @typedef {QuestionData & {eligible?: boolean}} EligibilityData */
/** @typedef {{name: string, headings: Question[], questions: Question[], grid: Question | null}} AskedPage what is shown together */

const KEYS = ["languages", "title", "purpose", "intro", "consent", "eligibility", "eligibility_first", "questions"];

/** A question before the questions: yes_no with the answer wanted, or a number with limits. Never sent. */
export class Eligibility {
  /** @param {EligibilityData} data */
  constructor(data) {
    const { eligible = true, minimum = null, maximum = null, ...question } = data;
    /** @type {boolean} */ this.eligible = eligible;
    /** @type {number | null} */ this.minimum = minimum;
    /** @type {number | null} */ this.maximum = maximum;
    // Without its limits: an answer outside them is a good answer.
    this.asked = new Question(question);
  }

  /** Whether this answer lets a person take part.
   * @param {Value | null} value */
  met(value) {
    if (this.asked.kind === "yes_no") return value === this.eligible;
    if (typeof value !== "number") return false;
    return (this.minimum === null || value >= this.minimum) && (this.maximum === null || value <= this.maximum);
  }
}

/** The form. The first language is the default. `questions` are as written, `parts` those that take an answer. */
export class Form {
  /** @param {FormData} data as in the study */
  constructor(data) {
    for (const key of Object.keys(data)) {
      if (!KEYS.includes(key)) throw new FormError(`form has ${key}, which this page does not know`);
    }
    /** @type {string[]} */ this.languages = data.languages;
    /** @type {Texts | null} */ this.title = data.title ?? null;
    /** @type {Texts | null} */ this.purpose = data.purpose ?? null;
    /** @type {Texts | null} */ this.intro = data.intro ?? null;
    /** @type {{version: string, text: Texts} | null} */ this.agreement = data.consent ?? null;
    /** @type {Eligibility[]} */
    this.eligibility = (data.eligibility ?? []).map((item) => new Eligibility(item));
    /** @type {boolean} whether it comes before the consent */ this.eligibilityFirst = data.eligibility_first ?? false;
    /** @type {Question[]} */
    this.questions = data.questions.map((item) => new Question(item));
    this.parts = this.questions.flatMap((question) => question.parts);
  }

  /** The form's language nearest to the one wanted ("de-AT" -> "de"), else its first.
   * @param {string | null} wanted */
  language(wanted) {
    const tag = (wanted ?? "").replaceAll("_", "-").split(".", 1).join("").toLowerCase();
    const same = this.languages.find((language) => language.toLowerCase() === tag);
    if (same !== undefined) return same;
    const [first] = tag.split("-");
    return (tag && this.languages.find((language) => language.toLowerCase().split("-")[0] === first)) || (this.languages[0] ?? "en");
  }

  /** The consent to be shown and signed, if the form has one.
   * @param {string} language @returns {ConsentText | null} */
  consent(language) {
    if (this.agreement === null) return null;
    const chosen = this.language(language);
    return { version: this.agreement.version, language: chosen, text: inLanguage(this.agreement.text, chosen) };
  }

  /** Whether these answers let a person take part; `AnswerError` for one that is missing or is no answer.
   * @param {Responses} responses @param {string} language */
  eligible(responses, language) {
    const chosen = this.language(language);
    const checked = this.eligibility.map((item) => ({ item, value: item.asked.check(own(responses, item.asked.name), chosen) }));
    return checked.every(({ item, value }) => item.met(value));
  }

  /** The questions to answer now, in order: those whose condition holds with the answers given so far.
   * @param {Responses} responses @param {string} language @returns {Question[]} */
  questionsFor(responses, language) {
    return this.pagesFor(responses, language).flatMap((page) => page.questions);
  }

  /** `questionsFor` as it is shown: with the headings before a question, and a grid's rows together.
   * @param {Responses} responses @param {string} language @returns {AskedPage[]} */
  pagesFor(responses, language) {
    const chosen = this.language(language);
    /** @type {Map<string, Value | null>} */
    const values = new Map();
    /** @type {AskedPage[]} */
    const pages = [];
    /** @type {Question[]} */
    let headings = [];
    let afterQuestion = true;
    for (const question of this.questions) {
      const here = question.relevant === null || question.relevant.holds(values);
      if (question.kind === "heading") {
        // A section whose questions were all skipped leaves no heading behind.
        if (afterQuestion) headings = [];
        if (here) headings.push(question);
      } else if (here) {
        for (const part of question.parts) values.set(part.name, good(part, own(responses, part.name), chosen));
        const grid = question.kind === "grid" ? question : null;
        pages.push({ name: question.name, headings, questions: question.parts, grid });
        headings = [];
      }
      afterQuestion = question.kind !== "heading";
    }
    return pages;
  }

  /** What is masked and sent. An answer to a question that is not shown is left out.
   * @param {Responses} responses @param {string} language @returns {Record<string, Filled>} */
  answers(responses, language) {
    const chosen = this.language(language);
    const known = new Set([...this.parts, ...this.eligibility.map((item) => item.asked)].map((question) => question.name));
    const unknown = Object.keys(responses).filter((name) => !known.has(name)).sort();
    if (unknown.length > 0) throw new AnswerError(unknown[0] ?? "", "is not asked by this form");
    /** @type {Map<string, Value | null>} */
    const values = new Map();
    /** @type {Record<string, Filled>} */
    const filled = {};
    for (const question of this.parts) {
      let value = null;
      if (question.relevant === null || question.relevant.holds(values)) {
        value = question.check(own(responses, question.name), chosen);
        values.set(question.name, value);
      }
      Object.assign(filled, question.encode(value));
    }
    return filled;
  }
}

/** The plain form of a study that has none: one question an attribute, in the schema's own words.
 * @param {{name: string, kind: string, minimum: number | null, maximum: number | null, levels: string[], label: string, unit: string}[]} attributes
 * @param {string} [language] @returns {Form} */
export function formForSchema(attributes, language = "en") {
  /** @type {Record<string, string>} */
  const kinds = { continuous: "number", integer: "integer", binary: "yes_no", categorical: "single_choice" };
  const texts = (/** @type {string} */ text) => ({ [language]: text });
  const questions = attributes.map(({ name, kind, minimum, maximum, levels, label, unit }) => ({
    name,
    kind: kinds[kind] ?? kind,
    label: texts(label || name),
    ...(unit ? { unit: texts(unit) } : {}),
    ...(minimum === null ? {} : { minimum }),
    ...(maximum === null ? {} : { maximum }),
    choices: levels.map((level) => ({ value: level, label: texts(level) })),
  }));
  return new Form({ languages: [language], questions });
}

/** The value, or null where there is no good answer yet: as if not answered.
 * @param {Question} question @param {unknown} answer @param {string} language */
function good(question, answer, language) {
  try {
    return question.check(answer, language);
  } catch (error) {
    if (error instanceof AnswerError) return null;
    throw error;
  }
}

/** @param {Responses} responses @param {string} name */
const own = (responses, name) => (Object.hasOwn(responses, name) ? responses[name] : undefined);
