/**
 * JSON from others, read strictly, and the one way a study is written before it is hashed.
 *
 * A study's id is the SHA-256 of this writing, in which 1 and 1.0 are two things. So a number written without point and
 * exponent is read as a `bigint`, every other as a `number`; `plain` makes ordinary numbers of both, for what is only shown.
 */
import { utf8 } from "./bytes.js";

/** @typedef {null | boolean | bigint | number | string | JsonList | JsonObject} Json */
/** @typedef {Json[]} JsonList */
/** @typedef {{ [name: string]: Json }} JsonObject */

const DEEPEST = 200;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
const STRING = /"((?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"/y;
const SPACE = /[ \t\n\r]*/y;
const HALF_PAIR = /[\ud800-\udfff]/u; // with "u" a whole pair is one character

/** @param {Uint8Array | string} source @returns {Json} `SyntaxError` if it is not JSON, or has a number that is not finite */
export function readJson(source) {
  let text;
  try {
    text = typeof source === "string" ? source : new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(source);
  } catch {
    throw new SyntaxError("it is not UTF-8");
  }
  const reader = new Reader(text);
  const value = reader.value(0);
  reader.end();
  return value;
}

class Reader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  /** @param {RegExp} pattern sticky */
  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found;
  }

  /** @param {string} mark after any space */
  take(mark) {
    this.match(SPACE);
    if (!this.text.startsWith(mark, this.at)) return false;
    this.at += mark.length;
    return true;
  }

  /** @returns {never} */
  fail() {
    throw new SyntaxError(`this is not JSON at character ${this.at}`);
  }

  end() {
    this.match(SPACE);
    if (this.at < this.text.length) this.fail();
  }

  /** @param {number} depth @returns {Json} */
  value(depth) {
    if (depth > DEEPEST) throw new SyntaxError(`this is nested more than ${DEEPEST} deep`);
    if (this.take("{")) return this.object(depth);
    if (this.take("[")) return this.array(depth);
    if (this.take("null")) return null;
    if (this.take("true")) return true;
    if (this.take("false")) return false;
    const text = this.match(STRING);
    return text ? JSON.parse(text[0]) : this.number();
  }

  number() {
    const found = this.match(NUMBER);
    if (!found) this.fail();
    if (found[1] === undefined && found[2] === undefined) return BigInt(found[0]);
    const value = Number(found[0]);
    if (!Number.isFinite(value)) throw new SyntaxError("a number is not finite");
    return value;
  }

  /** @param {number} depth */
  array(depth) {
    /** @type {Json[]} */
    const items = [];
    if (this.take("]")) return items;
    do items.push(this.value(depth + 1));
    while (this.take(","));
    if (!this.take("]")) this.fail();
    return items;
  }

  /** @param {number} depth */
  object(depth) {
    /** @type {JsonObject} */
    const fields = Object.create(null);
    if (this.take("}")) return fields;
    do {
      this.match(SPACE);
      const name = this.match(STRING);
      if (!name || !this.take(":")) this.fail();
      fields[JSON.parse(name[0])] = this.value(depth + 1);
    } while (this.take(","));
    if (!this.take("}")) this.fail();
    return fields;
  }
}

/** @param {Json} value @returns {import("./bytes.js").Bytes} sorted keys, no spaces, UTF-8 unescaped, numbers as Python writes them */
export const canonicalJson = (value) => utf8(written(value));

/** @param {Json} value @returns {string} */
function written(value) {
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number") return pythonFloat(value);
  if (typeof value === "string") return quoted(value);
  if (value === null || typeof value === "boolean") return String(value);
  if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
  const names = Object.keys(value).sort(byCodePoint);
  return `{${names.map((name) => `${quoted(name)}:${written(value[name])}`).join(",")}}`;
}

/** @param {string} text */
function quoted(text) {
  if (HALF_PAIR.test(text)) throw new SyntaxError("a text is not Unicode");
  return JSON.stringify(text);
}

/** JavaScript compares UTF-16 units, Python code points. @param {string} one @param {string} other */
function byCodePoint(one, other) {
  const [a, b] = [Array.from(one), Array.from(other)];
  for (let place = 0; place < Math.min(a.length, b.length); place++) {
    const gap = Number(a[place]?.codePointAt(0)) - Number(b[place]?.codePointAt(0));
    if (gap) return gap;
  }
  return a.length - b.length;
}

/**
 * The shortest digits that give the number back, which both languages find, in Python's layout: a point always, an exponent
 * of two digits below 1e-4 and from 1e16 on.
 * @param {number} value
 */
export function pythonFloat(value) {
  if (!Number.isFinite(value)) throw new SyntaxError("a number is not finite");
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  const [digits = "", power = ""] = Math.abs(value).toExponential().split("e");
  const [exponent, figures, sign] = [Number(power), digits.replace(".", ""), value < 0 ? "-" : ""];
  if (exponent < -4 || exponent >= 16) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${digits}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${figures}`;
  const whole = figures.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${figures.slice(exponent + 1) || "0"}`;
}

/** @param {Json} value @returns {any} the same with ordinary numbers, for reading that does not tell 1 from 1.0 */
export function plain(value) {
  if (typeof value === "bigint") return Number(value);
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, plain(item)]));
}
