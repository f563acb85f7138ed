// What a study promises and who could see what, as keys and values: the port of trimask_core.explain.facts, which says what
// strength is: an attacker's best guess between two whole sets of answers, from the best statement that holds. Words: truth_words.js.

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

/** @type {Step[]} */
export const STEPS = ["none", "weak", "medium", "strong"];
const [STRONG, MEDIUM] = [3 / 5, 3 / 4];

/** The promises, the weaker first; who could see what, those who see most first; how many larger groups could; what the first
 * screen says, and in a line how strong it is. @param {Study} study
 * @returns {{promises: Promise_[], seen: Seen[], largerGroups: number, first: Said[], strength: Said[]}} */
export function wholeTruth(study) {
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
export function reached(study) {
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
