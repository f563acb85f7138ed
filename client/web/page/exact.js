// The exact statement: the port of trimask_core.explain.statement, with its sentences, which are in English, as institutions sign
// them; the page's own words say the same more simply.

import { erfc } from "../device/floats.js";
import { explain, toHex } from "../device/index.js";
import { general } from "../form/plain_text.js";
import SENTENCES from "./words/exact.js";

/** @typedef {import("../device/index.js").Study} Study */
/** @typedef {import("../device/protection.js").Guarantee} Guarantee */

/** @param {keyof typeof SENTENCES} key @param {Record<string, unknown>} [values] */
const say = (key, values = {}) => SENTENCES[key].replace(/\{(\w+)\}/g, (_, name) => String(values[name]));

/** Paragraphs. `unchecked`: what of the promise a device cannot work out.
 * @param {Study} study @param {string[]} unchecked @returns {string[]} */
export function exactStatement(study, unchecked) {
  const weights = study.weight === null ? [] : [say("weights", weightValues(study))];
  const reminders = study.reminders ? [say("reminders")] : [];
  return [promise(study, unchecked), colluders(study), ...weights, ...reminders, say("id", { id: toHex(study.id) })];
}

/** How many times as much as another a person may count, and by the answer to what.
 * @param {Study} study */
export function weightValues(study) {
  const { bounds: [low, high] = [1, 1], asked = "" } = study.weight ?? {};
  const label = study.schema.attributes.find(({ name }) => name === asked)?.label;
  return { times: general(high / low, 3), question: label || asked };
}

/** @param {Study} study */
const hasNoise = (study) => study.protection.sigma > 0 || study.protection.budget !== null;

/** e^epsilon, by which a conclusion may become more likely, as a number people can read.
 * @param {number} epsilon */
function factorWords(epsilon) {
  if (epsilon > Math.log(1e9)) return `10^${Math.ceil(epsilon / Math.log(10))}`;
  const factor = Math.exp(epsilon);
  return factor < 100 ? general(factor, 3) : Math.round(factor).toLocaleString("en");
}

/** The guarantees of a study with noise and towards whom each is, the weaker first.
 * @param {Study} study @returns {[string, Guarantee][]} */
function promises(study) {
  const { public: everybody, collector } = study.protection;
  /** @type {[string, Guarantee][]} */
  const found = [];
  if (study.suite !== "rows") {
    const number = study.moments.honestProviders;
    const providers = say(number === 1 ? "providers.one" : "providers.many", { number });
    if (everybody !== null) found.push([say("towards.everybody", { providers }), everybody]);
    return found;
  }
  if (everybody !== null) found.push([say("towards.public", { people: study.releaseRows }), everybody]);
  if (collector !== null) found.push([say("towards.collector", { people: study.rows.blockRows }), collector]);
  return found.sort(([, a], [, b]) => (b.epsilon ?? 0) - (a.epsilon ?? 0));
}

/** @param {Study} study @param {string[]} unchecked */
function promise(study, unchecked) {
  const { budget, sigma } = study.protection;
  if (budget !== null) return say("budget", { purses: purses(budget), noise: noiseSentence(study) });
  if (!sigma) return `${say(study.suite === "rows" ? "exact.rows" : "exact.moments")} ${say("exact.known")}`;
  const lines = promises(study).map(([who, guarantee]) => say("towards", { who, promise: guaranteeWords(guarantee) }));
  lines.push(...unchecked.map((what) => say("unchecked", { what })), ...honestPeople(study));
  return lines.join("\n") || say("towards.nobody");
}

/** @param {Guarantee} guarantee */
function guaranteeWords(guarantee) {
  const { epsilon, delta } = guarantee;
  if (epsilon === null || delta === null) return `${stating(guarantee)}.`;
  return `${stating(guarantee)}. ${say("factor", { factor: factorWords(epsilon), delta: general(delta, 2) })}`;
}

/** @param {Guarantee} guarantee */
function stating({ epsilon, delta, mu, enclosed, discreteEpsilon, neighbours, basis, because, citation }) {
  const parts = [];
  if (epsilon !== null && delta !== null) {
    const within = enclosed ? ` (delta certified to lie in [${general(enclosed[0], 5)}, ${general(enclosed[1], 5)}])` : "";
    parts.push(`(${general(epsilon, 4)}, ${general(delta, 3)})-differential privacy${within}`);
  }
  if (mu !== null) parts.push(`${general(mu, 4)}-Gaussian differential privacy`);
  if (discreteEpsilon !== null) {
    const [mantissa, power = ""] = discreteEpsilon.toExponential(1).split("e");
    const added = `${mantissa}e${power[0]}${power.slice(1).padStart(2, "0")}`;
    parts.push(`${parts.pop()} (noise on a grid adds at most ${added} to epsilon)`);
  }
  const norm = neighbours.rowNorm === null ? "" : ` of norm at most ${general(neighbours.rowNorm, 4)}`;
  const step = neighbours.distance === null ? "1" : general(neighbours.distance, 4);
  const near = {
    record: `one person's whole record${norm} replaced by any other`,
    unit: `one row${norm} moved by at most ${step}`,
    "add-remove": `one row${norm} added or removed`,
  }[neighbours.relation];
  return `${parts.join(" and ")}; neighbours: ${near}; ${basis}: ${because} [${citation}]`;
}

/** @param {Study} study */
function honestPeople(study) {
  const { byHonestRows, public: everybody, sigma } = study.protection;
  if (study.suite !== "rows") return sigma ? [say("honest.moments")] : [];
  if (byHonestRows.length === 0 || everybody === null) return [];
  const at = (/** @type {number} */ honest) => byHonestRows.find(([rows]) => rows <= honest)?.[1];
  const told = (/** @type {number} */ rows) =>
    [rows, Math.floor(rows / 2), 1].map(at).map((found) => (found === undefined ? "unknown" : general(found, 3))).join(", ");
  return [
    say("honest.rows", { delta: everybody.delta === null ? "unknown" : general(everybody.delta, 2) }),
    say("honest.release", { rows: study.releaseRows, found: told(study.releaseRows) }),
    say("honest.block", { rows: study.rows.blockRows, found: told(study.rows.blockRows) }),
  ];
}

/** @param {import("../device/protection.js").Budget} budget */
function purses({ epsilon, delta, mu }) {
  const found = [];
  if (epsilon !== null && delta !== null) found.push(say("purse.epsilon", { epsilon: general(epsilon, 6), delta: general(delta, 6) }));
  if (mu !== null) found.push(say("purse.mu", { mu: general(mu, 6) }));
  return say("purses", { purses: found.join(" and of ") });
}

/** @param {Study} study */
function noiseSentence(study) {
  if (!hasNoise(study)) return say("noise.none");
  const number = study.moments.honestProviders;
  return say(number === 1 ? "noise.one" : "noise.many", { number });
}

/** Who would have to collude, and what that counts on. @param {Study} study */
function colluders(study) {
  const all = explain(study).coalitions;
  const smallest = Math.min(...all.map(({ parties }) => parties.length));
  const shown = all.filter(({ parties }) => parties.length === smallest);
  const lines = [`${summary(study, smallest)} ${say("colluders")}`];
  const named = (/** @type {string} */ role) => {
    const { organisation } = study.party(role);
    return organisation ? `${organisation} (${role})` : role;
  };
  for (const { parties, exact, needsDevice } of shown) {
    const row = say(exact ? "colluders.row" : "colluders.estimates");
    const what = study.suite !== "rows" ? say("colluders.answer") : needsDevice ? say("colluders.device", { what: row }) : row;
    lines.push(say("colluders.line", { who: parties.map(named).join(" and "), what }));
  }
  if (all.length > shown.length) lines.push(say("colluders.larger", { number: all.length - shown.length }));
  return [...lines, collusionNote(study)].join("\n");
}

/** @param {Study} study @param {number} smallest */
function summary(study, smallest) {
  if (study.suite === "rows") return smallest === 2 ? say("collusion.two") : say("collusion.more", { safe: smallest - 1 });
  const them = smallest === 2 ? "Both" : `All ${smallest}`;
  return say(hasNoise(study) ? "collusion.noise" : "collusion.exact", { them });
}

/** @param {Study} study */
function collusionNote(study) {
  if (study.suite !== "rows") {
    const changed = say("changed");
    return `${noiseSentence(study)} ${hasNoise(study) ? say("changed.noise", { changed }) : `${changed}.`}`;
  }
  const followed = say(study.rows.tagHolders.length > 0 ? "followed.tagged" : "followed.untagged");
  const mu = study.protection.rightProviders?.mu ?? null;
  return mu === null ? followed : followed + say("together", { parts: study.right.length, chance: guessWords(mu) });
}

/** The chance to tell two equally likely answers apart that are mu apart, in whole percent, rounded up. @param {number} mu */
const guessWords = (mu) => `${Math.ceil(50 * (2 - erfc(mu / Math.sqrt(8))))} %`;
