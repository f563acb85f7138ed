// The sentences a form says by itself, in English where a language has none.

import WORDS from "./words.js";

/** @param {string} language @param {string} key @param {Record<string, string>} [values] */
export function words(language, key, values = {}) {
  const known = /** @type {Record<string, Record<string, string>>} */ (WORDS);
  const text = (known[language.split("-")[0] ?? "en"] ?? known["en"])?.[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, /** @type {string} */ name) => values[name] ?? "");
}
