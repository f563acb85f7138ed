// What a study promises and who could see what, as keys and values: the port of trimask_core.explain.facts, which says what
// strength is: an attacker's best guess between two whole sets of answers, from the best statement that holds.
// Then the same in sentences: trimask_core.explain.sentences, with the same catalogue.

import { gaussianDelta, momentsNoise } from "../device/claims.js";
import { erfc } from "../device/floats.js";
import { explain } from "../device/index.js";
import { blurringCoalitions } from "../device/rows/collusion.js";
import { maskedDelta } from "../device/rows/masked_delta.js";

/** @typedef {import("../device/index.js").Study} Study */
/** @typedef {import("../device/protection.js").Guarantee} Guarantee */
/** @typedef {"none" | "weak" | "medium" | "strong"} Step */
/** @typedef {{towards: "public" | "collector" | "everybody", step: Step, guess: number | null, people: number, ifHalf: Step | null,
 *   ifNone: Step | null, providers: number, of: number, why: string[]}} Promise_ */
/** @typedef {{who: string, what: string, parties: string[], number: number, needsDevice: boolean}} Seen */
/** @typedef {{key: string, values: Record<string, number | string>}} Said */
/** @typedef {(key: string, values?: Record<string, unknown>) => string} Say */
/** @typedef {{towards: string, step: Step, word: string, sentences: string[]}} PlainPromise */

/** @type {Step[]} */
const STEPS = ["none", "weak", "medium", "strong"];
const [STRONG, MEDIUM] = [3 / 5, 3 / 4];
const MOST_NAMED = 3; // groups that see the same, before they are counted in place of named; the exact statement names all

/** The promises, the weaker first; who could see what, those who see most first; how many larger groups could; what the first
 * screen says, and in a line how strong it is. @param {Study} study
 * @returns {{promises: Promise_[], seen: Seen[], largerGroups: number, first: Said[], strength: Said[]}} */
function wholeTruth(study) {
  const { seen, larger } = groups(study);
  const order = (/** @type {Promise_} */ promise) => [STEPS.indexOf(promise.step), -(promise.guess ?? 101)];
  const promises = promisesOf(study).sort((a, b) => {
    const [[one = 0, first = 0], [other = 0, second = 0]] = [order(a), order(b)];
    return one - other || first - second;
  });
  const all = [...seen, ...others(study), ...membership(study)];
  return { promises, seen: all, largerGroups: larger, first: firstScreen(study), strength: strengthLine(/** @type {Promise_} */ (promises[0])) };
}

/** @param {Study} study */
const hasNoise = (study) => study.protection.sigma > 0 || study.protection.budget !== null;

/** The normal distribution function. @param {number} x */
const phi = (x) => erfc(-x / Math.SQRT2) / 2;

/** The largest probability of telling two equally likely sets of answers apart. @param {number} epsilon @param {number} delta @param {number} [mu] */
function bestGuess(epsilon, delta, mu = 0) {
  let coin = 1 / (1 + Math.exp(-epsilon));
  if (mu > 0) coin = coin * phi(mu / 2 + epsilon / mu) + (1 - coin) * phi(mu / 2 - epsilon / mu);
  return Math.min(1, coin + delta * (1 - coin));
}

/** In hundredths, rounded up. @param {number} guess */
const guessOf100 = (guess) => Math.min(100, Math.ceil(100 * guess - 1e-9));

/** @param {number} guess @returns {Step} */
function stepOf(guess) {
  if (guess > MEDIUM + 1e-9) return "weak";
  return guess > STRONG + 1e-9 ? "medium" : "strong";
}

/** @param {Pick<Promise_, "towards" | "people"> & Partial<Promise_>} given @returns {Promise_} */
const promised = (given) => ({ step: "none", guess: null, ifHalf: null, ifNone: null, providers: 0, of: 0, why: [], ...given });

/** @param {Study} study @returns {Promise_[]} */
function promisesOf(study) {
  const rows = study.suite === "rows";
  const { budget, sigma, public: everybody, collector } = study.protection;
  const people = study.releaseRows;
  const towards = rows ? /** @type {const} */ ("public") : /** @type {const} */ ("everybody");
  const needed = rows ? { providers: 0, of: 0 } : { providers: study.moments.honestProviders, of: study.right.length };
  if (budget !== null) {
    // Both purses may be spent.
    const delta = budget.delta ?? 0;
    const guess = bestGuess(budget.epsilon ?? 0, delta, budget.mu ?? 0);
    const weak = delta > 1 / people;
    return [promised({ towards, step: weak ? "weak" : stepOf(guess), guess: guessOf100(guess), people, why: weak ? ["delta"] : [], ...needed })];
  }
  if (!sigma || everybody === null) {
    const nothing = promised({ towards, people });
    return rows ? [nothing, promised({ towards: "collector", people: study.rows.blockRows })] : [nothing];
  }
  const found = [stated(study, towards, everybody, people, needed)];
  if (rows) {
    const block = study.rows.blockRows;
    found.push(collector === null ? promised({ towards: "collector", people: block }) : stated(study, "collector", collector, block, needed));
  }
  return found;
}

/** @param {Study} study @param {Promise_["towards"]} towards @param {Guarantee} promise @param {number} people
 * @param {{providers: number, of: number}} needed @returns {Promise_} */
function stated(study, towards, promise, people, needed) {
  const record = promise.neighbours.relation !== "unit";
  const delta = promise.delta ?? 0;
  const pair = promise.epsilon === null ? 1 : onAGrid(promise, promise.epsilon, delta);
  const curve = curveOf(study, promise, people);
  const guess = Math.min(pair, curve);
  let step = stepOf(guess);
  /** @type {string[]} */
  const why = [];
  if (pair < curve && delta > 1 / people) {
    step = "weak";
    why.push("delta");
  }
  if (!record) {
    step = "weak";
    why.push("record");
  }
  if (promise.basis === "asymptotic" && step === "strong") {
    step = "medium";
    why.push("limit");
  }
  const left = (/** @type {number} */ honest) => {
    const found = study.protection.byHonestRows.find(([rows]) => rows <= honest)?.[1];
    if (found === undefined) return null;
    const then = stepOf(Math.min(onAGrid(promise, found, delta), curveOf(study, promise, honest)));
    return STEPS.indexOf(then) < STEPS.indexOf(step) ? then : step;
  };
  return promised({ towards, step, guess: guessOf100(guess), people, ifHalf: left(Math.floor(people / 2)), ifNone: left(1), why, ...needed });
}

/** The guess that a pair allows. Noise on a grid adds to epsilon, and that part of itself to delta.
 * @param {Guarantee} promise @param {number} epsilon @param {number} delta */
function onAGrid(promise, epsilon, delta) {
  const added = promise.discreteEpsilon ?? 0;
  return bestGuess(epsilon + added, Math.min(1, delta * (1 + added)));
}

/** By delta(0) of the study's own noise, which this device works out itself; 1 where it does not. @param {Study} study
 * @param {Guarantee} promise @param {number} rows */
function curveOf(study, promise, rows) {
  if (promise.neighbours.relation === "unit") return 1;
  if (study.suite !== "rows") {
    const s = momentsNoise(study);
    return onAGrid(promise, 0, Number.isFinite(s) ? gaussianDelta(0, s) : 0);
  }
  if (study.attributes < 2) return 1;
  const { sigma, rowNorm } = study.protection;
  let variation = gaussianDelta(0, sigma / (Math.SQRT2 * rowNorm)); // nobody else is honest
  if (rows > study.attributes) variation = Math.min(variation, maskedDelta(0, sigma, rows, study.attributes, rowNorm));
  return onAGrid(promise, 0, variation);
}

/** @param {string} who @param {string} what @param {Partial<Seen>} [more] @returns {Seen} */
const sees = (who, what, more = {}) => ({ who, what, parties: [], number: 0, needsDevice: false, ...more });

/** What a group that reaches answers has, and guesses of 100 that are then right. @param {Study} study @returns {[string, number]} */
function reached(study) {
  const mu = study.protection.rightProviders?.mu ?? null;
  return mu === null ? ["answers", 0] : ["own_noise", guessOf100(phi(mu / 2))];
}

/** The smallest groups that reach the answers; how many larger ones there are; and those that see them blurred. @param {Study} study */
function groups(study) {
  const { coalitions } = explain(study);
  const smallest = Math.min(...coalitions.map(({ parties }) => parties.length));
  const shown = coalitions.filter(({ parties }) => parties.length === smallest);
  const [what, number] = reached(study);
  const seen = shown.map(({ parties, exact, needsDevice }) =>
    sees("group", exact ? what : "estimates", { parties, needsDevice, number: exact ? number : 0 }));
  if (study.suite === "rows") {
    const blurred = blurringCoalitions(study.right.length, study.left.length, study.rows.unmasking);
    const least = Math.min(...blurred.map((parties) => parties.length));
    seen.push(...blurred.filter((parties) => parties.length === least).map((parties) => sees("group", "blurred", { parties })));
  }
  return { seen, larger: coalitions.length - shown.length };
}

/** Changed programs, the collector, everybody, and one institution alone. @param {Study} study @returns {Seen[]} */
function others(study) {
  const people = study.releaseRows;
  const noise = hasNoise(study);
  if (study.suite === "rows") {
    const [what, number] = reached(study);
    const changed = study.rows.tagHolders.length > 0
      ? [sees("more_changed", "unknown"), sees("one_changed", "as_collector")]
      : [sees("collector_and_changed", what, { number }), sees("one_changed", "chosen")];
    const collector = sees("collector", "blocks", { number: study.rows.blockRows });
    return [...changed, collector, sees("everybody", noise ? "sums_noise" : "sums_exact", { number: people }), sees("one", "nothing")];
  }
  const right = study.right.length;
  if (!noise) return [sees("collector_changed", "subtracted"), sees("everybody", "totals_exact"), sees("fewer", "as_published", { number: right - 1 })];
  // Who changes programs can leave its own noise out, and knows what it added.
  const honest = study.moments.honestProviders;
  const less = honest > 1 ? [sees("fewer", "less_noise", { number: right - 1 })] : [];
  return [...less, sees("fewer", "as_promised", { number: right - honest }), sees("everybody", "totals_noise")];
}

/** Who can tell that somebody took part. An invitation serves once, so whoever has a copy of a link learns by trying it.
 * @param {Study} study */
function membership(study) {
  const invited = study.admission === "invited" ? [sees("inviter", "who_answered")] : [];
  return [sees("receivers", "took_part"), ...(study.reminders ? [sees("inviter", "answered")] : invited)];
}

/** @param {string} key @param {Said["values"]} [values] @returns {Said} */
const said = (key, values = {}) => ({ key, values });

/** How many run these parties; parties of one name are one institution. @param {Study} study @param {string[]} roles */
const institutions = (study, roles) => new Set(roles.map((role) => study.party(role).organisation.trim().toLowerCase() || role)).size;

/** The first screen, sentence by sentence. @param {Study} study @returns {Said[]} */
function firstScreen(study) {
  const noise = hasNoise(study) ? "noise" : "exact";
  const right = study.right.map((_, place) => `R${place + 1}`);
  const all = [...right, ...study.left.map((_, place) => `L${place + 1}`), "collector"];
  const parts = institutions(study, right);
  const told = said(study.admission === "invited" ? "first.told.invited" : "first.told");
  const size = Math.min(...explain(study).coalitions.map(({ parties }) => institutions(study, parties)));
  const shares = noise === "exact" ? "first.shares.exact" : parts === 2 ? "first.shares.both" : "first.shares";
  const way = study.suite === "rows" // sums: the collector's; public ones are over more
    ? [said("first.way", { parts, count: institutions(study, all) }),
      said(study.rows.tagHolders.length > 0 ? "first.read.tagged" : "first.read.untagged", { size }),
      said(`first.sums.${noise}`, { people: study.rows.blockRows })]
    : [said(shares, { parts }), said(`first.totals.${study.protection.budget !== null ? "budget" : noise}`)];
  return [...way, told, said("first.back")];
}

/** @param {Promise_} weakest @returns {Said[]} */
function strengthLine({ guess, step: one, providers: number }) {
  const step = `step.${one}`;
  if (guess === null) return [said("first.strength.none", { step })];
  const noise = number > 0 ? "first.strength" : "first.strength.others"; // institutions', or people's
  const line = said(guess >= 100 ? "first.strength.sure" : noise, { step, guess });
  return number > 0 ? [line, said(`first.providers.${number === 1 ? "one" : "many"}`, { number })] : [line];
}

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
  const told = (/** @type {Said} */ { key, values }) =>
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
