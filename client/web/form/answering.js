// Which answers a question takes: an answer as a value, or what is wrong with it in the person's language. The port of
// trimask_core.form.question. Texts are read as a person typed them; numbers, true and false and lists are taken as they are.

import { isoText, readDay } from "./dates.js";
import { AnswerError } from "./errors.js";
import { words } from "./form_words.js";
import { split, strip } from "./plain_text.js";
import { inLanguage } from "./texts.js";
import { readDate, readNumber, readTime, Unread } from "./typed.js";
import { showDate, showNumber } from "./writing.js";

/** @typedef {import("./question.js").Question} Question */
/** @typedef {import("./relevance.js").Value} Value */

const TRUE = ["yes", "true", "1"];
const FALSE = ["no", "false", "0"];
const LIMITS = ["between", "step", "dates", "outside", "times", "outside_time"];

/** The value; null for no answer to an optional question. Throws `AnswerError` in this language.
 * @param {Question} question @param {unknown} answer @param {string} language @returns {Value | null} */
export function checkAnswer(question, answer, language) {
  const nothing = answer == null || (Array.isArray(answer) && answer.length === 0);
  if (nothing || (typeof answer === "string" && strip(answer) === "")) {
    if (question.required) throw wrong(question, language, "needed");
    return null;
  }
  try {
    return read(question, answer, language);
  } catch (error) {
    if (error instanceof Unread) throw wrong(question, language, error.reason, error.values);
    throw error;
  }
}

/** @param {Question} question @param {unknown} answer @param {string} language @returns {Value} */
function read(question, answer, language) {
  switch (question.kind) {
    case "number":
    case "integer":
    case "slider":
      return readAmount(question, answer, language);
    case "yes_no":
      return readYesNo(answer, language);
    case "date":
      return readDayAsked(question, answer, language);
    case "time":
      return readTimeAsked(question, answer);
    case "single_choice":
      if (typeof answer !== "string" || question.choices.every((choice) => choice.value !== answer)) throw new Unread("choose");
      return answer;
    case "multiple_choice":
      return readSeveral(question, answer, language);
    default:
      throw new AnswerError(question.name, `a ${question.kind} takes no answer itself`);
  }
}

/** @param {Question} question @param {unknown} answer @param {string} language */
function readAmount(question, answer, language) {
  const reason = question.kind === "integer" ? "whole" : "number";
  if (typeof answer !== "number" && typeof answer !== "string") throw new Unread(reason);
  let value = typeof answer === "string" ? readNumber(answer, language, reason) : answer;
  if (!Number.isFinite(value)) throw new Unread(reason);
  const [low, high] = [question.minimum, question.maximum];
  if (low !== null && high !== null && !(low <= value && value <= high)) {
    throw new Unread("between", { low: showNumber(low, language), high: showNumber(high, language) });
  }
  if (question.kind === "integer" && !Number.isInteger(value)) throw new Unread("whole");
  if (question.step !== null && low !== null) {
    const steps = (value - low) / question.step;
    if (Math.abs(steps - Math.round(steps)) > 1e-6) {
      throw new Unread("step", { low: showNumber(low, language), step: showNumber(question.step, language) });
    }
    // The slider's own arithmetic may be a last bit off the mark.
    value = Math.min(low + Math.round(steps) * question.step, high ?? Infinity);
  }
  return value;
}

/** @param {unknown} answer @param {string} language */
function readYesNo(answer, language) {
  const word = Array.isArray(answer) ? "" : strip(String(answer)).toLowerCase();
  if (TRUE.includes(word) || word === words(language, "yes").toLowerCase()) return true;
  if (FALSE.includes(word) || word === words(language, "no").toLowerCase()) return false;
  throw new Unread("yes_no");
}

/** @param {Question} question @param {unknown} answer @param {string} language */
function readSeveral(question, answer, language) {
  const given = typeof answer === "string" ? split(answer) : answer;
  const offered = question.choices.map((choice) => choice.value);
  if (!Array.isArray(given) || !given.every((value) => offered.includes(value))) throw new Unread("choose_some");
  const chosen = question.choices.filter((choice) => given.includes(choice.value));
  const alone = chosen.find((choice) => choice.exclusive);
  if (alone !== undefined && chosen.length > 1) throw new Unread("exclusive", { choice: inLanguage(alone.label, language) });
  return chosen.map((choice) => choice.value);
}

/** @param {Question} question @param {unknown} answer @param {string} language */
function readDayAsked(question, answer, language) {
  const text = isoText(readDate(String(answer), language));
  const { earliest, latest } = question;
  if ((earliest && text < earliest) || (latest && text > latest)) {
    const [low, high] = [readDay(earliest), readDay(latest)];
    if (low === null || high === null) throw new Unread("outside");
    throw new Unread("dates", { low: showDate(low, language), high: showDate(high, language) });
  }
  if (!countedWithin(question, text)) throw new Unread("outside");
  return text;
}

/** @param {Question} question @param {unknown} answer */
function readTimeAsked(question, answer) {
  const text = readTime(String(answer));
  const at = question.counted(text);
  const { earliest, latest } = question;
  // In the order that the count has: with origin 12:00, from 22:00 to 02:00 is one night.
  if ((earliest && at < question.counted(earliest)) || (latest && at > question.counted(latest))) {
    throw earliest && latest ? new Unread("times", { low: earliest, high: latest }) : new Unread("outside_time");
  }
  if (!countedWithin(question, text)) throw new Unread("outside_time");
  return text;
}

/** @param {Question} question @param {string} text */
function countedWithin(question, text) {
  const [low, high] = [question.minimum, question.maximum];
  if (low === null || high === null) return true;
  const counted = question.counted(text);
  return low <= counted && counted <= high;
}

/** @param {Question} question @param {string} language @param {string} key @param {Record<string, string>} [values] */
function wrong(question, language, key, values = {}) {
  if (question.message !== null && LIMITS.includes(key)) return new AnswerError(question.name, inLanguage(question.message, language));
  return new AnswerError(question.name, words(language, key, values));
}
