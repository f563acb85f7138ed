/** Protocol Buffers, as much of them as a device's messages use; which fields those have is in `messages.js`, made from the .proto files. */
import { concat, utf8 } from "./bytes.js";
import { VerificationError } from "./errors.js";
import { MESSAGES } from "./messages.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */
/** @typedef {keyof typeof MESSAGES} MessageName */
/**
 * number, name, type (a message's by its name), and "repeated" or "optional" where it is that.
 * @typedef {readonly [number, string, string, ("repeated" | "optional")?]} Field
 */
/** @typedef {Record<string, any>} Message whole numbers of 64 bits are `bigint` */

const [VARINT, FIXED64, SIZED, FIXED32] = [0, 1, 2, 5];
const WHOLE = ["bool", "int64", "uint64", "uint32", "int32", "enum"];

/** @param {MessageName} name @returns {readonly Field[]} */
const fieldsOf = (name) => /** @type {readonly Field[]} */ (MESSAGES[name]);

/** @param {bigint} value */
function varint(value) {
  const bytes = [];
  let left = BigInt.asUintN(64, value);
  for (; left > 127n; left >>= 7n) bytes.push(Number(left & 127n) | 128);
  return Uint8Array.of(...bytes, Number(left));
}

/** @param {MessageName} name @param {Message} message @returns {Bytes} fields at their defaults are left out, as proto3 does */
export function encodeMessage(name, message) {
  const parts = fieldsOf(name).flatMap(([number, key, type, label]) => {
    const given = message[key];
    const values = label === "repeated" ? (given ?? []) : given === undefined ? [] : [given];
    return values.flatMap((/** @type {any} */ value) => encodeField(number, type, value, label !== undefined));
  });
  return concat(...parts);
}

/** @param {number} number @param {string} type @param {any} value @param {boolean} always @returns {Bytes[]} */
function encodeField(number, type, value, always) {
  if (WHOLE.includes(type)) {
    const whole = BigInt(value);
    return whole || always ? [varint(BigInt(number * 8 + VARINT)), varint(whole)] : [];
  }
  if (type === "double") {
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, value, true);
    return value || always ? [varint(BigInt(number * 8 + FIXED64)), new Uint8Array(view.buffer)] : [];
  }
  const body = type === "bytes" ? value : type === "string" ? utf8(value) : encodeMessage(/** @type {MessageName} */ (type), value);
  const nested = type !== "bytes" && type !== "string";
  return body.length || always || nested ? [varint(BigInt(number * 8 + SIZED)), varint(BigInt(body.length)), body] : [];
}

/** What an answer holds, every field present but the optional ones; `VerificationError` naming `what` if it is not this message. @param {MessageName} name @param {Uint8Array} data @param {string} what @returns {Message} */
export function decodeMessage(name, data, what) {
  try {
    return decode(name, data);
  } catch (error) {
    if (error instanceof RangeError || error instanceof TypeError) throw new VerificationError(`${what} is not what it has to be`);
    throw error;
  }
}

/** @param {MessageName} name @param {Uint8Array} data @returns {Message} */
function decode(name, data) {
  /** @type {Message} */
  const message = {};
  const fields = fieldsOf(name);
  for (const [, key, type, label] of fields) if (label !== "optional") message[key] = label === "repeated" ? [] : fallback(type);
  const reader = new Reader(data);
  while (reader.at < data.length) {
    const tag = Number(reader.varint());
    const field = fields.find(([number]) => number === tag >>> 3);
    const value = reader.value(tag & 7, field?.[2]);
    if (!field || value === undefined) continue; // of a later version
    if (field[3] === "repeated") message[field[1]].push(value);
    else message[field[1]] = value;
  }
  return message;
}

/** @param {string} type @returns {any} */
function fallback(type) {
  if (type === "bytes") return new Uint8Array();
  if (type === "string") return "";
  if (type === "bool") return false;
  if (type === "double" || type === "enum" || type === "uint32" || type === "int32") return 0;
  return type === "int64" || type === "uint64" ? 0n : null;
}

class Reader {
  /** @param {Uint8Array} data */
  constructor(data) {
    this.data = data;
    this.at = 0;
  }

  varint() {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.take(1)[0] ?? 0;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asUintN(64, value);
    }
    throw new RangeError("a number is too long");
  }

  /** @param {number} size */
  take(size) {
    if (size > this.data.length - this.at) throw new RangeError("a message ends early");
    this.at += size;
    return this.data.subarray(this.at - size, this.at);
  }

  /** @param {number} wire @param {string | undefined} type @returns {any} undefined where the field is not known */
  value(wire, type) {
    if (wire === VARINT) {
      const value = this.varint();
      if (type === undefined || !WHOLE.includes(type)) return undefined;
      if (type === "bool") return value !== 0n;
      if (type === "uint64") return value;
      return type === "int64" ? BigInt.asIntN(64, value) : Number(BigInt.asIntN(32, value));
    }
    if (wire === FIXED64) {
      const body = this.take(8);
      return type === "double" ? new DataView(body.buffer, body.byteOffset).getFloat64(0, true) : undefined;
    }
    if (wire === FIXED32) return void this.take(4);
    if (wire !== SIZED) throw new RangeError("an unknown kind of field");
    const body = this.take(Number(this.varint()));
    if (type === undefined || WHOLE.includes(type) || type === "double") return undefined;
    if (type === "bytes") return body.slice();
    return type === "string" ? new TextDecoder("utf-8", { fatal: true }).decode(body) : decode(/** @type {MessageName} */ (type), body);
  }
}
