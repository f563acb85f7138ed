// What a study promises and who could see what, as data: the port of trimask_core.explain.facts. Words: truth_words.js.
//
// Strength is told by an attacker's best guess between two answers that are equally likely, which (epsilon, delta)-differential
// privacy bounds by (e^epsilon + delta) / (1 + e^epsilon): strong up to 3 of 4, medium up to 9 of 10, weak above.

import { erfc } from "../device/floats.js";
import { explain } from "../device/index.js";
import { blurringCoalitions } from "../device/rows/collusion.js";

/** @typedef {import("../device/index.js").Study} Study */
/** @typedef {import("../device/protection.js").Guarantee} Guarantee */
/** @typedef {"none" | "weak" | "medium" | "strong"} Step */
/** @typedef {{towards: "public" | "collector" | "everybody", step: Step, guess: number | null, people: number, ifHalf: Step | null,
 *   ifNone: Step | null, providers: number, of: number, why: string[]}} Promise_ */
/** @typedef {{who: string, what: string, parties: string[], number: number, needsDevice: boolean}} Seen */

/** @type {Step[]} */
export const STEPS = ["none", "weak", "medium", "strong"];
const [STRONG, MEDIUM] = [3 / 4, 9 / 10];
const [LARGEST, ROUNDING, FEWER_DIGITS] = [700, 1e-12, 1e-311];

/** The promises, the weaker first; who could see what, those who see most first; how many larger groups could.
 * @param {Study} study @returns {{promises: Promise_[], seen: Seen[], largerGroups: number}} */
export function wholeTruth(study) {
  const { seen, larger } = groups(study);
  const order = (/** @type {Promise_} */ promise) => [STEPS.indexOf(promise.step), -(promise.guess ?? 101)];
  const promises = promisesOf(study).sort((a, b) => {
    const [[one = 0, first = 0], [other = 0, second = 0]] = [order(a), order(b)];
    return one - other || first - second;
  });
  return { promises, seen: [...seen, ...others(study)], largerGroups: larger };
}

/** The largest probability of telling two equally likely answers apart. @param {number} epsilon @param {number} delta */
function bestGuess(epsilon, delta) {
  return epsilon > LARGEST ? 1 : Math.min(1, (Math.exp(epsilon) + delta) / (1 + Math.exp(epsilon)));
}

/** In hundredths, rounded up. @param {number} epsilon @param {number} delta */
const guessOf100 = (epsilon, delta) => Math.min(100, Math.ceil(100 * bestGuess(epsilon, delta) - 1e-9));

/** @param {number} epsilon @param {number} delta @param {number} people @returns {Step} */
function stepOf(epsilon, delta, people) {
  const guess = bestGuess(epsilon, delta);
  if (delta > 1 / people || guess > MEDIUM + 1e-9) return "weak";
  return guess > STRONG + 1e-9 ? "medium" : "strong";
}

/** The epsilon that mu-Gaussian differential privacy gives with delta, rounded up, as trimask_core.submit.personal_budget finds it; infinite above 700.
 * @param {number} mu @param {number} delta */
export function epsilonOf(mu, delta) {
  const tail = (/** @type {number} */ x) => erfc(x / Math.SQRT2) / 2;
  const reached = (/** @type {number} */ epsilon) => {
    const far = tail(epsilon / mu + mu / 2);
    return (1 + ROUNDING) * tail(epsilon / mu - mu / 2) - (1 - ROUNDING) * Math.exp(epsilon) * (far > FEWER_DIGITS ? far : 0);
  };
  if (mu === 0) return 0;
  if (!(delta > 0) || reached(LARGEST) > delta) return Infinity;
  let [low, high] = [0, LARGEST];
  while (high - low > 1e-6) {
    const middle = (low + high) / 2;
    if (reached(middle) > delta) low = middle;
    else high = middle;
  }
  return high;
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
    let [epsilon, delta] = [budget.epsilon ?? 0, budget.delta ?? 0];
    if (budget.mu !== null) {
      // Both purses may be spent; what mu is worth is taken at the delta that is left.
      const left = 1 / people - delta;
      epsilon += left > 0 ? epsilonOf(budget.mu, left) : Infinity;
      delta = Math.max(delta, 1 / people);
    }
    return [promised({ towards, step: stepOf(epsilon, delta, people), guess: guessOf100(epsilon, delta), people, ...needed })];
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
  const delta = promise.delta ?? 1 / people;
  const epsilon = promise.epsilon ?? epsilonOf(promise.mu ?? 0, delta);
  let step = stepOf(epsilon, delta, people);
  const why = delta > 1 / people ? ["delta"] : [];
  if (promise.neighbours.relation === "unit") {
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
    const then = stepOf(found, delta, people);
    return STEPS.indexOf(then) < STEPS.indexOf(step) ? then : step;
  };
  return promised({ towards, step, guess: guessOf100(epsilon, delta), people, ifHalf: left(Math.floor(people / 2)), ifNone: left(1), why, ...needed });
}

/** @param {string} who @param {string} what @param {Partial<Seen>} [more] @returns {Seen} */
const sees = (who, what, more = {}) => ({ who, what, parties: [], number: 0, needsDevice: false, ...more });

/** The smallest groups that reach the answers; how many larger ones there are; and those that see them blurred. @param {Study} study */
function groups(study) {
  const { coalitions } = explain(study);
  const smallest = Math.min(...coalitions.map(({ parties }) => parties.length));
  const shown = coalitions.filter(({ parties }) => parties.length === smallest);
  const seen = shown.map(({ parties, exact, needsDevice }) => sees("group", exact ? "answers" : "estimates", { parties, needsDevice }));
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
  const noise = study.protection.sigma > 0 || study.protection.budget !== null;
  if (study.suite === "rows") {
    const changed = study.rows.tagHolders.length > 0
      ? [sees("more_changed", "unknown"), sees("one_changed", "as_collector")]
      : [sees("collector_and_changed", "answers"), sees("one_changed", "chosen")];
    const collector = sees("collector", "blocks", { number: study.rows.blockRows });
    return [...changed, collector, sees("everybody", noise ? "sums_noise" : "sums_exact", { number: people }), sees("one", "nothing")];
  }
  const bringing = noise ? [] : [sees("collector_changed", "subtracted")];
  return [...bringing, sees("everybody", noise ? "totals_noise" : "totals_exact"), sees("fewer", "as_published", { number: study.right.length - 1 })];
}
