/**
 * Every error this library throws on purpose, and why a request is refused: `trimask_core.basics.errors` and `refusals`. A message
 * says what is wrong and what to do; none carries a secret (mask, share, seed, key, answer).
 */
import { REFUSALS, STATUSES } from "./refusals.js";

/** Base of every deliberate error. `field` is what it is about, `problem` what is wrong with it. */
export class DeviceError extends Error {
  /** @param {string} problem @param {string} [field] */
  constructor(problem, field = "") {
    super(field ? `${field}: ${problem}` : problem);
    this.name = new.target.name;
    this.field = field;
    this.problem = problem;
  }
}

/** A study that cannot be, or cannot be trusted. `reason` is a stable word where its numbers are impossible. */
export class StudyError extends DeviceError {
  /** @param {string} problem @param {string} [reason] @param {string} [field] */
  constructor(problem, reason = "", field = "") {
    super(problem, field);
    this.reason = reason;
  }
}

/** An approval of the study is missing, or its signature is wrong. */
export class ApprovalError extends StudyError {}

/** An invitation or its link cannot be read. */
export class InvitationError extends DeviceError {}

/** An answer the schema refuses; `field` names the attribute. The value itself is never in the message. */
export class AnswerError extends DeviceError {
  /** @param {string} attribute @param {string} problem */
  constructor(attribute, problem) {
    super(problem, attribute);
  }
}

/** A signature, hash or invariant did not hold. */
export class VerificationError extends DeviceError {}

/** A provider could not be reached or did not answer in time; sending again later is safe. */
export class Unreachable extends DeviceError {}

/** A party refused a request; `reason` is of the catalogue that all parties share (`refusals.js`), `retryAfterMs` how long it asks to wait. */
export class Refused extends DeviceError {
  /** @param {Reason} reason @param {string} problem @param {number | null} [retryAfterMs] */
  constructor(reason, problem, retryAfterMs = null) {
    super(problem);
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * `final`: no waiting changes it. `told` names the texts for a person (`problem.<told>`), null where there are none.
 * @typedef {{ word: string, status: string, retry: "never" | "later" | "soon", final: boolean, told: string | null }} Reason
 */

const WORD = /^[a-z][a-z0-9_]{0,59}$/;

/** The reason that came with a status. Without one, the status's own name is the reason. @param {string | null} text @param {string} status @returns {Reason} */
export function readReason(text, status) {
  const known = Object.hasOwn(STATUSES, status) ? status : "UNKNOWN";
  const word = text !== null && WORD.test(text) ? text : known.toLowerCase();
  const [given, retry, told] = Object.hasOwn(REFUSALS, word)
    ? /** @type {[string, string, string | null]} */ (REFUSALS[/** @type {keyof typeof REFUSALS} */ (word)])
    : [known, STATUSES[/** @type {keyof typeof STATUSES} */ (known)], null];
  return { word, status: given, retry: /** @type {Reason["retry"]} */ (retry), final: retry === "never", told };
}

/** A reason of the catalogue, for what the device itself refuses. @param {keyof typeof REFUSALS} word */
export const reason = (word) => readReason(word, "UNKNOWN");
