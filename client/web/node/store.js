// Where a queue's records are on a server's disk: a folder a person, with the key that encrypts them beside them. The key makes
// a copy of the records alone useless; whoever has the whole folder has them. One process at a time uses a folder.

// @ts-ignore - node's types are no dependency of this package
import { mkdir, open, readFile, rename } from "node:fs/promises";
import { fromBase64, toBase64 } from "../device/bytes.js";

/** @typedef {import("../device/vault.js").Store} Store */
/** @typedef {{ [key: string]: string }} Records */

const KEY_BYTES = 32;

/** By folder and name, what others wait for; of all stores in this process. @type {Map<string, Promise<unknown>>} */
const held = new Map();

/** One after the other. @template T @param {string} name @param {() => Promise<T>} task @returns {Promise<T>} */
async function after(name, task) {
  const mine = (held.get(name) ?? Promise.resolve()).catch(() => undefined).then(task);
  held.set(name, mine);
  try {
    return await mine;
  } finally {
    if (held.get(name) === mine) held.delete(name);
  }
}

/** The store of a folder, which is made if it is not there, and its key. @param {string} folder @returns {Promise<{store: Store, key: CryptoKey, lasting: boolean}>} */
export async function openStore(folder) {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const raw = await after(`${folder}/key`, () => deviceKey(`${folder}/device.key`));
  const key = await crypto.subtle.importKey("raw", raw, "AES-GCM", false, ["encrypt", "decrypt"]);
  return { store: new FolderStore(folder), key, lasting: true };
}

/** @param {string} path @returns {Promise<import("../device/bytes.js").Bytes>} */
async function deviceKey(path) {
  const before = await contents(path);
  if (before !== null) return new Uint8Array(before);
  const fresh = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  await replace(path, fresh);
  return fresh;
}

/** @param {string} path @returns {Promise<Uint8Array | null>} */
async function contents(path) {
  try {
    return await readFile(path);
  } catch (error) {
    if (/** @type {{ code?: string }} */ (error).code === "ENOENT") return null;
    throw error;
  }
}

/** The whole file or the one before it, whenever the power goes. @param {string} path @param {Uint8Array | string} data */
async function replace(path, data) {
  const file = await open(`${path}.new`, "w", 0o600);
  try {
    await file.writeFile(data);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}.new`, path);
  const folder = await open(path.slice(0, path.lastIndexOf("/")), "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** All records in one file: a person has few. @implements {Store} */
class FolderStore {
  /** @param {string} folder */
  constructor(folder) {
    this.folder = folder;
    this.path = `${folder}/records.json`;
  }

  /** @returns {Promise<Records>} */
  async #records() {
    const text = await contents(this.path);
    return text === null ? {} : JSON.parse(new TextDecoder().decode(text));
  }

  /** @param {string} key @returns {Promise<Uint8Array | undefined>} */
  async get(key) {
    const found = (await this.#records())[key];
    return found === undefined ? undefined : fromBase64(found);
  }

  /** @param {string} prefix */
  async keys(prefix) {
    return Object.keys(await this.#records()).filter((key) => key.startsWith(prefix));
  }

  /** @param {[string, Uint8Array | null][]} changes */
  write(changes) {
    return after(`${this.folder}/write`, async () => {
      const records = new Map(Object.entries(await this.#records()));
      for (const [key, value] of changes) {
        if (value === null) records.delete(key);
        else records.set(key, toBase64(value));
      }
      await replace(this.path, JSON.stringify(Object.fromEntries(records)));
    });
  }

  /** @template T @param {string} name @param {boolean} wait @param {(mine: boolean) => Promise<T>} task @returns {Promise<T>} */
  lock(name, wait, task) {
    const full = `${this.folder}/lock/${name}`;
    return held.has(full) && !wait ? task(false) : after(full, () => task(true));
  }
}
