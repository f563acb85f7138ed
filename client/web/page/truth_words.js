// `wholeTruth` in sentences: the port of trimask_core.explain.sentences, with the same catalogue.

import { reached, STEPS, wholeTruth } from "./plain_truth.js";

/** @typedef {import("../device/index.js").Study} Study */
/** @typedef {import("./plain_truth.js").Step} Step */
/** @typedef {import("./plain_truth.js").Seen} Seen */
/** @typedef {(key: string, values?: Record<string, unknown>) => string} Say */
/** @typedef {{towards: string, step: Step, word: string, sentences: string[]}} PlainPromise */

// Groups that see the same, before they are counted in place of named; the exact statement names all.
const MOST_NAMED = 3;

/** What a person is told about a study before the first question: the promises, the weaker first, and who could see what, those
 * who see most first; `scale` are the words of the three steps; `first` are the sentences of the first screen, `strength` its line.
 * @param {Study} study @param {import("./catalogue.js").Catalogue} words
 * @returns {{promises: PlainPromise[], seen: [string, string][], note: string, scale: [Step, string][], first: string[], strength: string}} */
export function plainTruth(study, words) {
  /** @type {Say} */
  const say = (key, values) => words.say(key, values);
  const truth = wholeTruth(study);
  const names = (/** @type {string[]} */ roles) => namesOf(study, roles, say);
  const collector = names(["collector"]);
  const seen = seenLines(study, truth, names, say);
  const promises = truth.promises.map((promise) => {
    const { towards, step, guess, people, ifHalf, ifNone, providers, of, why } = promise;
    const sentences = [guess === null ? say("guess.none") : guess >= 100 ? say("guess.sure") : say("guess", { guess })];
    sentences.push(...why.map((reason) => say(`why.${reason}`, { people })));
    if (ifHalf !== null && ifNone !== null && ifNone !== step) {
      const [half, none] = [say(`step.${ifHalf}`), say(`step.${ifNone}`)];
      sentences.push(say(half === none ? "honest.same" : "honest", { half, none }));
    }
    if (providers > 0) sentences.push(say(`providers.${providers === 1 ? "one" : "many"}`, { number: providers, of }));
    if (towards === "public" && guess !== null) sentences.push(say("agreed")); // rows: one changed institution may reach further
    return { towards: say(`towards.${towards}`, { collector, people }), step, word: say(`step.${step}`), sentences };
  });
  const note = promises.some(({ step }) => step !== "none") ? say("note") : "";
  const scale = STEPS.slice(1).map((step) => /** @type {[Step, string]} */ ([step, say(`step.${step}`)]));
  const told = (/** @type {import("./plain_truth.js").Said} */ { key, values }) =>
    say(key, "step" in values ? { ...values, step: say(String(values["step"])) } : values);
  return { promises, seen, note, scale, first: truth.first.map(told), strength: truth.strength.map(told).join(" ") };
}

/** Who could see what, a line each. Many groups of one size that see the same are one line: nobody reads twenty.
 * @param {Study} study @param {ReturnType<typeof wholeTruth>} truth @param {(roles: string[]) => string} names @param {Say} say @returns {[string, string][]} */
function seenLines(study, truth, names, say) {
  const collector = names(["collector"]);
  const what = (/** @type {Seen} */ line) => {
    const text = say(`what.${line.what}`, { number: line.number, collector });
    return line.needsDevice ? `${text}, ${say("device")}` : text;
  };
  const kind = (/** @type {Seen} */ line) => `${line.what} ${line.needsDevice} ${line.parties.length}`;
  const groups = truth.seen.filter(({ who }) => who === "group");
  const last = groups.filter((line) => line.what !== "blurred").at(-1);
  /** @type {[string, string][]} */
  const told = [];
  for (const line of groups) {
    const number = groups.filter((other) => kind(other) === kind(line)).length;
    const who = number <= MOST_NAMED ? say("who.together", { names: names(line.parties) }) : say("who.groups", { number, size: line.parties.length });
    if (!told.some(([named, sight]) => named === who && sight === what(line))) told.push([who, what(line)]);
    if (truth.largerGroups > 0 && line === last) {
      const [sight, right] = reached(study);
      told.push([say(`who.larger.${truth.largerGroups === 1 ? "one" : "many"}`, { number: truth.largerGroups }), say(`what.${sight}`, { number: right })]);
    }
  }
  const others = truth.seen.filter(({ who }) => who !== "group");
  return [...told, ...others.map((line) => /** @type {[string, string]} */ ([say(`who.${line.who}`, { number: line.number, collector }), what(line)]))];
}

/** @param {Study} study @param {string[]} roles @param {Say} say */
function namesOf(study, roles, say) {
  const names = roles.map((role) => study.party(role).organisation || study.party(role).name || role);
  return names.length === 1 ? names.join("") : `${names.slice(0, -1).join(", ")} ${say("and")} ${names.at(-1)}`;
}
