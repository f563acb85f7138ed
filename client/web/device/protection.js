/** What a study's noise buys, and what its private answers may cost: `trimask_core.study.guarantee` and `guarantee`. */
import { StudyError } from "./errors.js";
import { items, keysOf, objectOf, realOf, realOrNull, textOf, wholeOf } from "./reading.js";

/** @typedef {import("./json.js").Json} Json */
/**
 * (epsilon, delta)-DP, or mu-Gaussian DP, with what it rests on.
 * @typedef {object} Guarantee
 * @property {number | null} epsilon
 * @property {number | null} delta
 * @property {number | null} mu
 * @property {{ relation: "record" | "unit" | "add-remove", rowNorm: number | null, distance: number | null }} neighbours
 * @property {"proved" | "asymptotic" | "numerical"} basis
 * @property {string} because
 * @property {string} citation
 * @property {[number, number] | null} enclosed
 * @property {[number, number] | null} addsUp
 * @property {number | null} discreteEpsilon what noise drawn on a grid adds to epsilon, at the most
 */
/** @typedef {{ epsilon: number | null, delta: number | null, mu: number | null }} Budget */
/**
 * @typedef {object} Protection
 * @property {number} rowNorm
 * @property {number} sigma
 * @property {string} method
 * @property {Guarantee | null} public
 * @property {Guarantee | null} collector
 * @property {Budget | null} budget
 * @property {[number, number][]} byHonestRows
 * @property {Guarantee | null} rightProviders towards all right providers together
 */

/** @param {Json | undefined} data @returns {Protection} */
export function readProtection(data) {
  const given = objectOf(data, "protection");
  keysOf(given, ["row_norm", "sigma", "method", "public", "collector", "budget", "by_honest_rows", "right_providers"], "protection");
  return {
    rowNorm: realOf(given["row_norm"], "protection.row_norm"),
    sigma: realOf(given["sigma"], "protection.sigma"),
    method: textOf(given["method"], "protection.method"),
    public: given["public"] === null ? null : readGuarantee(given["public"], "protection.public"),
    collector: given["collector"] === null ? null : readGuarantee(given["collector"], "protection.collector"),
    budget: given["budget"] === null ? null : readBudget(given["budget"]),
    byHonestRows: readHonest(items(given["by_honest_rows"], "protection.by_honest_rows")),
    rightProviders: given["right_providers"] === null ? null : readGuarantee(given["right_providers"], "protection.right_providers"),
  };
}

/** @param {Json[]} lines @returns {[number, number][]} */
function readHonest(lines) {
  const field = "protection.by_honest_rows";
  const found = lines.map((line) => {
    const [rows, epsilon, ...more] = items(line, field);
    if (more.length) throw new StudyError("must have pairs", "", field);
    return /** @type {[number, number]} */ ([wholeOf(rows, field), realOf(epsilon, field, true)]);
  });
  const falling = found.every(([rows], place) => rows >= 1 && (place === 0 || rows < Number(found[place - 1]?.[0])));
  if (!falling || !found.every(([, epsilon]) => epsilon > 0)) {
    throw new StudyError("must have each number of rows once, the largest first, with an epsilon above 0", "", field);
  }
  return found;
}

/** @param {Json | undefined} data @returns {Budget} */
function readBudget(data) {
  const given = objectOf(data, "protection.budget");
  keysOf(given, ["epsilon", "delta", "mu"], "protection.budget");
  const [epsilon, delta, mu] = ["epsilon", "delta", "mu"].map((name) => realOrNull(given[name], `protection.budget.${name}`));
  const budget = /** @type {Budget} */ ({ epsilon, delta, mu });
  const amounts = Object.values(budget).filter((value) => value !== null);
  if ((budget.epsilon === null) !== (budget.delta === null) || !amounts.length) {
    throw new StudyError("a budget is epsilon and delta, or mu, or all three", "budget", "protection.budget");
  }
  if (!amounts.every((value) => value > 0) || (budget.delta ?? 0) >= 1) {
    throw new StudyError("epsilon and mu must be above 0, delta in (0, 1)", "budget", "protection.budget");
  }
  return budget;
}

/** @param {Json | undefined} data @param {string} field @returns {Guarantee} */
function readGuarantee(data, field) {
  const given = objectOf(data, field);
  keysOf(given, ["epsilon", "delta", "mu", "neighbours", "basis", "because", "citation"], field, ["enclosed", "adds_up", "discrete_epsilon"]);
  const near = objectOf(given["neighbours"], `${field}.neighbours`);
  keysOf(near, ["relation", "row_norm", "distance"], `${field}.neighbours`);
  const relation = textOf(near["relation"], `${field}.relation`);
  const basis = textOf(given["basis"], `${field}.basis`);
  if (!["record", "unit", "add-remove"].includes(relation)) throw new StudyError("is not known", "", `${field}.relation`);
  if (!["proved", "asymptotic", "numerical"].includes(basis)) throw new StudyError("is not known", "", `${field}.basis`);
  const [epsilon = null, delta = null, mu = null] = ["epsilon", "delta", "mu"].map((name) => realOrNull(given[name], `${field}.${name}`));
  if ((epsilon === null) !== (delta === null) || (epsilon === null && mu === null)) {
    throw new StudyError("is stated by epsilon and delta, or by mu", "", field);
  }
  const discreteEpsilon = given["discrete_epsilon"] === undefined ? null : realOf(given["discrete_epsilon"], `${field}.discrete_epsilon`, true);
  if (![epsilon, delta, mu, discreteEpsilon].every((value) => value === null || value >= 0)) {
    throw new StudyError("has a number below 0", "", field);
  }
  const enclosed = readPair(given["enclosed"], `${field}.enclosed`);
  if (enclosed && (delta === null || !(0 <= enclosed[0] && enclosed[0] <= enclosed[1] && enclosed[1] <= delta))) {
    throw new StudyError("must be two numbers within 0 and delta", "", `${field}.enclosed`);
  }
  const addsUp = readPair(given["adds_up"], `${field}.adds_up`);
  if (addsUp && !addsUp.every((part) => part > 0)) {
    throw new StudyError("must be mu and a slack, both above 0", "", `${field}.adds_up`);
  }
  return {
    epsilon, delta, mu, enclosed, addsUp, discreteEpsilon,
    neighbours: {
      relation: /** @type {Guarantee["neighbours"]["relation"]} */ (relation),
      rowNorm: realOrNull(near["row_norm"], `${field}.row_norm`),
      distance: realOrNull(near["distance"], `${field}.distance`),
    },
    basis: /** @type {Guarantee["basis"]} */ (basis),
    because: textOf(given["because"], `${field}.because`),
    citation: textOf(given["citation"], `${field}.citation`),
  };
}

/** @param {Json | undefined} value @param {string} field @returns {[number, number] | null} */
function readPair(value, field) {
  if (value === undefined) return null;
  const both = items(value, field);
  if (both.length !== 2) throw new StudyError("must be a list of two numbers", "", field);
  return [realOf(both[0], field, true), realOf(both[1], field, true)];
}
