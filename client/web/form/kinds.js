// The kinds of question: an object for each, which knows what is particular to it. The port of trimask_core.form.kinds; the page
// chooses what a person answers with by `control`. A study's settings were checked by those who signed it.

import { AnswerError } from "../device/errors.js";
import { countDate, countTime, isoText, readDate, readDay, readNumber, readTime, showDate, showNumber, Unread } from "./parse_input.js";
import { split, strip } from "./plain_text.js";
import { inLanguage, words } from "./texts.js";

/** @typedef {import("./question.js").Question} Question */
/** @typedef {import("./question.js").Filled} Filled */
/** @typedef {import("./skip_logic.js").Value} Value */
/** @typedef {"number" | "slider" | "choices" | "date" | "time"} Control what a person answers with */
/**
 * @typedef {object} Kind
 * @property {Control | null} control null: it takes no answer itself
 * @property {boolean} several whether several of its choices may be taken
 * @property {boolean} whole whether it takes whole numbers alone
 * @property {(question: Question) => Question[]} parts the questions that take an answer
 * @property {(question: Question) => string[]} attributes those it fills, the indicator of a missing answer not among them
 * @property {(question: Question, language: string) => [string, string][]} offered what can be chosen, as value and label
 * @property {(question: Question, answer: unknown, language: string) => Value} read the answer as a value; throws `Unread`
 * @property {(question: Question, value: any) => Record<string, Filled>} encode what a checked value puts into the row
 * @property {(question: Question, value: any, language: string) => string} show a checked value in words
 */

/** @type {Kind} one answer, which fills the attribute of the question's name */
const plain = {
  control: null,
  several: false,
  whole: false,
  parts: (question) => [question],
  attributes: (question) => [question.name],
  offered: (question, language) => question.choices.map((choice) => [choice.value, inLanguage(choice.label, language)]),
  read(question) {
    throw new AnswerError(question.name, `a ${question.kind} takes no answer itself`);
  },
  encode: (question, value) => ({ [question.name]: value }),
  show: (question, value, language) => new Map(question.offered(language)).get(value) ?? String(value),
};

/** @type {Kind} */
const number = {
  ...plain,
  control: "number",
  read: readAmount,
  show: (question, value, language) => `${showNumber(value, language)} ${question.unit?.[language] ?? ""}`.trim(),
};

/** @param {Question} question @param {unknown} answer @param {string} language */
function readAmount(question, answer, language) {
  const whole = question.rules.whole;
  const reason = whole ? "whole" : "number";
  if (typeof answer !== "number" && typeof answer !== "string") throw new Unread(reason);
  const value = typeof answer === "string" ? readNumber(answer, language, reason) : answer;
  if (!Number.isFinite(value)) throw new Unread(reason);
  const [low, high] = [question.minimum, question.maximum];
  if (low !== null && high !== null && !(low <= value && value <= high)) {
    throw new Unread("between", { low: showNumber(low, language), high: showNumber(high, language) });
  }
  if (whole && !Number.isInteger(value)) throw new Unread(reason);
  return value;
}

/** @type {Kind} */
const slider = {
  ...number,
  control: "slider",
  read(question, answer, language) {
    const value = readAmount(question, answer, language);
    const [low, high, step] = [question.minimum, question.maximum, question.step];
    if (step === null || low === null) return value;
    const steps = (value - low) / step;
    if (Math.abs(steps - Math.round(steps)) > 1e-6) {
      throw new Unread("step", { low: showNumber(low, language), step: showNumber(step, language) });
    }
    // The slider's own arithmetic may be a last bit off the mark.
    return Math.min(low + Math.round(steps) * step, high ?? Infinity);
  },
};

/** @type {Kind} */
const yesNo = {
  ...plain,
  control: "choices",
  offered: (_, language) => [["yes", words(language, "yes")], ["no", words(language, "no")]],
  read(_, answer, language) {
    const word = Array.isArray(answer) ? "" : strip(String(answer)).toLowerCase();
    if (["yes", "true", "1", words(language, "yes").toLowerCase()].includes(word)) return true;
    if (["no", "false", "0", words(language, "no").toLowerCase()].includes(word)) return false;
    throw new Unread("yes_no");
  },
  show: (_, value, language) => words(language, value ? "yes" : "no"),
};

/** @type {Kind} */
const singleChoice = {
  ...plain,
  control: "choices",
  read(question, answer) {
    if (typeof answer !== "string" || question.choices.every((choice) => choice.value !== answer)) throw new Unread("choose");
    return answer;
  },
};

/** @type {Kind} */
const multipleChoice = {
  ...singleChoice,
  several: true,
  attributes: (question) => question.choices.map((choice) => `${question.name}_${choice.value}`),
  read(question, answer, language) {
    const given = typeof answer === "string" ? split(answer) : answer;
    const offered = question.choices.map((choice) => choice.value);
    if (!Array.isArray(given) || !given.every((value) => offered.includes(value))) throw new Unread("choose_some");
    const chosen = question.choices.filter((choice) => given.includes(choice.value));
    const alone = chosen.find((choice) => choice.exclusive);
    if (alone !== undefined && chosen.length > 1) throw new Unread("exclusive", { choice: inLanguage(alone.label, language) });
    return chosen.map((choice) => choice.value);
  },
  encode: (question, value) =>
    Object.fromEntries(question.choices.map((choice) => [`${question.name}_${choice.value}`, value.includes(choice.value)])),
  show: (question, value, language) => question.offered(language).filter(([one]) => value.includes(one)).map(([, label]) => label).join(", "),
};

/** @param {Question} question @param {number} counted */
function within({ minimum, maximum }, counted) {
  return minimum === null || maximum === null || (minimum <= counted && counted <= maximum);
}

/** @type {Kind} */
const date = {
  ...plain,
  control: "date",
  read(question, answer, language) {
    const text = isoText(readDate(String(answer), language));
    const { earliest, latest } = question;
    if ((earliest && text < earliest) || (latest && text > latest)) {
      const [low, high] = [readDay(earliest), readDay(latest)];
      if (low === null || high === null) throw new Unread("outside");
      throw new Unread("dates", { low: showDate(low, language), high: showDate(high, language) });
    }
    if (!within(question, countDate(text, question.count, question.origin))) throw new Unread("outside");
    return text;
  },
  encode: (question, value) => ({ [question.name]: countDate(value, question.count, question.origin) }),
  show(_, value, language) {
    const day = readDay(value);
    return day === null ? value : showDate(day, language);
  },
};

/** @type {Kind} */
const time = {
  ...plain,
  control: "time",
  read(question, answer) {
    const text = readTime(String(answer));
    const counted = (/** @type {string} */ at) => countTime(at, question.count, question.origin);
    const { earliest, latest } = question;
    // In the order that the count has: with origin 12:00, from 22:00 to 02:00 is one night.
    if ((earliest && counted(text) < counted(earliest)) || (latest && counted(text) > counted(latest))) {
      throw earliest && latest ? new Unread("times", { low: earliest, high: latest }) : new Unread("outside_time");
    }
    if (!within(question, counted(text))) throw new Unread("outside_time");
    return text;
  },
  encode: (question, value) => ({ [question.name]: countTime(value, question.count, question.origin) }),
};

/** @type {Kind} */
const grid = {
  ...plain,
  parts: (question) => question.rows.map((row) => question.line(row)),
  attributes: (question) => question.rows.map((row) => row.name),
};

/** @type {Kind} */
const heading = { ...plain, parts: () => [], attributes: () => [] };

/** @type {Record<string, Kind>} */
export const KINDS = {
  number,
  integer: { ...number, whole: true },
  slider,
  yes_no: yesNo,
  single_choice: singleChoice,
  multiple_choice: multipleChoice,
  date,
  time,
  grid,
  heading,
};
