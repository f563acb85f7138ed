/**
 * Every error this library throws on purpose. A message says what is wrong and what to do; none carries a secret
 * (mask, share, seed, key, answer).
 */

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

/** A party refused a request; `reason` is of the catalogue (`refusals.js`), `retryAfterMs` how long it asks to wait. */
export class Refused extends DeviceError {
  /** @param {import("./refusal.js").Reason} reason @param {string} problem @param {number | null} [retryAfterMs] */
  constructor(reason, problem, retryAfterMs = null) {
    super(problem);
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
  }
}
