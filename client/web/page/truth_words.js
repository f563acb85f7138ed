// `wholeTruth` in sentences: the port of trimask_core.truth_words, whose words are in truth_table.js.

import { STEPS, wholeTruth } from "./plain_truth.js";
import WORDS from "./truth_table.js";

/** @typedef {import("../device/index.js").Study} Study */
/** @typedef {import("./plain_truth.js").Step} Step */
/** @typedef {(key: string, values?: Record<string, unknown>) => string} Say */
/** @typedef {{towards: string, step: Step, word: string, sentences: string[]}} PlainPromise */

/** What a person is told about a study before the first question: the promises, the weaker first, and who could see what, those
 * who see most first; `scale` are the words of the three steps.
 * @param {Study} study @param {string} language @returns {{promises: PlainPromise[], seen: [string, string][], note: string, scale: [Step, string][]}} */
export function plainTruth(study, language) {
  const [truth, say] = [wholeTruth(study), sayIn(language)];
  const names = (/** @type {string[]} */ roles) => namesOf(study, roles, say);
  const collector = names(["collector"]);
  /** @type {[string, string][]} */
  const seen = truth.seen.map(({ who, what, parties, number, needsDevice }) => {
    const text = say(`what.${what}`, { number, collector });
    return [who === "group" ? names(parties) : say(`who.${who}`, { number, collector }), needsDevice ? `${text}, ${say("device")}` : text];
  });
  if (truth.largerGroups > 0) {
    const last = truth.seen.filter(({ who, what }) => who === "group" && what !== "blurred").length;
    seen.splice(last, 0, [say(`who.larger.${truth.largerGroups === 1 ? "one" : "many"}`, { number: truth.largerGroups }), say("what.answers")]);
  }
  const promises = truth.promises.map((promise) => {
    const { towards, step, guess, people, ifHalf, ifNone, providers, of, why } = promise;
    const held = towards === "collector" && study.protection.budget !== null;
    const sentences = [guess === null ? say(held ? "guess.held" : "guess.none") : guess >= 100 ? say("guess.sure") : say("guess", { guess })];
    sentences.push(...why.map((reason) => say(`why.${reason}`, { people })));
    if (ifHalf !== null && ifNone !== null) {
      const [half, none] = [say(`step.${ifHalf}`), say(`step.${ifNone}`)];
      sentences.push(say(half === none ? "honest.same" : "honest", { half, none }));
    }
    if (providers > 0) sentences.push(say(`providers.${providers === 1 ? "one" : "many"}`, { number: providers, of }));
    if (towards === "public" && guess !== null) sentences.push(say("agreed")); // rows: one changed institution may reach further
    return { towards: say(`towards.${towards}`, { collector, people }), step, word: say(`step.${step}`), sentences };
  });
  const note = promises.some(({ step }) => step !== "none") ? say("note") : "";
  const scale = STEPS.slice(1).map((step) => /** @type {[Step, string]} */ ([step, say(`step.${step}`)]));
  return { promises, seen, note, scale };
}

/** @param {string} language @returns {Say} */
function sayIn(language) {
  const all = /** @type {Record<string, Record<string, string>>} */ (WORDS);
  const known = all[language.split("-", 1).join("").toLowerCase()] ?? all["en"] ?? {};
  return (key, values = {}) => (known[key] ?? key).replace(/\{(\w+)\}/g, (_, /** @type {string} */ name) => String(values[name]));
}

/** @param {Study} study @param {string[]} roles @param {Say} say */
function namesOf(study, roles, say) {
  const names = roles.map((role) => study.party(role).organisation || study.party(role).name || role);
  return names.length === 1 ? names.join("") : `${names.slice(0, -1).join(", ")} ${say("and")} ${names.at(-1)}`;
}
