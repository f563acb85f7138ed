/** Small records, encrypted, over a store that the page brings: each change of several records is made whole or not at all. */
import { concat, utf8 } from "./bytes.js";
import { gcmOpen, gcmSeal } from "./crypto.js";
import { VerificationError } from "./errors.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */
/**
 * Bytes by key ("payloads/1f"). `write` makes all its changes or none (null removes), and they are on disk when it is done.
 * `lock` holds a lock against every other tab while `task` runs; told false where it is taken and `wait` is not asked for.
 * @typedef {object} Store
 * @property {(key: string) => Promise<Uint8Array | undefined>} get
 * @property {(prefix: string) => Promise<string[]>} keys
 * @property {(changes: [string, Uint8Array | null][]) => Promise<void>} write
 * @property {<T>(name: string, wait: boolean, task: (mine: boolean) => Promise<T>) => Promise<T>} lock
 */
/** @typedef {Record<string, any>} Record_ */

const VERSION = Uint8Array.of(1);
const NONCE_BYTES = 12;

/** A key for this device's records that no script can read out again; the page keeps it in IndexedDB beside them. */
export const makeDeviceKey = () =>
  /** @type {Promise<CryptoKey>} */ (crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, false, ["encrypt", "decrypt"]));

/** Records by kind and name (hexadecimal digits). */
export class Vault {
  /** @param {Store} store @param {CryptoKey} key @param {import("./crypto.js").RandomSource} source */
  constructor(store, key, source) {
    this.#store = store;
    this.#key = key;
    this.#source = source;
  }
  #store;
  #key;
  #source;

  /** @param {string} kind @returns {Promise<string[]>} sorted */
  async names(kind) {
    const keys = await this.#store.keys(`${kind}/`);
    return keys.map((key) => key.slice(kind.length + 1)).sort();
  }

  /** A record, or null; `VerificationError` if it is there and cannot be read. @param {string} kind @param {string} name @returns {Promise<Record_ | null>} */
  async get(kind, name) {
    const stored = await this.#store.get(`${kind}/${name}`);
    if (stored === undefined) return null;
    const nonce = stored.subarray(1, 1 + NONCE_BYTES);
    // The record's name is authenticated with it, so that no record can be passed off as another.
    const opened = stored[0] === VERSION[0] ? await gcmOpen(this.#key, nonce, stored.subarray(1 + NONCE_BYTES), utf8(`${kind}/${name}`)) : null;
    if (opened === null) throw new VerificationError(`the record ${kind}/${name} cannot be read: it is damaged, or this browser has another key now`);
    return JSON.parse(new TextDecoder().decode(opened));
  }

  /** All of these changes or none; null removes a record. @param {[kind: string, name: string, record: Record_ | null][]} changes */
  async change(changes) {
    const sealed = changes.map(async ([kind, name, record]) => {
      const key = `${kind}/${name}`;
      return /** @type {[string, Bytes | null]} */ ([key, record === null ? null : await this.#seal(key, record)]);
    });
    await this.#store.write(await Promise.all(sealed));
  }

  /** @param {string} key @param {Record_} record */
  async #seal(key, record) {
    const nonce = this.#source.read(NONCE_BYTES);
    return concat(VERSION, nonce, await gcmSeal(this.#key, nonce, utf8(JSON.stringify(record)), utf8(key)));
  }

  /** One after the other, over all tabs. @template T @param {() => Promise<T>} task @returns {Promise<T>} */
  alone(task) {
    return this.#store.lock("records", true, task);
  }

  /** @template T @param {boolean} wait @param {(mine: boolean) => Promise<T>} task @returns {Promise<T>} */
  sending(wait, task) {
    return this.#store.lock("sending", wait, task);
  }
}
