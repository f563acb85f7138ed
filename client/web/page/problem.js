// What an error is to the person: which texts say it, whether trying again can help.

import { ApprovalError, InvitationError, Refused, StudyError, Unreachable, VerificationError } from "../device/index.js";
import { readReason } from "../device/errors.js";
import { FormError } from "../form/texts.js";

/** `kind` names the texts; `detail` is the software's own words, for whoever is asked for help.
 * @typedef {{kind: string, detail: string, again: boolean, values: Record<string, string>}} Problem */

/** Something that ends the way and is no error of the device's. */
export class PageError extends Error {
  /** @param {string} kind @param {Record<string, string>} [values] */
  constructor(kind, values = {}) {
    super(kind);
    this.kind = kind;
    this.values = values;
  }
}

/** @param {unknown} error @returns {Problem} */
export function explain(error) {
  const detail = error instanceof Error ? error.message : String(error);
  const told = (/** @type {string} */ kind, again = false, values = {}) => ({ kind, detail, again, values });
  if (error instanceof PageError) return { kind: error.kind, detail: "", again: false, values: error.values };
  if (error instanceof FormError) return told("form");
  if (error instanceof ApprovalError) return told("unapproved");
  if (error instanceof InvitationError) return told("link");
  if (error instanceof Unreachable) return told("offline", true);
  if (error instanceof Refused) {
    const { told: kind, final } = error.reason;
    return told(kind ?? "refused", !final);
  }
  if (error instanceof StudyError || error instanceof VerificationError) return told("untrusted");
  if (error instanceof DOMException) return told("storage", true);
  return told("other", true);
}

/** Why an institution has no part, in the person's language; `code` is one of an entry's causes.
 * @param {string} code @param {import("./catalogue.js").Catalogue} words */
export function causeWords(code, words) {
  if (code === "offline" || code === "untrusted") return words.say(`cause.${code}`);
  return words.say(`problem.${readReason(code, "UNKNOWN").told ?? "refused"}.title`);
}
