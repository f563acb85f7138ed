// Texts in several languages: each of a form's texts is there in every one of its languages, or the form is refused.

import { FormError } from "./errors.js";

/** @typedef {Record<string, string>} Texts a text in each of the form's languages */

/** @param {Texts} texts @param {string} language */
export function inLanguage(texts, language) {
  const text = texts[language];
  if (text === undefined) throw new FormError(`a text is missing in ${language}`);
  return text;
}
