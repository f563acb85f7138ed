/** What the checks of vectors share; nothing here is node's or a browser's alone. */
import { Stream, sha256 } from "../../client/web/device/crypto.js";
import { toHex, utf8 } from "../../client/web/device/bytes.js";

/** @param {unknown} value @returns {string} */
const shown = (value) =>
  JSON.stringify(value, (_, item) => {
    if (typeof item === "bigint") return `${item}n`;
    if (item instanceof Uint8Array) return toHex(item);
    if (ArrayBuffer.isView(item)) return Array.from(/** @type {any} */ (item));
    if (Object.is(item, -0)) return "-0";
    return item;
  });

/** @param {unknown} found @param {unknown} wanted @param {string} [what] */
export function same(found, wanted, what = "") {
  const [one, other] = [shown(found), shown(wanted)];
  if (one === other) return;
  let at = 0;
  while (one?.[at] === other?.[at]) at += 1;
  throw new Error(`${what}: found ...${one?.slice(Math.max(0, at - 20), at + 60)}, wanted ...${other?.slice(Math.max(0, at - 20), at + 60)}`);
}

/** @param {() => unknown} call @param {string} what @returns {Promise<any>} the error */
export async function refused(call, what) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error(`${what}: was not refused`);
}

/** "0x1.8p+1" as the number it is. @param {string} text */
export function fromHexFloat(text) {
  const [, sign, whole, digits = "", power] = /** @type {RegExpExecArray} */ (/^(-?)0x([01])\.?([0-9a-f]*)p([+-][0-9]+)$/.exec(text));
  const mantissa = Number(`0x${whole}${digits || "0"}`) * 2 ** (-4 * (digits.length || 1));
  return (sign ? -1 : 1) * mantissa * 2 ** Number(power);
}

/** `DeterministicRandom(label)` of trimask_core: repeatable, for tests alone. @param {string} label @param {number} [size] */
export async function deterministic(label, size = 1 << 17) {
  const stream = await Stream.open(await sha256(utf8(label)), "test double");
  return recorded(await stream.read(size));
}

/** A source that gives these bytes and no more. @param {Uint8Array} data */
export function recorded(data) {
  let at = 0;
  return {
    get used() {
      return at;
    },
    /** @param {number} count */
    read(count) {
      if (at + count > data.length) throw new Error("the recorded randomness is used up");
      at += count;
      return data.slice(at - count, at);
    },
  };
}
