// How a date or a time of day becomes the number of an attribute. The port of trimask_core.form.parse_input.

import { dayNumber, readDay } from "./dates.js";
import { FormError } from "./errors.js";

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
