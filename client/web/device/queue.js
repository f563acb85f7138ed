/**
 * What a browser keeps until the network is there: sealed payloads, drafts, receipts; all of it encrypted.
 *
 * The rules, which hold whenever the tab is killed (`trimask_client.queue`, but for the last):
 * - A payload is written once, under its submission id, and never again: not edited, not drawn anew. It may be sent as often as
 *   needed, for the same bytes give the same receipt.
 * - Nothing is sent before its payload is stored; a payload goes in the very change that stores its receipt.
 * - A withdrawal is stored before anybody is asked; from then on its payload is never sent again.
 * - A draft stays until a first provider has accepted what was sealed from it, so that a refusal loses nobody's answers; while
 *   its payload is here it is not sealed a second time.
 */
import { fromBase64, fromHex, toBase64, toHex } from "./bytes.js";
import * as calls from "./calls.js";
import { systemRandom } from "./crypto.js";
import { DeviceError, InvitationError, reason, Refused, StudyError, Unreachable, VerificationError } from "./errors.js";
import { Invitation } from "./invitation.js";
import { Receipt } from "./receipt.js";
import { parseStudy } from "./signed_study.js";
import { buildSubmission } from "./submission.js";
import { LONGEST_PAUSE_MS, pauseMs, Transport } from "./transport.js";
import { Vault } from "./vault.js";
import { askProviders, newWithdrawal, withdrawalEntry } from "./withdrawing.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */
/** @typedef {import("./signed_study.js").CheckedStudy} CheckedStudy */
/** @typedef {import("./receipt.js").ProviderReceipt} ProviderReceipt */
/** @typedef {CheckedStudy & { invitation: Invitation | null, sealing: Map<number, Bytes> }} Joined */
/**
 * How far one submission has come, why not further, and what happens next. Ids are hexadecimal digits. `told` names the texts
 * for a person of what stands in the way (`problem.<told>`), `why` is the nodes' own sentences; `causes` says the same by role
 * and code (`causeOf`).
 * @typedef {object} Entry
 * @property {string} submissionId
 * @property {string} studyId
 * @property {string} title
 * @property {"waiting" | "refused" | "sent" | "damaged" | "withdrawing" | "withdrawn" | "too_late"} state
 * @property {string[]} receivedBy the right providers whose receipts are here
 * @property {number} providers of so many
 * @property {number} attempts
 * @property {number | null} nextMs
 * @property {string} why
 * @property {string | null} told
 * @property {[string, string][]} causes
 * @property {Receipt | null} receipt
 * @property {string[]} withdrawnBy who has signed that it is erased
 */

const [STUDIES, DRAFTS, PAYLOADS, PROGRESS, RECEIPTS, WITHDRAWALS] = ["studies", "drafts", "payloads", "progress", "receipts", "withdrawals"];
const FRESH = { attempts: 0, nextMs: null, why: "", told: null, causes: [], final: false, receipts: [] };

export class Queue {
  /**
   * @param {import("./vault.js").Store} store @param {CryptoKey} key of `makeDeviceKey`
   * @param {{ fetch?: import("./transport.js").Fetch, now?: () => number, random?: import("./crypto.js").RandomSource, timeoutMs?: number,
   *   signed?: (role: string) => void }} [options] `signed` is told of each receipt that is verified and kept
   */
  constructor(store, key, { fetch, now = Date.now, random = systemRandom, timeoutMs, signed = () => undefined } = {}) {
    this.#vault = new Vault(store, key, random);
    this.#random = random;
    this.#now = now;
    this.#signed = signed;
    this.transport = new Transport(fetch, timeoutMs);
  }
  #vault;
  #random;
  #now;
  #signed;
  /** @type {Map<string, Promise<Joined>>} */
  #joined = new Map();

  // Studies and drafts

  /** Keeps a study, after checking the invitation against it. @param {CheckedStudy} checked @param {Invitation | null} [invitation] @returns {Promise<string>} its id */
  async join(checked, invitation = null) {
    const { study, text } = checked;
    const name = toHex(study.id);
    if (invitation !== null) {
      if (toHex(invitation.studyId) !== name) throw new InvitationError("this invitation is to another study");
      await invitation.verify(study.admits);
    }
    const kept = invitation === null ? "" : toBase64(invitation.toBytes());
    await this.#vault.alone(async () => {
      const before = await this.#vault.get(STUDIES, name).catch(() => null);
      const sealing = before?.["sealing"] ?? {};
      await this.#vault.change([[STUDIES, name, { signed: text, invitation: kept || (before?.["invitation"] ?? ""), sealing }]]);
    });
    this.#joined.delete(name);
    return name;
  }

  /** The ids of the studies joined. */
  studies() {
    return this.#vault.names(STUDIES);
  }

  /** A joined study; its approvals are verified again. @param {string} studyId @returns {Promise<Joined>} */
  study(studyId) {
    const found = this.#joined.get(studyId) ?? this.#load(studyId);
    this.#joined.set(studyId, found);
    found.catch(() => this.#joined.delete(studyId));
    return found;
  }

  /** @param {string} studyId @returns {Promise<Joined>} */
  async #load(studyId) {
    const record = await this.#vault.get(STUDIES, studyId);
    if (record === null) throw new StudyError("this browser has not joined that study; open its link first");
    const checked = await parseStudy(record["signed"], { expectedId: studyId });
    const kept = fromBase64(record["invitation"]);
    const keys = Object.entries(record["sealing"]).map(([k, key]) => /** @type {[number, Bytes]} */ ([Number(k), fromHex(String(key))]));
    const invitation = kept.length ? Invitation.fromBytes(checked.study.id, kept) : null;
    return { ...checked, invitation, sealing: new Map(keys) };
  }

  /**
   * Keeps answers that are not finished, whatever their form; one draft a study. False, and nothing is kept, where a provider has
   * accepted answers to it meanwhile, from another tab: a receipt says that answers are no longer here.
   * @param {string} studyId @param {unknown} answers
   */
  saveDraft(studyId, answers) {
    return this.#vault.alone(async () => {
      const [entries, before] = await Promise.all([this.entries(), this.#vault.get(DRAFTS, studyId).catch(() => null)]);
      const mine = entries.filter((entry) => entry.studyId === studyId && entry.state !== "withdrawn");
      if (mine.some(({ state, receivedBy }) => receivedBy.length > 0 || state === "withdrawing")) return false;
      const draftId = before?.["draftId"] ?? toHex(this.#random.read(16));
      await this.#vault.change([[DRAFTS, studyId, { draftId, answers }]]);
      return true;
    });
  }

  /** @param {string} studyId @returns {Promise<any>} the draft, or null */
  async draft(studyId) {
    return (await this.#vault.get(DRAFTS, studyId))?.["answers"] ?? null;
  }

  /** @param {string} studyId */
  deleteDraft(studyId) {
    return this.#vault.alone(() => this.#vault.change([[DRAFTS, studyId, null]]));
  }

  // Sealing and sending

  /** Asks for the right providers' newest sealing keys, if the network is there; whether all answered. @param {string} studyId */
  async refreshKeys(studyId) {
    const joined = await this.study(studyId);
    const found = await calls.sealingKeys(this.transport, joined.study);
    for (const [k, key] of found) joined.sealing.set(k, key);
    const sealing = Object.fromEntries([...joined.sealing].map(([k, key]) => [k, toHex(key)]));
    await this.#vault.alone(async () => {
      const record = await this.#vault.get(STUDIES, studyId);
      if (record !== null) await this.#vault.change([[STUDIES, studyId, { ...record, sealing }]]);
    });
    return found.size === joined.study.right.length;
  }

  /**
   * What would be refused anyway, before a person is asked: `Refused` with invitation_expired, no_invitation or
   * already_answered from what is here; with study_closed if the collector can be asked and says so, with invitation_used if R1
   * says so, which decides about an invitation.
   * @param {string} studyId
   */
  async checkOpen(studyId) {
    const { study, invitation } = await this.study(studyId);
    await this.#refuseSecond(studyId);
    this.#refuseUninvited(study, invitation);
    const unknown = (/** @type {unknown} */ error) => {
      if (error instanceof DeviceError) return "unknown";
      throw error;
    };
    const [state, admitted] = await Promise.all([
      calls.studyState(this.transport, study).catch(unknown),
      invitation === null ? "" : calls.whyNotAdmitted(this.transport, study, invitation).catch(unknown),
    ]);
    if (state === "closing" || state === "closed") throw new Refused(reason("study_closed"), "this study takes no more answers");
    if (admitted === "invitation_used") throw new Refused(reason(admitted), "this invitation was used before");
    if (admitted === "invitation_expired") throw new Refused(reason(admitted), "the time of this invitation is over");
  }

  /** @param {string} studyId */
  async #refuseSecond(studyId) {
    const before = (await this.entries()).filter((entry) => entry.studyId === studyId);
    if (before.some((entry) => entry.state !== "withdrawn")) {
      throw new Refused(reason("already_answered"), "this browser has answered this study already");
    }
  }

  /** @param {import("./study.js").Study} study @param {Invitation | null} invitation */
  #refuseUninvited(study, invitation) {
    if (study.admission !== "invited") return;
    if (invitation === null) throw new Refused(reason("no_invitation"), "this study is for invited people; open your own link");
    if (invitation.expiresMs <= this.#now()) throw new Refused(reason("invitation_expired"), "the time of this invitation is over");
  }

  /**
   * Masks, splits and seals answers (of the schema's attributes) into a payload to send. A bad answer throws `AnswerError`.
   * A study that this browser has answered is refused: the guarantee is for one row a person.
   * @param {string} studyId @param {import("./schema.js").Answers} answers @returns {Promise<Entry>}
   */
  async seal(studyId, answers) {
    const { study, invitation, sealing } = await this.study(studyId);
    const name = await this.#vault.alone(async () => {
      await this.#refuseSecond(studyId);
      this.#refuseUninvited(study, invitation);
      const draft = await this.#vault.get(DRAFTS, studyId).catch(() => null);
      const made = await buildSubmission(study, answers, this.#random, sealing);
      const admission = invitation === null ? new Uint8Array() : await invitation.admit(made.submissionId, made.sealed);
      const record = {
        studyId,
        sealed: made.sealed.map(toBase64),
        keyIds: made.keyIds.map(toHex),
        sealedMs: this.#now(),
        withdrawalKey: toHex(made.withdrawalKey),
        invitation: toBase64(admission),
        draftId: draft?.["draftId"] ?? null,
      };
      await this.#vault.change([[PAYLOADS, toHex(made.submissionId), record]]);
      return toHex(made.submissionId);
    });
    return this.entry(name);
  }

  /**
   * Tries what waits and is due (`all`: all that waits, say because the network is back); what was tried, after it. Null if
   * another tab is sending.
   * @param {{ all?: boolean }} [options] @returns {Promise<Entry[] | null>}
   */
  send({ all = false } = {}) {
    return this.#vault.sending(false, async (mine) => {
      if (!mine) return null;
      const tried = [];
      for (const entry of await this.#pending()) {
        if (!all && !this.#due(entry)) continue;
        tried.push(await (entry.state === "withdrawing" ? this.#ask(entry.submissionId) : this.#try(entry)));
      }
      return tried;
    });
  }

  /** When `send` next has something to do; null if nothing waits. */
  async nextMs() {
    const times = (await this.#pending()).map((entry) => entry.nextMs ?? this.#now());
    return times.length ? Math.min(...times) : null;
  }

  async #pending() {
    return (await this.entries()).filter(({ state }) => state === "waiting" || state === "withdrawing");
  }

  /** Everything sealed in this browser and not discarded: what was sent, what waits, what is withdrawn. */
  async entries() {
    const names = await Promise.all([RECEIPTS, PAYLOADS, WITHDRAWALS].map((kind) => this.#vault.names(kind)));
    return Promise.all([...new Set(names.flat())].map((name) => this.entry(name)));
  }

  /** One submission. @param {string} submissionId @returns {Promise<Entry>} */
  async entry(submissionId) {
    const empty = { submissionId, receivedBy: [], providers: 0, attempts: 0, nextMs: null, why: "", told: null, causes: [], receipt: null, withdrawnBy: [] };
    try {
      const withdrawal = await this.#vault.get(WITHDRAWALS, submissionId);
      if (withdrawal !== null) return withdrawalEntry(submissionId, withdrawal);
      const sent = await this.#vault.get(RECEIPTS, submissionId);
      if (sent !== null) {
        const receipt = Receipt.fromJson(sent["receipt"]);
        const roles = receipt.providers.map(({ role }) => role);
        const studyId = toHex(receipt.studyId);
        return { ...empty, studyId, title: sent["title"], state: "sent", receivedBy: roles, providers: roles.length, receipt };
      }
      const payload = await this.#vault.get(PAYLOADS, submissionId);
      if (payload === null) throw new Refused(reason("unknown_submission"), "this browser has no such submission");
      const [progress, { study }] = [await this.#progress(submissionId), await this.study(payload["studyId"])];
      const received = progress["receipts"].map((/** @type {any} */ item) => item.role);
      const state = progress["final"] ? "refused" : "waiting";
      const { attempts, nextMs, why, told, causes } = /** @type {any} */ (progress);
      return { ...empty, studyId: payload["studyId"], title: study.title, state, receivedBy: received, providers: study.right.length, attempts, nextMs, why, told, causes };
    } catch (error) {
      if (!(error instanceof VerificationError || error instanceof StudyError)) throw error;
      return { ...empty, studyId: "", title: "", state: "damaged", why: error.message };
    }
  }

  /** Forgets a submission that is not sent; its draft stays if no provider has accepted it. @param {string} submissionId */
  discard(submissionId) {
    return this.#vault.sending(true, () =>
      this.#vault.alone(() => this.#vault.change([[PAYLOADS, submissionId, null], [PROGRESS, submissionId, null]])),
    );
  }

  /** Forgets all there is of a study: draft, submissions, receipts. What was sent stays where it is. @param {string} studyId */
  async forget(studyId) {
    const entries = (await this.entries()).filter((entry) => entry.studyId === studyId);
    /** @type {[string, string, null][]} */
    const gone = entries.flatMap(({ submissionId }) => [PAYLOADS, PROGRESS, RECEIPTS, WITHDRAWALS].map((kind) => /** @type {[string, string, null]} */ ([kind, submissionId, null])));
    await this.#vault.sending(true, () =>
      this.#vault.alone(() => this.#vault.change([...gone, [STUDIES, studyId, null], [DRAFTS, studyId, null]])),
    );
    this.#joined.delete(studyId);
  }

  // Withdrawing

  /** Keeps a receipt made on another device, to withdraw with it here; its study must be joined. @param {string} text @returns {Promise<Entry>} */
  async importReceipt(text) {
    const receipt = Receipt.fromJson(text);
    const { study } = await this.study(toHex(receipt.studyId));
    await receipt.verify(study);
    const name = toHex(receipt.submissionId);
    await this.#vault.alone(() => this.#vault.change([[RECEIPTS, name, { receipt: receipt.toJson(), title: study.title, draftId: null }]]));
    return this.entry(name);
  }

  /**
   * Withdraws a submission. One that was never tried is forgotten, and nobody is asked. Otherwise every right provider is asked
   * to erase it, now and with every `send` until all have signed that they did, or all say that it is too late.
   * @param {string} submissionId @returns {Promise<Entry>}
   */
  withdraw(submissionId) {
    return this.#vault.sending(true, async () => {
      await this.#vault.alone(async () => {
        if ((await this.#vault.names(WITHDRAWALS)).includes(submissionId)) return;
        const { record, studyId } = await this.#withdrawal(submissionId);
        /** @type {[string, string, null][]} */
        const gone = [[PAYLOADS, submissionId, null], [PROGRESS, submissionId, null], [RECEIPTS, submissionId, null], [DRAFTS, studyId, null]];
        await this.#vault.change([[WITHDRAWALS, submissionId, record], ...gone]);
      });
      const entry = await this.entry(submissionId);
      return entry.state === "withdrawing" ? this.#ask(submissionId) : entry;
    });
  }

  /** @param {string} submissionId */
  async #withdrawal(submissionId) {
    const entry = await this.entry(submissionId);
    if (entry.state === "damaged") throw new Refused(reason("unknown_submission"), `it cannot be read (${entry.why}); discard it`);
    const { study } = await this.study(entry.studyId);
    const payload = (await this.#vault.get(PAYLOADS, submissionId)) ?? {};
    const key = payload["withdrawalKey"] || (entry.receipt ? toHex(entry.receipt.withdrawalKey) : "");
    const begun = entry.receipt !== null || (await this.#vault.names(PROGRESS)).includes(submissionId);
    if (begun && !key) throw new Refused(reason("no_withdrawal_key"), "this receipt is without its withdrawal key");
    const record = newWithdrawal(entry, key, study.right.length, payload["invitation"] ?? "");
    return { record: begun ? record : { ...record, state: "withdrawn" }, studyId: entry.studyId };
  }

  /** @param {string} submissionId */
  async #ask(submissionId) {
    const record = await this.#vault.get(WITHDRAWALS, submissionId);
    if (record !== null) {
      const { study, invitation } = await this.study(record["studyId"]);
      let admission = fromBase64(record["invitation"]);
      if (!admission.length && invitation !== null) admission = await invitation.admit(fromHex(submissionId), []);
      const after = await askProviders(this.transport, study, record, admission, this.#now(), this.#random);
      await this.#vault.alone(() => this.#vault.change([[WITHDRAWALS, submissionId, after]]));
    }
    return this.entry(submissionId);
  }

  // Inside

  /** How far sending has come; what cannot be read, sending again finds out. @param {string} name @returns {Promise<import("./vault.js").Record_>} */
  async #progress(name) {
    return { ...FRESH, ...((await this.#vault.get(PROGRESS, name).catch(() => null)) ?? {}) };
  }

  /** @param {Entry} entry */
  #due({ nextMs }) {
    if (nextMs === null) return true;
    const left = nextMs - this.#now();
    return left <= 0 || left > LONGEST_PAUSE_MS; // a clock may be set back; no pause is longer than the longest
  }

  /** @param {Entry} entry @returns {Promise<Entry>} */
  async #try(entry) {
    const name = entry.submissionId;
    const payload = await this.#vault.get(PAYLOADS, name);
    if (payload === null) return entry;
    const { study } = await this.study(entry.studyId);
    const submission = {
      studyId: study.id,
      submissionId: fromHex(name),
      sealed: payload["sealed"].map(fromBase64),
      withdrawalKey: fromHex(payload["withdrawalKey"]),
      keyIds: payload["keyIds"].map(fromHex),
    };
    const admission = fromBase64(payload["invitation"]);
    const progress = await this.#progress(name);
    // From here on a part of it may be out, whatever is known of that.
    if (!(await this.#vault.names(PROGRESS)).includes(name)) await this.#vault.change([[PROGRESS, name, progress]]);
    /** @type {[string, DeviceError][]} */
    const failures = [];
    const ask = async (/** @type {number} */ provider) => {
      const role = `R${provider}`;
      try {
        const receipt = await calls.upload(this.transport, study, submission, provider, admission);
        progress["receipts"] = [...progress["receipts"], kept(receipt)].sort(byRole);
        await this.#accepted(entry.studyId, name, progress, payload["draftId"]);
        this.#signed(role);
      } catch (error) {
        if (!(error instanceof DeviceError)) throw error;
        failures.push([role, error]);
      }
    };
    const had = progress["receipts"].map((/** @type {any} */ item) => item.role);
    const missing = Array.from(submission.sealed, (_, place) => place + 1).filter((provider) => !had.includes(`R${provider}`));
    // The first provider decides whose an invitation is: used twice, it then counts once, not never. Then all at once: one that
    // does not answer delays no other.
    if (admission.length && !had.length) await ask(Number(missing.shift()));
    if (!failures.length) await together(missing.map(ask));
    failures.sort(([one], [other]) => byRole({ role: one }, { role: other }));
    const refusals = failures.flatMap(([, error]) => (error instanceof Refused ? [error] : []));
    const last = failures.at(-1)?.[1];
    const decided = refusals.find(({ reason: { final } }) => final) ?? last;
    if (decided instanceof Refused && decided.reason.final) progress["final"] = true;
    if (decided) progress["told"] = decided instanceof Refused ? decided.reason.told : null;
    if (progress["receipts"].length === submission.sealed.length) return this.#finish(study, submission, progress, payload["draftId"]);
    progress["attempts"] += 1;
    progress["why"] = failures.map(([role, { message }]) => (message.includes(role) ? message : `${role}: ${message}`)).join("; ").replace(/\.$/, "");
    progress["causes"] = failures.map(([role, error]) => [role, causeOf(error)]);
    const askedMs = refusals.map(({ retryAfterMs }) => retryAfterMs ?? 0); // never sooner than a provider asked for
    progress["nextMs"] = this.#now() + Math.max(...askedMs, pauseMs(progress["attempts"], this.#random));
    await this.#vault.alone(() => this.#vault.change([[PROGRESS, name, progress]]));
    return this.entry(name);
  }

  /** A provider has accepted: its receipt is kept, and the draft has had its time. @param {string} studyId @param {string} name @param {import("./vault.js").Record_} progress @param {string | null} draftId */
  #accepted(studyId, name, progress, draftId) {
    return this.#vault.alone(async () => {
      const draft = await this.#vault.get(DRAFTS, studyId).catch(() => null);
      const done = draft !== null && draft["draftId"] === draftId;
      await this.#vault.change([[PROGRESS, name, progress], ...(done ? [/** @type {[string, string, null]} */ ([DRAFTS, studyId, null])] : [])]);
    });
  }

  /** @param {import("./study.js").Study} study @param {import("./submission.js").SealedSubmission} submission @param {import("./vault.js").Record_} progress @param {string | null} draftId */
  async #finish(study, submission, progress, draftId) {
    const name = toHex(submission.submissionId);
    const receipt = new Receipt(study.id, submission.submissionId, progress["receipts"].map(asReceipt), submission.withdrawalKey, study.collector.address);
    await receipt.verify(study);
    const record = { receipt: receipt.toJson(), title: study.title, draftId };
    await this.#vault.alone(() => this.#vault.change([[RECEIPTS, name, record], [PAYLOADS, name, null], [PROGRESS, name, null]]));
    return this.entry(name);
  }
}

/** All of them, to their end; the first error of the program's own is thrown then. @param {Promise<void>[]} calls */
async function together(calls) {
  for (const done of await Promise.allSettled(calls)) if (done.status === "rejected") throw done.reason;
}

/** Why a provider has no part: a refusal's reason, "offline" if it was not reached, "untrusted" for a wrong answer. @param {DeviceError} error */
const causeOf = (error) => (error instanceof Refused ? error.reason.word : error instanceof Unreachable ? "offline" : "untrusted");

/** @param {ProviderReceipt} receipt */
const kept = (receipt) => ({ ...receipt, sealedHash: toHex(receipt.sealedHash), signature: toHex(receipt.signature) });

/** @param {any} record @returns {ProviderReceipt} */
const asReceipt = (record) => ({ ...record, sealedHash: fromHex(record.sealedHash), signature: fromHex(record.signature) });

/** @param {{ role: string }} one @param {{ role: string }} other */
const byRole = (one, other) => Number(one.role.slice(1)) - Number(other.role.slice(1));
