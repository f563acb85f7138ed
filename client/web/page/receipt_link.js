// A receipt as a link: what a camera can read from one screen and open on another device. Everything is in the fragment, which
// a browser sends to nobody; bytes rather than JSON, so that the code stays coarse enough for a camera.

import { bigEndian, concat, fromBase64Url, readBigEndian, toBase64Url } from "../device/bytes.js";
import { Receipt, VerificationError } from "../device/index.js";

const PREFIX = "receipt.";
const VERSION = 1;
const [STUDY, SUBMISSION, KEY, HASH, TIME, SIGNATURE] = [32, 16, 32, 32, 6, 64];
const EACH = HASH + TIME + SIGNATURE;

/** @param {string} page the page's address, without a fragment @param {Receipt} receipt */
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
  /** @type {import("../device/receipt.js").ProviderReceipt[]} */
  const providers = [];
  while (at < bytes.length) {
    const role = `R${providers.length + 1}`;
    providers.push({ role, sealedHash: take(HASH), receiveTimeMs: Number(readBigEndian(take(TIME))), signature: take(SIGNATURE) });
  }
  return new Receipt(studyId, submissionId, providers, key, "");
}
