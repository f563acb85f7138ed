// What this browser keeps of one study and sends for it: the queue, told in the page's terms.

import { knownParties, parseDirectory, Queue, Receipt, toHex } from "../device/index.js";
import { systemRandom } from "../device/crypto.js";
import { receiptLink } from "../device/receipt.js";
import { Vault } from "../device/vault.js";
import { Form, formForSchema } from "../form/form.js";
import { PageError } from "./problem.js";

/** @typedef {import("../device/queue.js").Entry & {consent?: Consent | null}} Entry */
/** @typedef {import("../device/index.js").Study} Study */
/** @typedef {import("../device/institutions.js").Directory} Directory */
/** @typedef {import("../device/institutions.js").Standing} Standing */
/** @typedef {import("../device/index.js").Invitation} Invitation */
/** @typedef {import("../device/signed_study.js").CheckedStudy} CheckedStudy */
/** @typedef {import("./participation.js").Consent} Consent */
/** @typedef {import("./guide.js").PartState} PartState */
/** @typedef {(role: string, state: PartState) => void} Watch */
/** `expiresMs`: when the invitation ends, null in an open study. `unchecked`: what of the promise a device cannot work out.
 * @typedef {{study: Study, id: string, form: Form, expiresMs: number | null, unchecked: string[]}} Opened */

const [CONSENTS, INSTITUTIONS] = ["consents", "institutions"];
const SUBMIT = "/trimask_proto.v1.SubmissionService/";

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
    const names = await this.vault.names(INSTITUTIONS).catch(() => []);
    const read = async (/** @type {string} */ name) => {
      const record = await this.vault.get(INSTITUTIONS, name);
      return record === null ? [] : [await parseDirectory(String(record["text"]))];
    };
    this.directories = (await Promise.all(names.map((name) => read(name).catch(() => [])))).flat();
  }

  /** Keeps a directory; it takes the place of an older one of the same keeper's. @param {string} text */
  async add(text) {
    const book = await parseDirectory(text);
    const name = toHex(book.keeperKey);
    await this.vault.change([[INSTITUTIONS, name, { text }]]);
    this.directories = [...this.directories.filter((other) => toHex(other.keeperKey) !== name), book];
  }

  /** @param {Study} study @returns {Standing[]} */
  parties(study) {
    return knownParties(study, this.directories);
  }
}

/** One study in this browser. */
export class Keeper {
  /** @param {import("../device/vault.js").Store} store @param {CryptoKey} key */
  constructor(store, key) {
    /** @type {Watch} */
    this.watch = () => undefined;
    const signed = (/** @type {string} */ role) => this.watch(role, "done");
    this.queue = new Queue(store, key, { fetch: (url, request) => this.watched(url, request), signed });
    this.vault = new Vault(store, key, systemRandom);
    this.acquaintance = new Acquaintance(this.vault);
  }

  /** A study that this browser has joined before, or null. @param {string} id @returns {Promise<CheckedStudy | null>} */
  async known(id) {
    return (await this.queue.studies()).includes(id) ? this.queue.study(id).catch(() => null) : null;
  }

  /** Join the study and make sure that its page may be shown here.
   * @param {CheckedStudy} checked @param {Invitation | null} invitation @param {string} origin @returns {Promise<Opened>} */
  async join(checked, invitation, origin) {
    const { study, unchecked } = checked;
    if (study.web === null) throw new PageError("web");
    // A host that hands out a changed page leaves this out: it is against mistakes and copies (docs/web.md).
    if (!study.web.hosts.includes(origin)) throw new PageError("host", { host: origin, hosts: study.web.hosts.join(", ") });
    const form = study.form === null ? formForSchema(study.schema.attributes.map(asked)) : new Form(/** @type {any} */ (study.form));
    await this.acquaintance.load();
    this.id = await this.queue.join(checked, invitation);
    const joined = await this.queue.study(this.id);
    this.study = study;
    return { study, id: this.id, form, expiresMs: joined.invitation?.expiresMs ?? null, unchecked };
  }

  get own() {
    if (this.id === undefined || this.study === undefined) throw new Error("no study is open");
    return { id: this.id, study: this.study };
  }

  draft() {
    return this.queue.draft(this.own.id).catch(() => null);
  }

  /** @param {unknown} record */
  saveDraft(record) {
    return this.queue.saveDraft(this.own.id, record);
  }

  deleteDraft() {
    return this.queue.deleteDraft(this.own.id);
  }

  /** The submission of this study; a withdrawn one only where there is no other.
   * @returns {Promise<Entry | null>} */
  async entry() {
    const mine = (await this.queue.entries()).filter((entry) => entry.studyId === this.own.id || entry.state === "damaged");
    const found = mine.find((entry) => entry.state !== "withdrawn") ?? mine[mine.length - 1] ?? null;
    return found === null ? null : this.withConsent(found);
  }

  /** @param {Entry} entry @returns {Promise<Entry>} */
  async withConsent(entry) {
    const consent = await this.vault.get(CONSENTS, this.own.id).catch(() => null);
    return { ...entry, consent: /** @type {Consent | null} */ (consent) };
  }

  /** What would be refused anyway, before anybody takes pains: an invitation that is over or used here, a closed study. */
  checkOpen() {
    return this.queue.checkOpen(this.own.id);
  }

  /** Mask, split and seal. @param {Record<string, boolean | number | string>} answers @param {Consent | null} consent @returns {Promise<Entry>} */
  async seal(answers, consent) {
    const { id } = this.own;
    await this.queue.checkOpen(id);
    await this.queue.refreshKeys(id).catch(() => false);
    const entry = await this.queue.seal(id, answers);
    if (consent !== null) await this.vault.change([[CONSENTS, id, { ...consent }]]).catch(() => undefined);
    return this.withConsent(entry);
  }

  /** Try what waits; the submission after it. Where another tab is sending, how far that has come.
   * @param {Watch} watch @returns {Promise<Entry | null>} */
  async send(watch) {
    this.watch = watch;
    try {
      await this.queue.send({ all: true });
    } finally {
      this.watch = () => undefined;
    }
    return this.entry();
  }

  /** Nothing of the study is left in this browser. */
  async forget() {
    await this.queue.forget(this.own.id);
    await this.vault.change([[CONSENTS, this.own.id, null]]);
  }

  /** @param {string} submissionId */
  async discard(submissionId) {
    await this.queue.discard(submissionId);
  }

  /** @param {string} submissionId @returns {Promise<Entry>} */
  async withdraw(submissionId) {
    return this.withConsent(await this.queue.withdraw(submissionId));
  }

  /** @param {string} text @returns {Promise<Entry>} */
  async importReceipt(text) {
    const receipt = Receipt.fromJson(text);
    const name = toHex(receipt.submissionId);
    // One that is being withdrawn here stays so: an old copy of its receipt brings nothing back.
    const before = (await this.queue.entries()).find((entry) => entry.submissionId === name && entry.state !== "sent");
    return before ?? this.queue.importReceipt(text);
  }

  /** @param {Receipt} receipt */
  linkOf(receipt) {
    return receipt.withdrawalKey.length === 0 ? "" : receiptLink(location.origin + location.pathname, receipt);
  }

  /** @param {string} url @param {RequestInit} request */
  async watched(url, request) {
    const place = this.study?.right.findIndex((party) => url.startsWith(party.https + SUBMIT)) ?? -1;
    const tell = (/** @type {PartState} */ state) => { if (place >= 0) this.watch(`R${place + 1}`, state); };
    tell("busy");
    try {
      const response = await fetch(url, request);
      // An answer is not yet a receipt: the queue says when it has one.
      if (!response.ok) tell("later");
      return response;
    } catch (error) {
      tell("later");
      throw error;
    }
  }
}

/** An attribute as a plain form asks for it. @param {import("../device/schema.js").Attribute} attribute */
function asked({ name, kind, label, unit, levels, bounds }) {
  const bounded = kind === "continuous" || kind === "integer";
  return { name, kind, label, unit, levels, minimum: bounded ? bounds[0] : null, maximum: bounded ? bounds[1] : null };
}
