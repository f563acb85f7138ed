/** Receipts: each right provider's signed word that a component is on its disk, and that it is gone again. */
import { bigEndian, concat, equal, fromBase64, fromBase64Url, fromHex, readBigEndian, toBase64, toBase64Url, toHex } from "./bytes.js";
import { verify } from "./crypto.js";
import { VerificationError } from "./errors.js";
import { submissionIdOf, WITHDRAWAL_KEY_BYTES } from "./submission.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */
/** @typedef {import("./study.js").Study} Study */
/** @typedef {{ role: string, sealedHash: Bytes, receiveTimeMs: number, signature: Bytes }} ProviderReceipt */
/** @typedef {{ role: string, withdrawTimeMs: number, signature: Bytes }} ProviderWithdrawal */

const PREFIX = "receipt.";
const VERSION = 1;
const [STUDY, SUBMISSION, KEY, HASH, TIME, SIGNATURE] = [32, 16, 32, 32, 6, 64];
const EACH = HASH + TIME + SIGNATURE;

/** @param {unknown} value @param {string} what @returns {number} */
function timeOf(value, what) {
  const time = Number(value);
  if (!Number.isSafeInteger(time) || time < 0) throw new VerificationError(`${what} has an impossible time`);
  return time;
}

/** `VerificationError` unless this provider signed it. @param {Study} study @param {Uint8Array} submissionId @param {ProviderReceipt} receipt */
export async function verifyReceipt(study, submissionId, { role, sealedHash, receiveTimeMs, signature }) {
  const what = `the receipt of ${role}`;
  const message = concat(study.id, submissionId, sealedHash, bigEndian(timeOf(receiveTimeMs, what), 8));
  await verify(study.party(role).identity, "receipt", message, signature, what);
}

/** `VerificationError` unless this provider signed it. @param {Study} study @param {Uint8Array} submissionId @param {ProviderWithdrawal} word */
export async function verifyWithdrawal(study, submissionId, { role, withdrawTimeMs, signature }) {
  const what = `the withdrawal at ${role}`;
  const message = concat(study.id, submissionId, bigEndian(timeOf(withdrawTimeMs, what), 8));
  await verify(study.party(role).identity, "withdrawal", message, signature, what);
}

/** All K1 receipts of one submission. With its `withdrawalKey` it can be withdrawn by whoever has it; `shown` is a copy without. */
export class Receipt {
  /** @param {Bytes} studyId @param {Bytes} submissionId @param {ProviderReceipt[]} providers @param {Bytes} withdrawalKey @param {string} collector where the study can be fetched */
  constructor(studyId, submissionId, providers, withdrawalKey, collector) {
    this.studyId = studyId;
    this.submissionId = submissionId;
    this.providers = providers;
    this.withdrawalKey = withdrawalKey;
    this.collector = collector;
  }

  /** A copy that proves as much and cannot withdraw. */
  get shown() {
    return new Receipt(this.studyId, this.submissionId, this.providers, new Uint8Array(), this.collector);
  }

  /** `VerificationError` unless every right provider of the study signed. @param {Study} study */
  async verify(study) {
    if (!equal(this.studyId, study.id)) throw new VerificationError("this receipt is for another study");
    const key = this.withdrawalKey;
    const fits = key.length === WITHDRAWAL_KEY_BYTES && equal(await submissionIdOf(this.studyId, key), this.submissionId);
    if (key.length && !fits) throw new VerificationError("the withdrawal key of this receipt is for another submission");
    const complete = this.providers.length === study.right.length && this.providers.every(({ role }, k) => role === `R${k + 1}`);
    if (!complete) throw new VerificationError("this receipt does not have one signature of each right provider");
    await Promise.all(this.providers.map((item) => verifyReceipt(study, this.submissionId, item)));
  }

  /** The form a person keeps: the same bytes as the app's and the command line's. */
  toJson() {
    const later = {
      ...(this.withdrawalKey.length ? { withdrawal_key: toHex(this.withdrawalKey) } : {}),
      ...(this.collector ? { collector: this.collector } : {}),
    };
    const providers = this.providers.map((item) => ({
      role: item.role,
      sealed_hash: toHex(item.sealedHash),
      receive_time_ms: item.receiveTimeMs,
      signature: toBase64(item.signature),
    }));
    return JSON.stringify({ study_id: toHex(this.studyId), submission_id: toHex(this.submissionId), providers, ...later }, null, 1);
  }

  /** Reads what `toJson` wrote; `verify` is still to be called. @param {string} text */
  static fromJson(text) {
    try {
      const data = JSON.parse(text);
      /** @type {ProviderReceipt[]} */
      const providers = data.providers.map((/** @type {any} */ item) => ({
        role: String(item.role),
        sealedHash: fromHex(item.sealed_hash),
        receiveTimeMs: timeOf(item.receive_time_ms, "a receipt"),
        signature: fromBase64(item.signature),
      }));
      const key = fromHex(data.withdrawal_key ?? "");
      return new Receipt(fromHex(data.study_id), fromHex(data.submission_id), providers, key, String(data.collector ?? ""));
    } catch (error) {
      throw new VerificationError(`this is not a receipt: ${error instanceof Error ? error.message : error}`);
    }
  }
}

/**
 * A receipt as a link: what a camera can read from one screen and open on another device. Everything is in the fragment, which a
 * browser sends to nobody; bytes rather than JSON, so that the code stays coarse enough for a camera.
 * @param {string} page the page's address, without a fragment @param {Receipt} receipt
 */
export function receiptLink(page, receipt) {
  const parts = receipt.providers.map((item) => concat(item.sealedHash, bigEndian(item.receiveTimeMs, TIME), item.signature));
  const bytes = concat(Uint8Array.of(VERSION), receipt.studyId, receipt.submissionId, receipt.withdrawalKey, ...parts);
  return `${page}#${PREFIX}${toBase64Url(bytes)}`;
}

/** The receipt in a fragment, or null if it is something else; it is still to be verified.
 * @param {string} fragment without its # @returns {Receipt | null} */
export function readReceiptFragment(fragment) {
  if (!fragment.startsWith(PREFIX)) return null;
  let bytes;
  try {
    bytes = fromBase64Url(fragment.slice(PREFIX.length));
  } catch {
    throw new VerificationError("this receipt has a character that does not belong in it");
  }
  const head = 1 + STUDY + SUBMISSION + KEY;
  if (bytes[0] !== VERSION || bytes.length <= head || (bytes.length - head) % EACH !== 0) {
    throw new VerificationError("this receipt is not whole");
  }
  let at = 1;
  const take = (/** @type {number} */ count) => bytes.slice(at, (at += count));
  const [studyId, submissionId, key] = [take(STUDY), take(SUBMISSION), take(KEY)];
  /** @type {ProviderReceipt[]} */
  const providers = [];
  while (at < bytes.length) {
    const role = `R${providers.length + 1}`;
    providers.push({ role, sealedHash: take(HASH), receiveTimeMs: Number(readBigEndian(take(TIME))), signature: take(SIGNATURE) });
  }
  return new Receipt(studyId, submissionId, providers, key, "");
}
