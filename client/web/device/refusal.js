/** Why a request is refused, from the catalogue that all parties share (`refusals.js`, made from `trimask_core.basics.refusals`). */
import { REFUSALS, STATUSES } from "./refusals.js";

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
