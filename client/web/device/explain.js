/** What a study promises and who would have to break their word, as data: the page finds the words, in every language. */
/**
 * `publicPromise` holds towards everybody, `collectorPromise` towards the collector (in the rows suite; null where it is the
 * same), `rightProvidersPromise` towards all right providers together, who see a row with its own noise. `exact`: no noise at all. `budget`: private answers are given until it is spent, and nothing else is published.
 * `byHonestRows`: what epsilon is left if only so many of the people are honest. `coalitions`: who together could see answers,
 * smallest groups first. `honestProviders`: in the moments suite, how many right providers must add their noise as agreed.
 * `altered`: whether a right provider that alters what it was given would be found out.
 * @typedef {object} Explained
 * @property {string} suite
 * @property {import("./protection.js").Guarantee | null} publicPromise
 * @property {import("./protection.js").Guarantee | null} collectorPromise
 * @property {import("./protection.js").Guarantee | null} rightProvidersPromise
 * @property {boolean} exact
 * @property {import("./protection.js").Budget | null} budget
 * @property {[number, number][]} byHonestRows
 * @property {import("./rows/collusion.js").Coalition[]} coalitions
 * @property {number | null} honestProviders
 * @property {boolean} altered
 */

/** @param {import("./study.js").Study} study @returns {Explained} */
export function explain(study) {
  const { public: publicPromise, collector: collectorPromise, rightProviders: rightProvidersPromise, budget, byHonestRows, sigma } = study.protection;
  const said = { suite: study.suite, publicPromise, collectorPromise, rightProvidersPromise, budget, byHonestRows, exact: !sigma && budget === null };
  if (study.suite === "rows") {
    const coalitions = study.rows.coalitions();
    return { ...said, coalitions, honestProviders: null, altered: study.rows.tagHolders.length > 0 };
  }
  // Shares of a report are uniform unless all of them are put together: docs/theory/verified-moments.md#collusion.
  const all = { parties: study.right.map((_, k) => `R${k + 1}`), exact: true, needsDevice: false };
  return { ...said, coalitions: [all], honestProviders: study.moments.honestProviders, altered: true };
}
