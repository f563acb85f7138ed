/**
 * The record of a withdrawal, and one round of asking every right provider to erase a submission.
 *
 * A block needs every provider's part, so one provider that erases its part keeps the submission out of every block. It is
 * too late only where all of them have it in a block; the others are asked again until they have freed it.
 */
import { fromHex, toHex } from "./bytes.js";
import * as calls from "./calls.js";
import { DeviceError, Refused } from "./errors.js";
import { Receipt } from "./receipt.js";
import { pauseMs } from "./transport.js";

/** @typedef {import("./queue.js").Entry} Entry */
/** @typedef {import("./vault.js").Record_} Record_ */

/** A withdrawal that nobody has been told of. @param {Entry} entry @param {string} withdrawalKey @param {number} providers @param {string} invitation what admits the payload, in base64 @returns {Record_} */
export function newWithdrawal({ studyId, title, receipt }, withdrawalKey, providers, invitation) {
  const begun = { state: "withdrawing", confirmed: [], attempts: 0, nextMs: null, why: "", told: null };
  return { studyId, title, withdrawalKey, invitation, providers, receipt: receipt?.toJson() ?? null, ...begun };
}

/**
 * The record after one attempt at every provider that has not confirmed yet.
 * @param {import("./transport.js").Transport} transport @param {import("./study.js").Study} study @param {Record_} record
 * @param {Uint8Array} admission @param {number} nowMs @param {import("./crypto.js").RandomSource} source @returns {Promise<Record_>}
 */
export async function askProviders(transport, study, record, admission, nowMs, source) {
  /** @type {{ role: string, withdrawTimeMs: number, signature: string }[]} */
  const confirmed = [...record["confirmed"]];
  /** @type {string[]} */
  const failures = [];
  let late = 0;
  let told = null;
  const had = confirmed.map(({ role }) => role);
  await Promise.all(study.right.map(async (_, place) => {
    const [role, provider] = [`R${place + 1}`, place + 1];
    if (had.includes(role)) return;
    try {
      const word = await calls.withdraw(transport, study, fromHex(record["withdrawalKey"]), provider, admission);
      confirmed.push({ ...word, signature: toHex(word.signature) });
    } catch (error) {
      if (!(error instanceof DeviceError)) throw error;
      if (error instanceof Refused) told = error.reason.told;
      if (error instanceof Refused && error.reason.word === "already_in_block") late += 1;
      failures.push(error.message.includes(role) ? error.message : `${role}: ${error.message}`);
    }
  }));
  const all = study.right.length;
  const state = confirmed.length === all ? "withdrawn" : late === all ? "too_late" : "withdrawing";
  const attempts = record["attempts"] + 1;
  confirmed.sort((one, other) => Number(one.role.slice(1)) - Number(other.role.slice(1)));
  const nextMs = state === "withdrawing" ? nowMs + pauseMs(attempts, source) : null;
  return { ...record, state, confirmed, attempts, nextMs, told, why: failures.sort().join("; ").replace(/\.$/, "") };
}

/** How far it has come. @param {string} submissionId @param {Record_} record @returns {Entry} */
export function withdrawalEntry(submissionId, record) {
  const receipt = record["receipt"] === null ? null : Receipt.fromJson(record["receipt"]);
  const { studyId, title, state, providers, attempts, nextMs, why, told } = /** @type {any} */ (record);
  const receivedBy = receipt === null ? [] : receipt.providers.map(({ role }) => role);
  const withdrawnBy = record["confirmed"].map((/** @type {any} */ word) => word.role);
  return { submissionId, studyId, title, state, receivedBy, providers, attempts, nextMs, why, told, causes: [], receipt, withdrawnBy };
}
