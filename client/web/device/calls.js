/** What a device asks nodes for, one attempt each, and everything that can be verified of the answers. */
import { concat, bigEndian } from "./bytes.js";
import { sha256, verify } from "./crypto.js";
import { reason, Refused, StudyError, Unreachable, VerificationError } from "./errors.js";
import { PUBLIC_KEY_BYTES } from "./hpke.js";
import { verifyReceipt, verifyWithdrawal } from "./receipt.js";
import { parseStudy } from "./signed_study.js";
import { submissionIdOf } from "./submission.js";
import { decodeMessage, encodeMessage } from "./wire.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */
/** @typedef {import("./study.js").Study} Study */
/** @typedef {import("./transport.js").Transport} Transport */
/** @typedef {import("./submission.js").SealedSubmission} SealedSubmission */

const SERVICE = "/trimask_proto.v1";
const KEYS_MS = 3000;
const STUDY_STATES = /** @type {const} */ (["unknown", "open", "closing", "closed", "paused"]);

/** @param {Study} study @param {string} role */
function originOf(study, role) {
  const { https } = study.party(role);
  if (!https) throw new StudyError(`${role} cannot be reached from a browser`, "web_https", `${role}.https`);
  return https;
}

/**
 * The study of an invitation from its collector, with every check made. The link has the study's hash, so whoever answers can
 * withhold it and no more.
 * @param {Transport} transport @param {string} origin @param {Uint8Array} studyId
 */
export async function fetchStudy(transport, origin, studyId) {
  const request = encodeMessage("GetStudyRequest", { studyId, forDevice: true });
  const answer = await transport.call(origin, `${SERVICE}.StudyService/GetStudy`, request);
  return parseStudy(decodeMessage("GetStudyResponse", answer, "the collector's answer")["signedStudy"], { expectedId: studyId });
}

/** Whether the study still takes submissions, by its collector's word. @param {Transport} transport @param {Study} study */
export async function studyState(transport, study) {
  const request = encodeMessage("GetStudyStatusRequest", { studyId: study.id });
  const answer = await transport.call(originOf(study, "collector"), `${SERVICE}.StudyService/GetStudyStatus`, request);
  return STUDY_STATES[decodeMessage("GetStudyStatusResponse", answer, "the collector's answer")["state"]] ?? "unknown";
}

/**
 * Why an invitation would bring nothing, by the word of R1, which is sent to first and so decides about it: "" if it would.
 * What it is shown is over an empty submission id, and admits none.
 * @param {Transport} transport @param {Study} study @param {import("./invitation.js").Invitation} invitation
 */
export async function whyNotAdmitted(transport, study, invitation) {
  const request = encodeMessage("AskSubmissionRequest", { studyId: study.id, invitation: await invitation.admit(new Uint8Array(), []) });
  const answer = await transport.call(originOf(study, "R1"), `${SERVICE}.SubmissionService/AskSubmission`, request, KEYS_MS);
  return decodeMessage("AskSubmissionResponse", answer, "the answer of R1")["reason"];
}

/** What private answers about the study have cost so far; `Refused` for a study without a budget. @param {Transport} transport @param {Study} study */
export async function spentBudget(transport, study) {
  if (study.protection.budget === null) throw new Refused(reason("no_budget"), "this study has no budget");
  const request = encodeMessage("GetBudgetRequest", { studyId: study.id });
  const answer = await transport.call(originOf(study, "collector"), `${SERVICE}.ReleaseService/GetBudget`, request);
  return decodeMessage("GetBudgetResponse", answer, "the collector's answer");
}

/** The request for one right provider (from 1). @param {SealedSubmission} submission @param {number} provider @param {Uint8Array} admission */
export const submitRequest = (submission, provider, admission) =>
  encodeMessage("SubmitRequest", {
    studyId: submission.studyId,
    submissionId: submission.submissionId,
    sealedComponent: submission.sealed[provider - 1],
    invitation: admission,
    sealingKeyId: submission.keyIds[provider - 1],
  });

/**
 * One attempt at one right provider: its receipt, verified.
 * @param {Transport} transport @param {Study} study @param {SealedSubmission} submission @param {number} provider @param {Uint8Array} admission
 */
export async function upload(transport, study, submission, provider, admission) {
  const role = `R${provider}`;
  const request = submitRequest(submission, provider, admission);
  const answer = await transport.call(originOf(study, role), `${SERVICE}.SubmissionService/Submit`, request);
  const read = decodeMessage("SubmitResponse", answer, `the receipt of ${role}`);
  const sealedHash = await sha256(submission.sealed[provider - 1]);
  const receipt = { role, sealedHash, receiveTimeMs: Number(read["receiveTimeMs"]), signature: read["signature"] };
  await verifyReceipt(study, submission.submissionId, receipt);
  return receipt;
}

/**
 * One attempt at one right provider: its signed word that the submission is erased there, verified.
 * @param {Transport} transport @param {Study} study @param {Uint8Array} withdrawalKey @param {number} provider @param {Uint8Array} admission
 */
export async function withdraw(transport, study, withdrawalKey, provider, admission) {
  const role = `R${provider}`;
  const request = encodeMessage("WithdrawRequest", { studyId: study.id, withdrawalKey, invitation: admission });
  const answer = await transport.call(originOf(study, role), `${SERVICE}.SubmissionService/Withdraw`, request);
  const read = decodeMessage("WithdrawResponse", answer, `the withdrawal at ${role}`);
  const word = { role, withdrawTimeMs: Number(read["withdrawTimeMs"]), signature: read["signature"] };
  await verifyWithdrawal(study, await submissionIdOf(study.id, withdrawalKey), word);
  return word;
}

/**
 * The newest key of a kind in a right provider's answer, which its identity signed.
 * @param {Uint8Array} answer @param {Uint8Array} identity @param {string} role @param {import("./hpke.js").Sealing} kind @returns {Promise<Bytes>}
 */
export async function newestKey(answer, identity, role, kind) {
  const { keys } = decodeMessage("GetSealingKeysResponse", answer, `the keys of ${role}`);
  const newest = keys.find((/** @type {{ publicKey: Uint8Array }} */ key) => key.publicKey.length === PUBLIC_KEY_BYTES[kind]);
  if (!newest || newest.activateTimeMs < 0n || newest.expireTimeMs < 0n) throw new VerificationError(`${role} has no usable sealing key`);
  const message = concat(newest.publicKey, bigEndian(newest.activateTimeMs, 8), bigEndian(newest.expireTimeMs, 8));
  await verify(identity, "sealing-key", message, newest.signature, `the sealing key of ${role}`);
  return newest.publicKey;
}

/**
 * The right providers' newest sealing keys, by k from 1, of those that answer. Nobody between can slip in another.
 * @param {Transport} transport @param {Study} study @returns {Promise<Map<number, Bytes>>}
 */
export async function sealingKeys(transport, study) {
  const found = await Promise.all(
    study.right.map(async (party, place) => {
      const role = `R${place + 1}`;
      try {
        const answer = await transport.call(originOf(study, role), `${SERVICE}.SubmissionService/GetSealingKeys`, new Uint8Array(), KEYS_MS);
        return await newestKey(answer, party.identity, role, study.sealing);
      } catch (error) {
        // Down, older than this call, or not to be trusted: the key at hand will do.
        if (error instanceof Unreachable || error instanceof Refused || error instanceof VerificationError) return null;
        throw error;
      }
    }),
  );
  return new Map(found.flatMap((key, place) => (key === null ? [] : [/** @type {[number, Bytes]} */ ([place + 1, key])])));
}
