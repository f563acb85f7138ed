// When a question is asked: comparisons of earlier questions with constants, joined by and, or, not.
// The port of trimask_core.form.skip_logic: read into a small tree and never evaluated as a program.

import { FormError } from "./texts.js";
import { plainDigits, SPACES } from "./plain_text.js";

/** @typedef {boolean | number | string | string[]} Value */
/** @typedef {Map<string, Value | null>} Values */
/** @typedef {{kind: string, text: string}} Token */

const LONGEST = 1000;
const DEEPEST = 20;
const TOKEN = new RegExp(
  `${SPACES}*(?:(?<number>-?\\p{Nd}+(?:\\.\\p{Nd}+)?)|(?<text>"[^"]*"|'[^']*')|(?<op><=|>=|!=|=|<|>)` +
    `|(?<word>[A-Za-z][\\p{L}\\p{N}_]*)|(?<mark>[()]))`,
  "uy",
);
/** @type {Record<string, boolean>} */
const CONSTANTS = { yes: true, true: true, no: false, false: false };
const RESERVED = new Set(["and", "or", "not", "has", ...Object.keys(CONSTANTS)]);

/** `name op value`; `has` is for multiple choice. Dates are compared as year-month-day text, which is in order. */
export class Comparison {
  /** @param {string} name @param {string} op @param {boolean | number | string} value */
  constructor(name, op, value) {
    this.name = name;
    this.op = op;
    this.value = value;
  }

  /** Whether it is so, with what has been answered so far.
   * @param {Values} values @returns {boolean} */
  holds(values) {
    const got = values.get(this.name) ?? null;
    if (got === null) return false;
    if (this.op === "has") return Array.isArray(got) && typeof this.value === "string" && got.includes(this.value);
    if (this.op === "=" || this.op === "!=") return equal(got, this.value) === (this.op === "=");
    if (typeof got === "string" && typeof this.value === "string") return ordered(this.op, compare(got, this.value));
    if (counts(got) && counts(this.value)) return ordered(this.op, Number(got) - Number(this.value));
    return false;
  }

  /** @returns {Comparison[]} */
  get comparisons() {
    return [this];
  }
}

class Joined {
  /** @param {string} word @param {Node[]} parts */
  constructor(word, parts) {
    this.word = word;
    this.parts = parts;
  }

  /** @param {Values} values @returns {boolean} */
  holds(values) {
    if (this.word === "not") return !this.parts.some((part) => part.holds(values));
    return this.word === "and" ? this.parts.every((part) => part.holds(values)) : this.parts.some((part) => part.holds(values));
  }

  /** @returns {Comparison[]} */
  get comparisons() {
    return this.parts.flatMap((part) => part.comparisons);
  }
}

/** @typedef {Comparison | Joined} Node */

/** Python's `==` between answers and constants: True is 1, and a text equals texts alone.
 * @param {Value} got @param {boolean | number | string} value */
function equal(got, value) {
  if (typeof got === "string" || typeof value === "string" || Array.isArray(got)) return got === value;
  return Number(got) === Number(value);
}

/** @param {unknown} value */
const counts = (value) => typeof value === "number" || typeof value === "boolean";

/** By code points, as Python orders texts.
 * @param {string} first @param {string} second */
function compare(first, second) {
  const [a, b] = [first, second].map((text) => Array.from(text, (letter) => letter.codePointAt(0) ?? 0));
  if (a === undefined || b === undefined) return 0;
  const place = a.findIndex((code, i) => code !== b[i]);
  return place < 0 ? a.length - b.length : (a[place] ?? 0) - (b[place] ?? -1);
}

/** @param {string} op @param {number} apart */
function ordered(op, apart) {
  return op === "<" ? apart < 0 : op === "<=" ? apart <= 0 : op === ">" ? apart > 0 : apart >= 0;
}

/** Read a condition; `FormError` says at which word it cannot be read.
 * @param {string} text @param {string} where @returns {Node} */
export function readCondition(text, where) {
  if ([...text].length > LONGEST) throw new FormError(`${where}: a condition has at most ${LONGEST} characters`);
  const parser = new Parser(tokensOf(text, where), where);
  const tree = parser.either(0);
  if (parser.peek() !== undefined) throw parser.odd();
  return tree;
}

/** @param {string} text @param {string} where @returns {Token[]} */
function tokensOf(text, where) {
  const tokens = [];
  const whole = text.replace(new RegExp(`${SPACES}*$`, "u"), "");
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < whole.length) {
    const at = TOKEN.lastIndex;
    const match = TOKEN.exec(whole);
    if (match === null || match.groups === undefined) throw new FormError(`${where}: cannot read ${whole.slice(at, at + 20)}`);
    const [kind, found] = /** @type {[string, string]} */ (Object.entries(match.groups).find(([, part]) => part !== undefined));
    tokens.push({ kind, text: found });
  }
  return tokens;
}

class Parser {
  /** @param {Token[]} tokens @param {string} where */
  constructor(tokens, where) {
    this.tokens = tokens;
    this.where = where;
    this.at = 0;
  }

  /** @returns {Token | undefined} */
  peek() {
    return this.tokens[this.at];
  }

  odd() {
    return new FormError(`${this.where}: did not expect ${this.peek()?.text ?? "the end"}`);
  }

  /** @param {string} kind @param {...string} texts @returns {string | null} */
  take(kind, ...texts) {
    const token = this.peek();
    if (token === undefined || token.kind !== kind || (texts.length > 0 && !texts.includes(token.text))) return null;
    this.at += 1;
    return token.text;
  }

  /** @param {number} depth @returns {Node} */
  either(depth) {
    return this.chain("or", () => this.chain("and", () => this.single(depth)));
  }

  /** @param {string} word @param {() => Node} part @returns {Node} */
  chain(word, part) {
    const first = part();
    const parts = [first];
    while (this.take("word", word) !== null) parts.push(part());
    return parts.length === 1 ? first : new Joined(word, parts);
  }

  /** @param {number} depth @returns {Node} */
  single(depth) {
    if (depth > DEEPEST) throw new FormError(`${this.where}: a condition is nested at most ${DEEPEST} deep`);
    if (this.take("word", "not") !== null) return new Joined("not", [this.single(depth + 1)]);
    if (this.take("mark", "(") !== null) {
      const inside = this.either(depth + 1);
      if (this.take("mark", ")") === null) throw this.odd();
      return inside;
    }
    return this.comparison();
  }

  /** @returns {Comparison} */
  comparison() {
    const name = this.peek();
    if (name === undefined || name.kind !== "word" || RESERVED.has(name.text)) throw this.odd();
    this.at += 1;
    const op = this.take("op") ?? this.take("word", "has");
    if (op === null) throw this.odd();
    return new Comparison(name.text, op, this.constant());
  }

  /** @returns {boolean | number | string} */
  constant() {
    const number = this.take("number");
    if (number !== null) return Number(plainDigits(number));
    const text = this.take("text");
    if (text !== null) return text.slice(1, -1);
    const word = this.take("word", ...Object.keys(CONSTANTS));
    if (word === null) throw this.odd();
    return CONSTANTS[word] ?? false;
  }
}
