/** Values taken out of JSON by type, and texts without letters that change what is read; every refusal names the field. */
import { fromBase64 } from "./bytes.js";
import { StudyError } from "./errors.js";

/** @typedef {import("./json.js").Json} Json */
/** @typedef {import("./json.js").JsonObject} JsonObject */

/** @param {Json | undefined} value @param {string} field @returns {JsonObject} */
export function objectOf(value, field) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new StudyError("must be an object", "", field);
  return value;
}

/** No key but these, and all of them but the `optional`. @param {JsonObject} data @param {string[]} needed @param {string} field @param {string[]} [optional] */
export function keysOf(data, needed, field, optional = []) {
  const known = [...needed, ...optional];
  const odd = Object.keys(data).find((key) => !known.includes(key));
  if (odd !== undefined) throw new StudyError("is unknown: a newer version may know it", "", `${field}.${odd}`);
  const missing = needed.find((key) => !(key in data));
  if (missing !== undefined) throw new StudyError("is missing", "", `${field}.${missing}`);
}

/** @param {Json | undefined} value @param {string} field @returns {Json[]} */
export function items(value, field) {
  if (!Array.isArray(value)) throw new StudyError("must be a list", "", field);
  return value;
}

/** @param {Json | undefined} value @param {string} field @returns {string} */
export function textOf(value, field) {
  if (typeof value !== "string") throw new StudyError("must be text", "", field);
  return value;
}

/** @param {Json | undefined} value @param {string} field @returns {number} */
export function wholeOf(value, field) {
  if (typeof value !== "bigint") throw new StudyError("must be a whole number", "", field);
  const number = Number(value);
  if (!Number.isSafeInteger(number)) throw new StudyError("is too large a number", "", field);
  return number;
}

/** @param {Json | undefined} value @param {string} field @param {boolean} [pointed] only as written with a point or exponent @returns {number} */
export function realOf(value, field, pointed = false) {
  if (typeof value !== "number" && (pointed || typeof value !== "bigint")) {
    throw new StudyError("must be a number", "", field);
  }
  const number = Number(value);
  if (!Number.isFinite(number)) throw new StudyError("must be a finite number", "", field);
  return number;
}

/** @param {Json | undefined} value @param {string} field @returns {number | null} */
export const realOrNull = (value, field) => (value === null ? null : realOf(value, field));

/** @param {Json | undefined} value @param {string} field */
export function bytesOf(value, field) {
  try {
    return fromBase64(textOf(value, field));
  } catch {
    throw new StudyError("must be bytes in base64", "", field);
  }
}

// C0 and C1 but for tab and line feed; line and paragraph separators; embeddings, overrides and isolates.
// eslint-disable-next-line no-control-regex
const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;
const ONE_LINE = ["title", "contact", "name", "organisation", "address", "peer_address", "tls_name", "unit"];

/** Refuses a text that shows as something else than it says. @param {string} text @param {string} name @param {string} field */
function checkText(text, name, field) {
  const found = HIDDEN.exec(text) ?? (ONE_LINE.includes(name) ? /[\t\n]/u.exec(text) : null);
  if (found === null) return;
  const code = found[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
  throw new StudyError(`has U+${code}, a character that changes what is read`, "", field);
}

/** @param {Json} value @param {string} [name] @param {string} [field] */
export function checkLetters(value, name = "", field = "") {
  if (typeof value === "string") checkText(value, name, field);
  else if (Array.isArray(value)) value.forEach((item, place) => checkLetters(item, name, `${field}[${place}]`));
  else if (value !== null && typeof value === "object") {
    for (const [key, item] of Object.entries(value)) {
      if (field === "" && key === "tls_roots") continue; // read by programs alone, which check it
      checkText(key, "name", field || "study");
      checkLetters(item, key, field ? `${field}.${key}` : key);
    }
  }
}
