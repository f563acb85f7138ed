// Text as Python reads it, so that an answer means the same here as in trimask_core: what counts as white space, as a digit,
// and as a number.

const SPACE = "\\t\\n\\v\\f\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
/** One character of white space, in a pattern. */
export const SPACES = `[${SPACE}]`;
const ENDS = new RegExp(`^${SPACES}+|${SPACES}+$`, "gu");
const BETWEEN = new RegExp(`${SPACES}+`, "u");

/** Without white space at its ends.
 * @param {string} text */
export const strip = (text) => text.replace(ENDS, "");

/** The words between white space.
 * @param {string} text @returns {string[]} */
export const split = (text) => (strip(text) === "" ? [] : strip(text).split(BETWEEN));

/** Decimal digits of every script as 0 to 9. Unicode has them in runs of ten, zero first.
 * @param {string} text */
export function plainDigits(text) {
  return text.replace(/\p{Nd}/gu, (digit) => {
    const code = /** @type {number} */ (digit.codePointAt(0));
    let first = code;
    while (/^\p{Nd}$/u.test(String.fromCodePoint(first - 1))) first -= 1;
    return String((code - first) % 10);
  });
}

/** `format(value, ".<digits>g")`: so many digits that count, without zeros at the end.
 * @param {number} value @param {number} [digits] */
export function general(value, digits = 10) {
  const [mantissa = "", exponent] = value.toExponential(digits - 1).split("e");
  const power = Number(exponent);
  const bare = (/** @type {string} */ text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (power >= -4 && power < digits) return bare(value.toFixed(digits - 1 - power));
  return `${bare(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}
