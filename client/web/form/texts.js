// Texts in several languages: each of a form's texts is there in every one of its languages, or the form is refused. And the
// sentences a form says by itself, in English where a language has none.

import WORDS from "./words.js";

/** @typedef {Record<string, string>} Texts a text in each of the form's languages */

/** A form with something in it that this page does not know: it is refused, not shown in part. */
export class FormError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "FormError";
  }
}

/** @param {Texts} texts @param {string} language */
export function inLanguage(texts, language) {
  const text = texts[language];
  if (text === undefined) throw new FormError(`a text is missing in ${language}`);
  return text;
}

/** @param {string} language @param {string} key @param {Record<string, string>} [values] */
export function words(language, key, values = {}) {
  const known = /** @type {Record<string, Record<string, string>>} */ (WORDS);
  const text = (known[language.split("-")[0] ?? "en"] ?? known["en"])?.[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, /** @type {string} */ name) => values[name] ?? "");
}
