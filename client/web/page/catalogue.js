// The page's own words, a module a language (each of them one JSON object). A study's words are in its form.

/** @type {Record<string, () => Promise<{default: Record<string, string>}>>} */
const LOADERS = {
  en: () => import("./words/en.js"),
  de: () => import("./words/de.js"),
  ar: () => import("./words/ar.js"),
  hi: () => import("./words/hi.js"),
};
const RIGHT_TO_LEFT = new Set(
  ("ar arc ckb dv fa glk he iw ji khw ks lrc mzn nqo pnb ps sd syr ug ur yi adlm arab hebr mand nkoo rohg samr syrc " +
    "thaa").split(" "),
);
const LEFT_TO_RIGHT_SCRIPTS = ["latn", "cyrl", "deva", "grek"];

/** The direction a language is written in, by its tag (trimask_core.form.texts.is_right_to_left).
 * @param {string} language @returns {"rtl" | "ltr"} */
export function direction(language) {
  const parts = language.toLowerCase().split("-");
  const right = parts.some((part) => RIGHT_TO_LEFT.has(part)) && !parts.slice(1).some((part) => LEFT_TO_RIGHT_SCRIPTS.includes(part));
  return right ? "rtl" : "ltr";
}

/** The words of one language. */
export class Catalogue {
  /** @param {string} language @param {Record<string, string>} texts */
  constructor(language, texts) {
    this.language = language;
    this.texts = texts;
  }

  /** One text with its values.
   * @param {string} key @param {Record<string, unknown>} [values] */
  say(key, values = {}) {
    const text = this.texts[key];
    if (text === undefined) throw new Error(`no words for ${key}`);
    return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
  }

  /** One text that depends on a number: `key.one` or `key.many`.
   * @param {string} key @param {number} number @param {Record<string, unknown>} [values] */
  count(key, number, values = {}) {
    return this.say(`${key}.${number === 1 ? "one" : "many"}`, { number: this.number(number), ...values });
  }

  /** How long from now, roughly.
   * @param {number} milliseconds */
  span(milliseconds) {
    const minutes = Math.ceil(milliseconds / 60_000);
    if (minutes <= 0) return this.say("when.soon");
    return minutes < 100 ? this.count("when.minutes", minutes) : this.count("when.hours", Math.ceil(minutes / 60));
  }

  /** As the person writes the language elsewhere (en-GB), with the digits that the form's own sentences have. */
  get locale() {
    const own = navigator.languages.find((language) => language.split("-", 1)[0] === this.language) ?? this.language;
    return `${own}-u-nu-latn`;
  }

  /** @param {number} value */
  number(value) {
    return new Intl.NumberFormat(this.locale).format(value);
  }

  /** A time, where and as the person has it.
   * @param {number} ms */
  when(ms) {
    return new Intl.DateTimeFormat(this.locale, { dateStyle: "long", timeStyle: "short" }).format(ms);
  }

  /** A day as files are named by it. @param {number} ms */
  day(ms) {
    return new Intl.DateTimeFormat("sv-SE-u-nu-latn", { dateStyle: "short" }).format(ms);
  }

  /** Names in a row.
   * @param {string[]} names */
  list(names) {
    return new Intl.ListFormat(this.language, { type: "conjunction" }).format(names);
  }

  /** What a language calls itself.
   * @param {string} language */
  static nameOf(language) {
    try {
      return new Intl.DisplayNames([language], { type: "language" }).of(language) ?? language;
    } catch {
      return language;
    }
  }
}

/** The catalogue nearest to a language tag ("de-AT" -> "de"), English where there is none.
 * @param {string} language @returns {Promise<Catalogue>} */
export async function catalogue(language) {
  const tag = language.replaceAll("_", "-").split("-", 1).join("").toLowerCase();
  const load = Object.hasOwn(LOADERS, tag) ? LOADERS[tag] : undefined;
  return load ? new Catalogue(tag, (await load()).default) : new Catalogue("en", (await import("./words/en.js")).default);
}

/** Those of a form's languages, so that the language can be changed when the network is gone. @param {string[]} languages */
export const loadAll = (languages) => Promise.all(languages.map(catalogue));
