// What a person typed, read as a number, a date or a time of day. The port of trimask_core.form.parse_input: both decimal marks are read
// in every language, and nothing is guessed. "1.000" is 1 to some and 1000 to others, so neither is taken.

import { dayOf, isoText } from "./dates.js";
import { SPACES, strip } from "./plain_text.js";
import { dateOrder, monthNames, showDate, showNumber } from "./writing.js";

/** @typedef {import("./dates.js").Day} Day */

// The zero of each script whose digits are read; nine more follow it.
const ZEROS = [
  0xff10, 0x0660, 0x06f0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66, 0x0de6, 0x0e50, 0x0ed0,
  0x0f20, 0x1040, 0x17e0, 0x1810,
];
// Marks of direction say nothing; minus signs are one; spaces and apostrophes that part thousands are one.
/** @type {Record<string, string>} */
const SAME = {
  "\u200e": "", "\u200f": "", "\u061c": "", "\u2212": "-", "\u2019": "'", "\u00a0": " ", "\u202f": " ", "\u2009": " ",
};
const PLAIN = /^[-+]?[0-9]+$/u;
const ONE_MARK = /^([-+]?)([0-9]*)([.,\u066b])([0-9]+)$/u;
const GROUPED = /^([-+]?)([0-9]{1,3}(?:([.,' \u066c])[0-9]{3})(?:\3[0-9]{3})*)(?:([.,\u066b])([0-9]+))?$/u;
const NUMERIC_DATE = new RegExp(
  `^([0-9]+)${SPACES}*(?:[./-]|${SPACES})${SPACES}*([0-9]+)${SPACES}*(?:[./-]|${SPACES})${SPACES}*([0-9]+)\\.?$`, "u",
);
const TIME = new RegExp(`^([0-9]{1,2})${SPACES}*[:.hH]${SPACES}*([0-9]{2})(?:${SPACES}*([aApP])\\.?${SPACES}?[mM]\\.?)?$`, "u");
const WORD = new RegExp(`[^0-9.,/\\-${SPACES.slice(1, -1)}]+`, "gu");

/** Typed text that is not taken: `reason` is a key of the form's words, `values` what stands in its sentence. */
export class Unread extends Error {
  /** @param {string} reason @param {Record<string, string>} [values] */
  constructor(reason, values = {}) {
    super(reason);
    this.reason = reason;
    this.values = values;
  }
}

/** With Latin digits, and one sign for what is written in several ways.
 * @param {string} text */
export function plainDigits(text) {
  let plain = "";
  for (const letter of text) {
    const code = /** @type {number} */ (letter.codePointAt(0));
    const zero = ZEROS.find((first) => code >= first && code < first + 10);
    plain += zero === undefined ? (SAME[letter] ?? letter) : String(code - zero);
  }
  return strip(plain);
}

/** The number; throws `Unread`: `reason` where it is none, `ambiguous` or `thousands` with the reading.
 * @param {string} text @param {string} language @param {string} [reason] */
export function readNumber(text, language, reason = "number") {
  const plain = plainDigits(text);
  if ([...plain].length > 40) throw new Unread(reason);
  if (PLAIN.test(plain)) return Number(plain);
  const one = ONE_MARK.exec(plain);
  if (one !== null) {
    const [, sign = "", whole = "", mark = "", part = ""] = one;
    const small = Number(`${sign}${whole || 0}.${part}`);
    // Three digits after a mark that parts thousands elsewhere; 0.125 cannot be that, nor 1.0000, nor the Arabic mark.
    if (part.length === 3 && whole.length >= 1 && whole.length <= 3 && whole[0] !== "0" && mark !== "\u066b") {
      throw ambiguous(strip(text), small, Number(`${sign}${whole}${part}`), language);
    }
    return small;
  }
  const grouped = GROUPED.exec(plain);
  if (grouped !== null && grouped[3] !== grouped[4]) {
    const [, sign = "", whole = "", mark = "", , part = "0"] = grouped;
    const value = Number(`${sign}${whole.replaceAll(mark, "")}.${part}`);
    throw new Unread("thousands", { text: strip(text), value: showNumber(value, language) });
  }
  throw new Unread(reason);
}

/** @param {string} text @param {number} small @param {number} large @param {string} language */
function ambiguous(text, small, large, language) {
  const shown = showNumber(small, language);
  const decimals = shown.split(shown.includes(",") ? "," : ".")[1] ?? "";
  // Three decimals that are all needed are written with a fourth.
  const sure = decimals.length === 3 ? `${shown}0` : shown;
  return new Unread("ambiguous", { text, small: shown, large: showNumber(large, language), sure });
}

/** The date: year-month-day, the language's own order, or with the month as a word.
 * @param {string} text @param {string} language @returns {Day} */
export function readDate(text, language) {
  const plain = plainDigits(text);
  const numbers = NUMERIC_DATE.exec(plain);
  if (numbers === null) return dateWithWord(plain, language);
  const [, first = "", second = "", third = ""] = numbers;
  if (first.length === 4) return someDay(first, second, third, language);
  if (third.length !== 4) {
    throw Math.max(first.length, second.length, third.length) <= 2 ? new Unread("year") : noDate(language);
  }
  const found = { day: oneDay(third, second, first), month: oneDay(third, first, second) };
  const [order = "day"] = dateOrder(language);
  if (language !== "en" && order !== "year") {
    const only = found[order];
    if (only === null) throw noDate(language);
    return only;
  }
  // English alone does not say which comes first, nor does a language whose year does.
  const [one, other] = [found.day, found.month].filter((day) => day !== null).sort((a, b) => (isoText(a) < isoText(b) ? -1 : 1));
  if (one === undefined) throw noDate(language);
  if (other !== undefined && isoText(one) !== isoText(other)) {
    const shown = { first: showDate(one, language), second: showDate(other, language) };
    throw new Unread("two_dates", { text: strip(text), ...shown, iso: isoText(one) });
  }
  return one;
}

/** @param {string} plain @param {string} language @returns {Day} */
function dateWithWord(plain, language) {
  const numbers = plain.match(/[0-9]+/g) ?? [];
  const named = (plain.match(WORD) ?? []).map((word) => word.toLowerCase());
  const names = monthNames(language).map((name) => name.toLowerCase());
  /** @type {Set<number>} */
  const months = new Set();
  for (const word of named) {
    const begins = names.filter((name) => name.startsWith(word)).length;
    names.forEach((name, place) => {
      // Three letters say which month, but for French June and July.
      if (name === word || ([...word].length >= 3 && name.startsWith(word) && begins === 1)) months.add(place + 1);
    });
  }
  if (numbers.length !== 2 || months.size !== 1) throw noDate(language);
  const at = numbers.findIndex((number) => number.length === 4);
  if (at < 0) throw new Unread("year");
  return someDay(numbers[at] ?? "", String([...months][0]), numbers[1 - at] ?? "", language);
}

/** @param {string} year @param {string} month @param {string} day */
const oneDay = (year, month, day) => dayOf(Number(year), Number(month), Number(day));

/** @param {string} year @param {string} month @param {string} day @param {string} language */
function someDay(year, month, day, language) {
  const found = oneDay(year, month, day);
  if (found === null) throw noDate(language);
  return found;
}

/** @param {string} language */
const noDate = (language) => new Unread("date", { example: showDate({ year: 2001, month: 12, day: 31 }, language) });

/** The time of day as hours:minutes: 7:30, 07.30, 19h30, 7:30 pm.
 * @param {string} text */
export function readTime(text) {
  const found = TIME.exec(plainDigits(text));
  if (found === null) throw noTime();
  let hour = Number(found[1]);
  const half = (found[3] ?? "").toLowerCase();
  if (half) {
    if (hour < 1 || hour > 12) throw noTime();
    hour = (hour % 12) + (half === "p" ? 12 : 0);
  }
  if (hour > 23 || Number(found[2]) > 59) throw noTime();
  return `${String(hour).padStart(2, "0")}:${found[2]}`;
}

const noTime = () => new Unread("time", { example: "23:30" });
