// What a person typed, read as a number, a date or a time of day, and how these are written in a language. The port of
// trimask_core.form.parse_input: both decimal marks are read in every language, and nothing is guessed. "1.000" is 1 to some and
// 1000 to others, so neither is taken. Days of the calendar are numbers here; no time zone comes into it.

import { general, SPACES, strip } from "./plain_text.js";
import { FormError } from "./texts.js";

/** @typedef {{year: number, month: number, day: number}} Day */

const ISO = /^(\d{4})-(\d{2})-(\d{2})$/;
const DAY_MS = 86_400_000;

/** The day a text names, or null. Years 1 to 9999, as Python's `date` has them.
 * @param {string} text @returns {Day | null} */
export function readDay(text) {
  const found = ISO.exec(text);
  return found ? dayOf(Number(found[1]), Number(found[2]), Number(found[3])) : null;
}

/** A day, or null where there is none such.
 * @param {number} year @param {number} month @param {number} day @returns {Day | null} */
function dayOf(year, month, day) {
  const found = new Date(dayNumber({ year, month, day }) * DAY_MS); // the 30th of February is in March
  const there = year >= 1 && year <= 9999 && found.getUTCMonth() === month - 1 && found.getUTCDate() === day;
  return there ? { year, month, day } : null;
}

/** @param {Day} day */
export function isoText({ year, month, day }) {
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  return `${String(year).padStart(4, "0")}-${two(month)}-${two(day)}`;
}

/** Days since 1970 began.
 * @param {Day} date */
const dayNumber = ({ year, month, day }) => new Date(0).setUTCFullYear(year, month - 1, day) / DAY_MS;

const COMMA = new Set(
  ("af az be bg bs ca cs da de el es et eu fi fr gl hr hu hy id is it ka kk lt lv mk nb nl nn no pl pt ro ru sk sl sq sr sv " +
    "tr uk uz vi").split(" "),
);
// Places that write 7.5 where the language elsewhere writes 7,5.
const POINT = new Set("de-CH de-LI it-CH es-MX es-US es-PR es-DO es-GT es-HN es-NI es-PA es-PE es-SV".split(" "));
const YEAR_FIRST = new Set("eu hu ja ko lt mn sv zh".split(" "));
/** @type {Record<string, string[]>} */
const MONTHS = {
  en: "January February March April May June July August September October November December".split(" "),
  de: "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split(" "),
  fr: "janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split(" "),
  ar: "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر".split(" "),
  hi: "जनवरी फ़रवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर".split(" "),
  es: "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split(" "),
};

/** @param {string} language */
const primary = (language) => language.split("-", 1).join("");

/** Whether numbers are written 7,5 in this language. Both marks are read in any.
 * @param {string} language */
export const decimalComma = (language) => COMMA.has(primary(language)) && !POINT.has(language);

/** A number as a person writes it, without marks between thousands.
 * @param {number} value @param {string} language */
export function showNumber(value, language) {
  const text = Number.isInteger(value) ? String(BigInt(value)) : general(value);
  return decimalComma(language) ? text.replace(".", ",") : text;
}

/** In which order day, month and year stand.
 * @param {string} language @returns {("day" | "month" | "year")[]} */
export function dateOrder(language) {
  if (language === "en-US") return ["month", "day", "year"];
  return YEAR_FIRST.has(primary(language)) ? ["year", "month", "day"] : ["day", "month", "year"];
}

/** What stands in each field of a date that may be half typed: a text of year-month-day.
 * @param {unknown} text @returns {Record<"year" | "month" | "day", string>} */
export function dateParts(text) {
  const [year = "", month = "", day = ""] = typeof text === "string" ? text.split("-") : [];
  return { year, month: month.replace(/^0/, ""), day };
}

/** The twelve months, or their numbers where the language's names are not here.
 * @param {string} language */
export function monthNames(language) {
  return MONTHS[primary(language)] ?? Array.from({ length: 12 }, (_, month) => String(month + 1).padStart(2, "0"));
}

/** A date as a person reads it; no two dates look the same.
 * @param {Day} day @param {string} language */
export function showDate(day, language) {
  if (!(primary(language) in MONTHS)) return isoText(day);
  const month = monthNames(language)[day.month - 1] ?? "";
  if (language === "en-US") return `${month} ${day.day}, ${day.year}`;
  if (primary(language) === "de") return `${day.day}. ${month} ${day.year}`;
  if (primary(language) === "es") return `${day.day} de ${month} de ${day.year}`;
  return `${day.day} ${month} ${day.year}`;
}

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
const UNFINISHED = /^([-+]?[0-9]+)[.,\u066b]$/u;
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

/** The number; throws `Unread`: `reason` where it is none, `ambiguous`, `thousands` or `unfinished` with a reading.
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
  const [, before] = UNFINISHED.exec(plain) ?? [];
  if (before !== undefined) throw new Unread("unfinished", { text: strip(text), value: showNumber(Number(before), language) });
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

// How a date or a time of day becomes the number of an attribute.

const DAY = 24 * 60;

/** @param {string} text */
function day(text) {
  const found = readDay(text);
  if (found === null) throw new FormError(`${text} is not a date`);
  return found;
}

/** Days or years after the origin, or whole years before it (age).
 * @param {string} text @param {string | null} count @param {string} origin */
export function countDate(text, count, origin) {
  const [given, start] = [day(text), day(origin)];
  if (count === "age") {
    const later = start.month < given.month || (start.month === given.month && start.day < given.day);
    return start.year - given.year - (later ? 1 : 0);
  }
  const days = dayNumber(given) - dayNumber(start);
  return count === "days" ? days : days / 365.25;
}

/** Minutes or hours after the origin, round the clock: with origin 12:00, 23:30 and 00:30 are an hour apart.
 * @param {string} time @param {string | null} count @param {string} origin */
export function countTime(time, count, origin) {
  const after = (minutes(time) - minutes(origin || "00:00") + DAY) % DAY;
  return count === "minutes" ? after : after / 60;
}

/** Minutes after midnight.
 * @param {string} time */
const minutes = (time) => Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
