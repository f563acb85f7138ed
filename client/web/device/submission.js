/** The device's part: from answers to K1 sealed payloads, frozen: `trimask_core.submit.submission`, `sealing` and `withdrawal`. */
import { bigEndian, concat, utf8 } from "./bytes.js";
import { sha256 } from "./crypto.js";
import { VerificationError } from "./errors.js";
import { EPHEMERAL_BYTES, hpkeSeal, PUBLIC_KEY_BYTES } from "./hpke.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */
/** @typedef {import("./crypto.js").RandomSource} RandomSource */
/** @typedef {import("./study.js").Study} Study */
/**
 * The id is a hash of `withdrawalKey`, which goes into the receipt and to nobody else until it is used.
 * @typedef {{ studyId: Bytes, submissionId: Bytes, sealed: Bytes[], withdrawalKey: Bytes, keyIds: Bytes[] }} SealedSubmission
 */

export const WITHDRAWAL_KEY_BYTES = 32;
const ID_BYTES = 16;

/** The id of the submission that this key withdraws. @param {Uint8Array} studyId @param {Uint8Array} withdrawalKey @returns {Promise<Bytes>} */
export async function submissionIdOf(studyId, withdrawalKey) {
  if (withdrawalKey.length !== WITHDRAWAL_KEY_BYTES) throw new RangeError(`a withdrawal key has ${WITHDRAWAL_KEY_BYTES} bytes`);
  return (await sha256(concat(utf8("trimask/v1/submission-id\0"), studyId, withdrawalKey))).slice(0, ID_BYTES);
}

/** What a sealed component is bound to. @param {Uint8Array} binding @param {number} provider from 1 @param {Uint8Array} submissionId */
export const componentInfo = (binding, provider, submissionId) =>
  concat(utf8("trimask/v1/component\0"), binding, bigEndian(provider, 2), submissionId);

/** The short name of a sealing key. @param {Uint8Array} key @returns {Promise<Bytes>} */
export const sealingKeyId = async (key) => (await sha256(key)).slice(0, 8);

/** One payload a right provider, not yet sealed. @param {Study} study @param {import("./schema.js").Answers} answers @param {RandomSource} source @returns {Promise<Bytes[]>} */
export async function payloadsOf(study, answers, source) {
  if (study.suite === "rows") return (await import("./rows/row.js")).rowPayloads(study, answers, source);
  const { buildReport, splitReport } = await import("./moments/report.js");
  return splitReport(buildReport(study.moments.layout, answers, source), study.right.length, source);
}

/**
 * Everything a device sends, from what a person answered. A bad answer throws `AnswerError` naming the attribute.
 * @param {Study} study @param {import("./schema.js").Answers} answers @param {RandomSource} source
 * @param {Map<number, Uint8Array>} [sealing] newer keys of right providers, by k from 1
 * @returns {Promise<SealedSubmission>}
 */
export async function buildSubmission(study, answers, source, sealing = new Map()) {
  const payloads = await payloadsOf(study, answers, source);
  const withdrawalKey = source.read(WITHDRAWAL_KEY_BYTES);
  const ephemeral = payloads.map(() => source.read(EPHEMERAL_BYTES[study.sealing]));
  const [submissionId, binding] = await Promise.all([submissionIdOf(study.id, withdrawalKey), study.binding()]);
  const keys = study.right.map((party, place) => sealing.get(place + 1) ?? party.sealing);
  if (keys.some((key) => key.length !== PUBLIC_KEY_BYTES[study.sealing])) {
    throw new VerificationError("a sealing key is not of the kind that this study says: nothing is sealed to it");
  }
  const sealed = await Promise.all(
    payloads.map((payload, place) => {
      const [key, secret] = [keys[place], ephemeral[place]];
      return hpkeSeal(key, payload, componentInfo(binding, place + 1, submissionId), secret);
    }),
  );
  return { studyId: study.id, submissionId, sealed, withdrawalKey, keyIds: await Promise.all(keys.map(sealingKeyId)) };
}
