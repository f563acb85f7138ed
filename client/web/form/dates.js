// Days of the calendar, as numbers and as year-month-day text; no time zone comes into it.

/** @typedef {{year: number, month: number, day: number}} Day */

const ISO = /^(\d{4})-(\d{2})-(\d{2})$/;
const LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** @param {number} year */
const leap = (year) => (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;

/** The day a text names, or null. Years 1 to 9999, as Python's `date` has them.
 * @param {string} text @returns {Day | null} */
export function readDay(text) {
  const found = ISO.exec(text);
  return found ? dayOf(Number(found[1]), Number(found[2]), Number(found[3])) : null;
}

/** A day, or null where there is none such.
 * @param {number} year @param {number} month @param {number} day @returns {Day | null} */
export function dayOf(year, month, day) {
  if (!(year >= 1 && year <= 9999 && month >= 1 && month <= 12 && day >= 1)) return null;
  const last = month === 2 && leap(year) ? 29 : (LENGTHS[month - 1] ?? 0);
  return day <= last ? { year, month, day } : null;
}

/** @param {Day} day */
export function isoText({ year, month, day }) {
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  return `${String(year).padStart(4, "0")}-${two(month)}-${two(day)}`;
}

/** Days since 1 March of the year 0, by counting from March so that a leap day is a year's last.
 * @param {Day} date */
export function dayNumber({ year, month, day }) {
  const y = month > 2 ? year : year - 1;
  const m = (month + 9) % 12;
  return 365 * y + Math.floor(y / 4) - Math.floor(y / 100) + Math.floor(y / 400) + Math.floor((153 * m + 2) / 5) + day - 1;
}
