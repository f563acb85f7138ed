/**
 * Does a study's promise follow from its noise? A device works it out itself: `trimask_core.study.signed`. A study that claims more
 * than its sigma gives is refused; what cannot be worked out here is said, not passed over.
 */
import { StudyError } from "./errors.js";
import { erfc, ldexp } from "./floats.js";

/** @typedef {import("./study.js").Study} Study */
/** @typedef {import("./protection.js").Guarantee} Guarantee */

const ALLOWED = 1e-3; // a delta this part above the stated one passes: more than the arithmetic here errs upwards
const PUBLISHING_STEPS = 2;
const DITHER_STEPS = 8;
const RELEASE_ENTRIES = 4; // a release has fewer than this many times the rows a study asks for
const FAR = 30; // standard deviations from which on a tail is its first two terms

/** What could not be checked here, as words of a catalogue: "unit", "single_column". @param {Study} study @returns {Promise<string[]>} */
export async function checkClaims(study) {
  const { sigma, public: everybody, collector, byHonestRows } = study.protection;
  if (sigma) return study.suite === "rows" ? rowsClaims(study) : momentsClaims(study);
  if (everybody !== null || collector !== null || byHonestRows.length) {
    throw new StudyError("this study promises differential privacy and adds no noise: take no part");
  }
  return [];
}

/** delta of the Gaussian mechanism with s = sigma / sensitivity, never below the true one by rounding. @param {number} epsilon @param {number} s */
export function gaussianDelta(epsilon, s) {
  if (!(s > 0) || !Number.isFinite(1 / s)) return 1;
  const [near, far] = [epsilon * s - 0.5 / s, epsilon * s + 0.5 / s];
  const first = 0.5 * erfc(near / Math.SQRT2);
  // e^epsilon phi(far) = phi(near), and 1/x - 1/x^3 is below Mills' ratio
  const lost =
    far < FAR
      ? Math.exp(epsilon) * 0.5 * erfc(far / Math.SQRT2)
      : ((Math.exp(-0.5 * near * near) / Math.sqrt(2 * Math.PI)) * (1 - 1 / far ** 2)) / far;
  return Math.min(1, Math.max(first * (1 + 1e-12) - lost, 0));
}

/** @param {Study} study */
async function rowsClaims(study) {
  const { maskedDelta } = await import("./rows/masked_delta.js");
  const { protection, attributes } = study;
  const { rowNorm: norm, sigma } = protection;
  /** @type {[Guarantee | null, number, string][]} */
  const claims = [
    [protection.public, study.releaseRows, "everybody"],
    [protection.collector, study.rows.blockRows, "the collector"],
  ];
  checkRightProviders(study);
  for (const [guarantee, rows, towards] of claims) {
    if (guarantee === null) continue;
    checkDiscrete(study, guarantee, RELEASE_ENTRIES * rows * attributes, RELEASE_ENTRIES * rows * study.rows.columns, towards);
    const near = guarantee.neighbours;
    if (near.relation === "unit") return ["unit"];
    if (near.relation !== "record" || near.rowNorm !== norm || near.distance !== 2 * norm) {
      throw new StudyError(`what this study promises towards ${towards} is not about rows of its own norm: take no part`);
    }
    if (attributes < 2) return ["single_column"];
    const { epsilon, delta } = pairOf(guarantee, towards);
    compare(delta, maskedDelta(epsilon, sigma, rows, attributes, norm), epsilon, towards);
  }
  if (protection.public !== null) {
    const { delta } = pairOf(protection.public, "everybody");
    for (const [rows, epsilon] of protection.byHonestRows) {
      let found = gaussianDelta(epsilon, sigma / (Math.SQRT2 * norm));
      if (found > delta * (1 + ALLOWED) && rows > attributes) found = maskedDelta(epsilon, sigma, rows, attributes, norm);
      compare(delta, found, epsilon, `everybody with ${rows} honest people`);
    }
  }
  return [];
}

/** mu towards whoever sees a row with its own noise alone. @param {Study} study */
function checkRightProviders(study) {
  const { rightProviders: stated, rowNorm: norm, sigma, public: everybody, collector } = study.protection;
  if (stated === null) {
    if (everybody === null && collector === null) return;
    throw new StudyError("this study does not say what all right providers together could tell: take no part", "claims");
  }
  const { relation, rowNorm, distance } = stated.neighbours;
  const step = ldexp(1, study.rows.gridExponent);
  const own = rowNorm === norm && (relation === "record" ? distance === 2 * norm : relation === "unit" && distance === 1);
  if (!own) throw new StudyError("what this study promises towards right providers is not about its own rows: take no part", "claims");
  const apart = relation === "record" ? 2 * norm : 1 + step * Math.sqrt(study.attributes);
  const square = sigma * sigma - (PUBLISHING_STEPS * step) ** 2;
  const found = square > 0 ? (apart / Math.sqrt(square)) * (1 + 1e-12) : Infinity;
  if (stated.mu === null || !(found <= stated.mu * (1 + ALLOWED))) {
    throw new StudyError(`towards all right providers this study states mu = ${stated.mu}, but its noise gives ${found}: take no part`, "claims");
  }
  checkDiscrete(study, stated, study.attributes, 0, "all right providers");
}

/** What noise on a grid adds to epsilon; masked entries are rounded a second time.
 * @param {Study} study @param {Guarantee} guarantee @param {number} entries @param {number} masked @param {string} towards */
function checkDiscrete(study, guarantee, entries, masked, towards) {
  const square = ldexp(study.protection.sigma, -study.rows.gridExponent) ** 2;
  const v = (PUBLISHING_STEPS ** 2 * square) / (square + PUBLISHING_STEPS ** 2);
  const again = (PUBLISHING_STEPS ** 2 * DITHER_STEPS ** 2) / (PUBLISHING_STEPS ** 2 + DITHER_STEPS ** 2);
  const twice = 5 * masked * Math.exp(-2 * Math.PI ** 2 * again);
  const found = square >= PUBLISHING_STEPS ** 2 ? 2 * entries * 8 * Math.exp(-2 * Math.PI ** 2 * v) + twice : Infinity;
  if (guarantee.discreteEpsilon === null || !(found <= guarantee.discreteEpsilon * (1 + ALLOWED))) {
    throw new StudyError(`towards ${towards} this study does not state that noise on its grid adds ${found} to epsilon: take no part`, "claims");
  }
}

/** @param {Study} study */
function momentsClaims(study) {
  const { public: guarantee, collector, rowNorm } = study.protection;
  if (guarantee === null) return [];
  const near = guarantee.neighbours;
  if (near.relation !== "record" || near.rowNorm !== rowNorm || collector !== null) {
    throw new StudyError("what this study promises is not about records of its own norm: take no part");
  }
  const s = momentsNoise(study);
  const { epsilon, delta } = pairOf(guarantee, "everybody");
  compare(delta, Number.isFinite(s) ? gaussianDelta(epsilon, s) : 0, epsilon, "everybody");
  if (guarantee.mu !== null && !(1 / s <= guarantee.mu * (1 + ALLOWED))) {
    throw new StudyError(`this study promises mu = ${guarantee.mu}, but its noise gives ${1 / s}: take no part`);
  }
  return [];
}

/** sigma / sensitivity in the moments suite (docs/theory/verified-moments.md#sensitivity); infinite if nothing moves. @param {Study} study */
export function momentsNoise(study) {
  const square = study.moments.layout.radiusSquared.toNumber();
  const distance = Math.SQRT2 * (square >= 2 ? square : 2 * Math.sqrt(Math.max(square - 1, 0)));
  return distance ? study.protection.sigma / distance : Infinity;
}

/** @param {Guarantee} guarantee @param {string} towards */
function pairOf({ epsilon, delta }, towards) {
  if (epsilon === null || delta === null) throw new StudyError(`this study states no epsilon and delta towards ${towards}: take no part`);
  return { epsilon, delta };
}

/** @param {number} stated @param {number} found @param {number} epsilon @param {string} towards */
function compare(stated, found, epsilon, towards) {
  if (found <= stated * (1 + ALLOWED)) return;
  throw new StudyError(
    `this study's noise is too small for what it promises towards ${towards}: at epsilon ${epsilon} it says delta ${stated}, ` +
      `and this device works out ${found}. Take no part, and ask who invited you.`,
    "claims",
  );
}
