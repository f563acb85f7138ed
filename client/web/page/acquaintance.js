// Which institutions this browser knows: directories that their keepers signed and the person has added, after comparing a key.

import { knownParties, parseDirectory, toHex } from "../device/index.js";

/** @typedef {import("../device/institutions.js").Directory} Directory */
/** @typedef {import("../device/institutions.js").Standing} Standing */
/** @typedef {import("../device/index.js").Study} Study */

const KIND = "institutions";

/** The directories a person has added, kept as they were signed and verified at every start. */
export class Acquaintance {
  /** @param {import("../device/vault.js").Vault} vault */
  constructor(vault) {
    this.vault = vault;
    /** @type {Directory[]} */
    this.directories = [];
  }

  /** Reads what is kept. A damaged one makes nobody known, and stops nothing. */
  async load() {
    const names = await this.vault.names(KIND).catch(() => []);
    const read = async (/** @type {string} */ name) => {
      const record = await this.vault.get(KIND, name);
      return record === null ? [] : [await parseDirectory(String(record["text"]))];
    };
    this.directories = (await Promise.all(names.map((name) => read(name).catch(() => [])))).flat();
  }

  /** Keeps a directory; it takes the place of an older one of the same keeper's. @param {string} text */
  async add(text) {
    const book = await parseDirectory(text);
    const name = toHex(book.keeperKey);
    await this.vault.change([[KIND, name, { text }]]);
    this.directories = [...this.directories.filter((other) => toHex(other.keeperKey) !== name), book];
  }

  /** @param {Study} study @returns {Standing[]} */
  parties(study) {
    return knownParties(study, this.directories);
  }
}
