/** A study with its approvals: every party named in it signs its id, and a device takes part in nothing less. */
import { concat, equal, fromHex, toHex, utf8 } from "./bytes.js";
import { checkClaims } from "./claims.js";
import { signatureHolds } from "./crypto.js";
import { ApprovalError, StudyError } from "./errors.js";
import { readJson } from "./json.js";
import { bytesOf, items, objectOf, textOf, wholeOf } from "./reading.js";
import { Study } from "./study.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */
/** @typedef {{ role: string, signature: Bytes, approvedMs: number, commitment: Bytes }} Approval */

const COMMITMENT_BYTES = 32;

/**
 * A study that this device may take part in: what `parse` gives has passed every check a device can make.
 * `text` is the document as it came, for the queue to keep; `unchecked` says what of its promise a device cannot work out.
 * @typedef {{ study: Study, approvals: Approval[], unchecked: string[], text: string }} CheckedStudy
 */

/**
 * Reads a signed study and checks all of it: that it is the study of `expectedId`, that its numbers are possible, that
 * every party has signed it, that its noise is enough for what it promises, and the seed of B_0 against its commitment.
 * Throws `StudyError` or `ApprovalError`, which name the field.
 * @param {Uint8Array | string} source @param {{ expectedId?: Uint8Array | string }} [options]
 * @returns {Promise<CheckedStudy>}
 */
export async function parseStudy(source, { expectedId } = {}) {
  const text = typeof source === "string" ? source : new TextDecoder().decode(source);
  const document = readDocument(source);
  const study = await Study.read(objectOf(document["study"], "study"), (id) => checkId(id, expectedId));
  const approvals = items(document["approvals"], "approvals").map(readApproval);
  await verifyApprovals(study, approvals);
  if (study.suite === "rows") {
    if (!("mask_seed" in document)) throw new StudyError("this copy is without the seed that devices mask with", "", "mask_seed");
    await study.useSeed(bytesOf(document["mask_seed"], "mask_seed"));
  }
  return { study, approvals, unchecked: await checkClaims(study), text };
}

/** The hash first: nothing else is looked at before it is known to be the study of the invitation. @param {Bytes} id @param {Uint8Array | string | undefined} expected */
function checkId(id, expected) {
  if (expected === undefined) return;
  const wanted = typeof expected === "string" ? fromHex(expected.trim().toLowerCase()) : expected;
  if (equal(wanted, id)) return;
  throw new StudyError(
    `this is not the study of the invitation: its id begins ${toHex(id).slice(0, 12)}, the invitation's ` +
      `${toHex(wanted).slice(0, 12)}. Take no part, and ask who invited you.`,
  );
}

/** @param {Uint8Array | string} source */
function readDocument(source) {
  try {
    return objectOf(readJson(source), "signed study");
  } catch (error) {
    if (error instanceof SyntaxError) throw new StudyError(`this is not a signed study: ${error.message}`);
    throw error;
  }
}

/** @param {import("./json.js").Json} value @returns {Approval} */
function readApproval(value) {
  const data = objectOf(value, "approvals");
  return {
    role: textOf(data["role"], "approvals.role"),
    signature: bytesOf(data["signature"], "approvals.signature"),
    approvedMs: wholeOf(data["approved_ms"], "approvals.approved_ms"),
    commitment: bytesOf(data["commitment"], "approvals.commitment"),
  };
}

/** @param {Study} study @param {Approval[]} approvals */
async function verifyApprovals(study, approvals) {
  const { parties } = study;
  await Promise.all(
    approvals.map(async ({ role, signature, commitment }) => {
      const party = parties.get(role);
      const wanted = study.suite !== "rows" && role.startsWith("R") ? COMMITMENT_BYTES : 0;
      if (!party || commitment.length !== wanted) throw new ApprovalError("this approval does not fit the study", "", role);
      const message = concat(study.id, Uint8Array.of(commitment.length), commitment, utf8(role));
      if (!(await signatureHolds(party.identity, "study-approval", message, signature))) {
        throw new ApprovalError(`the signature on the approval of ${role} does not verify`, "", role);
      }
    }),
  );
  const missing = [...parties.keys()].filter((role) => !approvals.some((approval) => approval.role === role));
  if (missing.length) throw new ApprovalError(`not approved yet by ${missing.join(", ")}; every party must sign a study`);
  if (study.suite !== "rows") {
    const given = new Map(approvals.map((approval) => [approval.role, approval.commitment]));
    study.useCommitments(study.right.map((_, k) => /** @type {Bytes} */ (given.get(`R${k + 1}`))));
  }
}
