/** Letters that change what is read, which a study's texts have none of: `trimask_core.basics.encoding`. */
import { StudyError } from "./errors.js";

/** @typedef {import("./json.js").Json} Json */
/** @typedef {import("./json.js").JsonObject} JsonObject */

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
