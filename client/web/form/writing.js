// How numbers, dates and times of day are written in a language: the tables of trimask_core.form.parse_input.

import { isoText } from "./dates.js";
import { general } from "./plain_text.js";

/** @typedef {import("./dates.js").Day} Day */

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
