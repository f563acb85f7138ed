// Where the queue's encrypted records are: IndexedDB, with the device's key beside them, which no script can read out. The key
// makes a copy of the browser's files useless elsewhere; against a changed page it helps nothing, and neither does anything else.

import { makeDeviceKey } from "../device/index.js";

/** @typedef {import("../device/vault.js").Store} Store */

const NAME = "trimask";
const [RECORDS, KEYS] = ["records", "keys"];

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
const answered = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

/** @param {IDBTransaction} transaction @returns {Promise<void>} */
const completed = (transaction) => new Promise((resolve, reject) => {
  transaction.oncomplete = () => resolve();
  transaction.onabort = () => reject(transaction.error ?? new DOMException("the records could not be written", "AbortError"));
});

/** The store of this browser and its key; one that lasts as long as the page where the browser keeps nothing.
 * @returns {Promise<{store: Store, key: CryptoKey, lasting: boolean}>} */
export async function openStore() {
  try {
    const database = await openDatabase();
    const key = await deviceKey(database);
    // Asked for, not needed: a browser that runs out of space then does not begin with this. And not waited for: Firefox asks
    // the person, who may leave that question where it is.
    void navigator.storage?.persist?.().catch(() => false);
    return { store: new IndexedStore(database), key, lasting: true };
  } catch {
    return { store: new MemoryStore(), key: await makeDeviceKey(), lasting: false };
  }
}

/** @returns {Promise<IDBDatabase>} */
async function openDatabase() {
  const request = indexedDB.open(NAME, 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore(RECORDS);
    request.result.createObjectStore(KEYS);
  };
  return answered(request);
}

/** @param {IDBDatabase} database @returns {Promise<CryptoKey>} */
async function deviceKey(database) {
  const fresh = await makeDeviceKey();
  // Looked for and written in one transaction: two tabs that start together have one key.
  const transaction = database.transaction(KEYS, "readwrite", { durability: "strict" });
  const keys = transaction.objectStore(KEYS);
  const done = completed(transaction);
  const before = await answered(keys.get("device"));
  if (before === undefined) keys.put(fresh, "device");
  await done;
  return before ?? fresh;
}

/** @implements {Store} */
export class IndexedStore {
  /** @param {IDBDatabase} database */
  constructor(database) {
    this.database = database;
  }

  /** @param {string} key @returns {Promise<Uint8Array | undefined>} */
  get(key) {
    return answered(this.database.transaction(RECORDS).objectStore(RECORDS).get(key));
  }

  /** @param {string} prefix @returns {Promise<string[]>} */
  async keys(prefix) {
    const range = IDBKeyRange.bound(prefix, `${prefix}\uffff`);
    return (await answered(this.database.transaction(RECORDS).objectStore(RECORDS).getAllKeys(range))).map(String);
  }

  /** @param {[string, Uint8Array | null][]} changes */
  async write(changes) {
    const transaction = this.database.transaction(RECORDS, "readwrite", { durability: "strict" });
    const done = completed(transaction);
    const records = transaction.objectStore(RECORDS);
    try {
      for (const [key, value] of changes) {
        if (value === null) records.delete(key);
        else records.put(value, key);
      }
    } catch (error) {
      transaction.abort(); // all of the changes or none
      await done.catch(() => undefined);
      throw error;
    }
    await done;
  }

  /** @template T @param {string} name @param {boolean} wait @param {(mine: boolean) => Promise<T>} task @returns {Promise<T>} */
  lock(name, wait, task) {
    return /** @type {Promise<T>} */ (navigator.locks.request(`${NAME}/${name}`, { ifAvailable: !wait }, (lock) => task(lock !== null)));
  }
}

/** @implements {Store} */
export class MemoryStore {
  constructor() {
    /** @type {Map<string, Uint8Array>} */
    this.records = new Map();
    /** @type {Map<string, Promise<unknown>>} */
    this.held = new Map();
  }

  /** @param {string} key */
  async get(key) {
    return this.records.get(key);
  }

  /** @param {string} prefix */
  async keys(prefix) {
    return [...this.records.keys()].filter((key) => key.startsWith(prefix));
  }

  /** @param {[string, Uint8Array | null][]} changes */
  async write(changes) {
    for (const [key, value] of changes) {
      if (value === null) this.records.delete(key);
      else this.records.set(key, value);
    }
  }

  /** @template T @param {string} name @param {boolean} wait @param {(mine: boolean) => Promise<T>} task @returns {Promise<T>} */
  async lock(name, wait, task) {
    const before = this.held.get(name);
    if (before !== undefined && !wait) return task(false);
    const mine = Promise.resolve(before).catch(() => undefined).then(() => task(true));
    this.held.set(name, mine);
    try {
      return await mine;
    } finally {
      if (this.held.get(name) === mine) this.held.delete(name);
    }
  }
}
