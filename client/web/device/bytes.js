/** Bytes: joined, compared, and written as hexadecimal digits, base64 and numbers. */

/** @typedef {Uint8Array<ArrayBuffer>} Bytes */

const encoder = new TextEncoder();

/** @param {string} text @returns {Bytes} its UTF-8 */
export const utf8 = (text) => encoder.encode(text);

/** @param {...Uint8Array} parts @returns {Bytes} */
export function concat(...parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** @param {Uint8Array} one @param {Uint8Array} other */
export const equal = (one, other) =>
  one.length === other.length && one.every((value, place) => value === other[place]);

/** @param {Uint8Array} data */
export const toHex = (data) => Array.from(data, (value) => value.toString(16).padStart(2, "0")).join("");

/** @param {string} text @returns {Bytes} `SyntaxError` unless it is pairs of hexadecimal digits */
export function fromHex(text) {
  if (!/^(?:[0-9a-fA-F]{2})*$/.test(text)) throw new SyntaxError("not hexadecimal digits");
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** @param {Uint8Array} data */
export function toBase64(data) {
  let text = "";
  for (const value of data) text += String.fromCharCode(value);
  return btoa(text);
}

/** @param {string} text @returns {Bytes} `SyntaxError` unless it is base64 with its padding, and nothing else */
export function fromBase64(text) {
  if (text.length % 4 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) throw new SyntaxError("not base64");
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** @param {Uint8Array} data @returns {string} base64url without padding */
export const toBase64Url = (data) =>
  toBase64(data).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");

/** @param {string} text base64url without padding @returns {Bytes} */
export function fromBase64Url(text) {
  if (!/^[A-Za-z0-9_-]*$/.test(text)) throw new SyntaxError("not base64url");
  const padded = text.replaceAll("-", "+").replaceAll("_", "/");
  return fromBase64(padded + "=".repeat((4 - (padded.length % 4)) % 4));
}

/** @param {number | bigint} value @param {number} size @returns {Bytes} big-endian */
export function bigEndian(value, size) {
  const data = new Uint8Array(size);
  let left = BigInt(value);
  for (let at = size - 1; at >= 0; at--) {
    data[at] = Number(left & 0xffn);
    left >>= 8n;
  }
  if (left) throw new RangeError(`a number does not fit ${size} bytes`);
  return data;
}

/** @param {Uint8Array} data */
export const readBigEndian = (data) => data.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);

/** @param {bigint} value @param {number} size @returns {Bytes} */
export const littleEndian = (value, size) => bigEndian(value, size).reverse();

/** @param {Uint8Array} data */
export function readLittleEndian(data) {
  let value = 0n;
  for (let at = data.length - 1; at >= 0; at--) value = (value << 8n) | BigInt(data[at]);
  return value;
}
