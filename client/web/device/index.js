/** The device in a browser: everything between a person's answers and the sealed bytes right providers get. See ../README.md. */
export { AnswerError, ApprovalError, DeviceError, InvitationError, Refused, StudyError, Unreachable, VerificationError } from "./errors.js";
export { fetchStudy, spentBudget, studyState } from "./calls.js";
export { supported } from "./crypto.js";
export { explain } from "./explain.js";
export { knownParties, parseDirectory } from "./institutions.js";
export { Invitation, Link, readCode } from "./invitation.js";
export { Queue } from "./queue.js";
export { Receipt } from "./receipt.js";
export { parseStudy } from "./signed_study.js";
export { Study } from "./study.js";
export { Transport } from "./transport.js";
export { makeDeviceKey } from "./vault.js";
export { fromHex, toHex } from "./bytes.js";
