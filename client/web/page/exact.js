// The exact statement: what the study promises, in the words of trimask_core.explain.rows, moments.words and trimask_client.study_words.
// In English, as it is read out by every other program; the page's own words say the same more simply.

import { erfc } from "../device/floats.js";
import { explain } from "../device/index.js";
import { general } from "../form/plain_text.js";

/** @typedef {import("../device/index.js").Study} Study */
/** @typedef {import("../device/protection.js").Guarantee} Guarantee */

/** Paragraphs. `unchecked`: what of the promise a device cannot work out.
 * @param {Study} study @param {string[]} unchecked @returns {string[]} */
export function exactStatement(study, unchecked) {
  const told = "Who is behind this study is told which invitations were used, so as to remind the others: whoever sent you yours can " +
    "see that you answered, not what.";
  return [promise(study, unchecked), collusion(study), ...weights(study), ...(study.reminders ? [told] : []), `Study id: ${hex(study.id)}.`];
}

/** How many times as much as another a person may count, and by the answer to what.
 * @param {Study} study */
export function weightValues(study) {
  const { bounds: [low, high] = [1, 1], asked = "" } = study.weight ?? {};
  const label = study.schema.attributes.find(({ name }) => name === asked)?.label;
  return { times: general(high / low, 3), question: label || asked };
}

/** @param {Study} study @returns {string[]} */
function weights(study) {
  if (study.weight === null) return [];
  const { times, question } = weightValues(study);
  return [`Answers do not all count the same: one person's may count up to ${times} times as much as another's, by the answer to “${question}”.`];
}

/** Whether what is published has noise in it.
 * @param {Study} study */
export const hasNoise = (study) => study.protection.sigma > 0 || study.protection.budget !== null;

/** e^epsilon, by which a conclusion may become more likely, as a number people can read.
 * @param {number} epsilon */
export function factorWords(epsilon) {
  if (epsilon > Math.log(1e9)) return `10^${Math.ceil(epsilon / Math.log(10))}`;
  const factor = Math.exp(epsilon);
  return factor < 100 ? general(factor, 3) : Math.round(factor).toLocaleString("en");
}

/** The guarantees of a study with noise and towards whom each is, the weaker first.
 * @param {Study} study @returns {{who: string, guarantee: Guarantee, towards: "public" | "collector", people: number}[]} */
export function promises(study) {
  const { public: everybody, collector } = study.protection;
  if (study.suite !== "rows") {
    const needed = study.moments.honestProviders;
    const adds = needed === 1 ? "one right provider adds its noise" : `${needed} right providers add their noise`;
    const who = `everybody, the collector and the other right providers included, as long as ${adds} as agreed, however few people are in a release`;
    return everybody === null ? [] : [{ who, guarantee: everybody, towards: "public", people: study.releaseRows }];
  }
  const found = [];
  if (everybody !== null) {
    const who = `everybody who sees what is published (at least ${study.releaseRows} people together)`;
    found.push({ who, guarantee: everybody, towards: /** @type {const} */ ("public"), people: study.releaseRows });
  }
  if (collector !== null) {
    const who = `the collector, who sees single blocks (at least ${study.rows.blockRows} people together)`;
    found.push({ who, guarantee: collector, towards: /** @type {const} */ ("collector"), people: study.rows.blockRows });
  }
  return found.sort((a, b) => (b.guarantee.epsilon ?? 0) - (a.guarantee.epsilon ?? 0));
}

/** @param {Study} study @param {string[]} unchecked */
function promise(study, unchecked) {
  const { budget, sigma } = study.protection;
  if (budget !== null) return withBudget(study, purses(budget));
  if (!sigma) return `${withoutNoise(study)} Somebody who knows everybody else's answers could work yours out.`;
  const lines = promises(study).map(({ who, guarantee }) => `Towards ${who}: ${guaranteeWords(guarantee)}`);
  lines.push(...unchecked.map((what) => `This device could not check that: ${what}.`), ...honestPeople(study));
  return lines.join("\n") || "This study states no guarantee.";
}

/** @param {Guarantee} guarantee */
function guaranteeWords(guarantee) {
  const { epsilon, delta } = guarantee;
  const stated = `${stating(guarantee)}.`;
  if (epsilon === null || delta === null) return stated;
  return `${stated} In words: had your answers been quite different, the probability of anything that can be concluded from it ` +
    `would change by a factor of at most ${factorWords(epsilon)}, but for a chance of ${general(delta, 2)}.`;
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
  if (study.suite !== "rows") {
    const said = "These numbers do not depend on how many of the other people are honest: the providers add the noise.";
    return sigma ? [said] : [];
  }
  if (byHonestRows.length === 0 || everybody === null) return [];
  const delta = everybody.delta === null ? "unknown" : general(everybody.delta, 2);
  const at = (/** @type {number} */ honest) => byHonestRows.find(([rows]) => rows <= honest)?.[1];
  const line = (/** @type {string} */ who, /** @type {number} */ rows) =>
    `- ${who}: ${[rows, Math.floor(rows / 2), 1].map(at).map((found) => (found === undefined ? "unknown" : general(found, 3))).join(", ")}`;
  return [
    "A person is hidden by the noise of the others too. Those of them who work with an attacker can take theirs out again. " +
      `Epsilon, at delta ${delta}, if all of the others are honest, half, or none:`,
    line(`a release of ${study.releaseRows}`, study.releaseRows),
    line(`a block of ${study.rows.blockRows}, towards the collector`, study.rows.blockRows),
  ];
}

/** @param {Study} study */
function withoutNoise(study) {
  if (study.suite === "rows") {
    return "What is published is exact: it shows sums over everybody and no single row, but it carries no differential-privacy guarantee.";
  }
  return "What is published is exact: it shows sums over everybody, without noise, and carries no differential-privacy guarantee. " +
    "A collector whose program was changed could bring all the other participants itself, and subtract them from the sums. " +
    "Such a study is for trying things out.";
}

/** @param {import("../device/protection.js").Budget} budget */
function purses({ epsilon, delta, mu }) {
  const found = [];
  if (epsilon !== null && delta !== null) found.push(`epsilon ${general(epsilon, 6)} and delta ${general(delta, 6)}`);
  if (mu !== null) found.push(`mu ${general(mu, 6)}`);
  return `a budget of ${found.join(" and of ")}`;
}

/** @param {Study} study @param {string} purse */
function withBudget(study, purse) {
  return "Nothing is published as it is. The sums stay in parts with the right providers, so that nobody holds them; each adds its " +
    `own noise to every answer to a question, and gives none once ${purse} is spent by its own account. ${noiseSentence(study)}`;
}

/** @param {Study} study */
function noiseSentence(study) {
  if (!hasNoise(study)) return "The release has no noise, and is not private.";
  const honest = study.moments.honestProviders;
  const adds = honest === 1 ? "one right provider adds its noise" : `${honest} right providers add their noise`;
  return `The release is private as long as ${adds} as agreed.`;
}

/** @param {Study} study @returns {(role: string) => string} */
const whoIn = (study) => (role) => {
  const { organisation } = study.party(role);
  return organisation ? `${organisation} (${role})` : role;
};

/** @param {Study} study */
function collusion(study) {
  const all = explain(study).coalitions;
  const smallest = Math.min(...all.map(({ parties }) => parties.length));
  const shown = all.filter(({ parties }) => parties.length === smallest);
  const lines = [`${summary(study, smallest)} To see answers, these would have to break their word together:`];
  for (const { parties, exact, needsDevice } of shown) {
    const what = study.suite === "rows" ? `${exact ? "every row" : "estimates of every row"}${needsDevice ? ", if a device helps" : ""}` : "every answer";
    lines.push(`- ${parties.map(whoIn(study)).join(" and ")}, for ${what}`);
  }
  if (all.length > shown.length) lines.push(`- or one of ${all.length - shown.length} larger groups.`);
  return [...lines, collusionNote(study)].join("\n");
}

/** @param {Study} study @param {number} smallest */
function summary(study, smallest) {
  if (study.suite === "rows") {
    if (smallest === 2) return "No party alone, following the protocol, can recover answers, whatever devices help it; some two together can.";
    return `No ${smallest - 1} parties together, following the protocol, can recover answers, whatever devices help them.`;
  }
  const them = smallest === 2 ? "Both" : `All ${smallest}`;
  if (!hasNoise(study)) {
    return `${them} right providers together could read the answers from their parts; nobody else, and no fewer of them. But the sums ` +
      "are opened without noise, and may show answers too.";
  }
  return `${them} right providers together could read the answers; nobody else, and no fewer of them, whatever they do.`;
}

/** @param {Study} study */
function collusionNote(study) {
  if (study.suite === "rows") return followed(study) + together(study);
  const changed = "One changed program can leave people out or make the result wrong";
  if (!hasNoise(study)) return `${noiseSentence(study)} ${changed}.`;
  return `${noiseSentence(study)} This holds whatever programs the others run. ${changed}; it cannot show anybody's answers.`;
}

/** @param {Study} study */
function followed(study) {
  return study.rows.tagHolders.length > 0
    ? "This counts on institutions running the agreed program. One whose program was changed to alter the parts of answers it was " +
      "given, by more than a trace, is found out before anything is put together; of two or more that were changed it says nothing."
    : "This counts on every institution running the agreed program. It does not cover one whose program was changed to alter what " +
      "it passes on.";
}

/** What hides a person from all right providers together. @param {Study} study */
function together(study) {
  const mu = study.protection.rightProviders?.mu ?? null;
  if (mu === null) return "";
  return ` From all ${study.right.length} institutions that get a part, together, your own noise alone would hide you: of two answers ` +
    `they could tell yours with a chance of up to ${guessWords(mu)}.`;
}

/** The chance to tell two equally likely answers apart that are mu apart, in whole percent, rounded up. @param {number} mu */
export const guessWords = (mu) => `${Math.ceil(50 * (2 - erfc(mu / Math.sqrt(8))))} %`;

/** @param {Uint8Array} bytes */
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
