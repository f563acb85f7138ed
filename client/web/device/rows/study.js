/** What the rows suite adds to a study, and the checks that it can give the protection the study claims. */
import { StudyError } from "../errors.js";
import { frexp, ldexp } from "../floats.js";
import { bytesOf, items, keysOf, realOf, textOf, wholeOf } from "../reading.js";
import { minimalCoalitions, refuseSingleBreaker } from "./collusion.js";
import { noiseColumnsMu } from "./noise_columns.js";
import { keyHolders, TAGS } from "./tags.js";

/**
 * What the settings are read with.
 * @typedef {{ attributes: number, rowNorm: number, sigma: number, releaseRows: number, right: number, left: number }} Around
 */

const CHECK_DIRECTIONS = 32;
const LEAST_LEFT = 96;
const COARSEST_EXPONENT = -12;
const DEVIATIONS = 12;
const PUBLISHING_STEPS = 2;
const LEAST_SIGMA_STEPS = 8;

/** @param {string} reason @param {string} problem @returns {never} */
function impossible(reason, problem) {
  throw new StudyError(problem, reason, "suite");
}

/** Sizes are in the paper's letters: n block rows, p1 attributes, p2 noise columns, p = p1 + p2. */
export class RowsStudy {
  /** @param {import("../json.js").JsonObject} data @param {Around} around */
  constructor(data, around) {
    const keys = ["name", "block_rows", "noise_columns", "tau", "obfuscation_failure", "share_leakage", "grid_exponent"];
    keysOf(data, [...keys, "unmasking", "noise_columns_mu", "publishing_steps", "mask_commitment"], "suite");
    this.blockRows = wholeOf(data["block_rows"], "suite.block_rows");
    this.noiseColumns = wholeOf(data["noise_columns"], "suite.noise_columns");
    this.tau = realOf(data["tau"], "suite.tau");
    this.obfuscationFailure = realOf(data["obfuscation_failure"], "suite.obfuscation_failure");
    this.shareLeakage = realOf(data["share_leakage"], "suite.share_leakage");
    this.gridExponent = wholeOf(data["grid_exponent"], "suite.grid_exponent");
    this.unmasking = items(data["unmasking"], "suite.unmasking").map((role) => textOf(role, "suite.unmasking"));
    this.noiseColumnsMu = realOf(data["noise_columns_mu"], "suite.noise_columns_mu");
    this.publishingSteps = wholeOf(data["publishing_steps"], "suite.publishing_steps");
    this.maskCommitment = bytesOf(data["mask_commitment"], "suite.mask_commitment");
    this.around = around;
    this.columns = around.attributes + this.noiseColumns;
    this.shareScale = (2 * around.rowNorm) / this.shareLeakage;
    this.shareSteps = ldexp(this.shareScale, -this.gridExponent);
    this.tagHolders = keyHolders(this.unmasking);
    this.#check();
  }

  /** Who together could see answers, smallest groups first. */
  coalitions() {
    return minimalCoalitions(this.around.right, this.around.left, this.unmasking);
  }

  #check() {
    const { attributes, rowNorm, sigma, releaseRows, right, left } = this.around;
    const rows = 2 * this.blockRows - 1; // the last block of a study takes the remainder in
    if (this.blockRows <= attributes) impossible("block_too_small", `blocks of ${this.blockRows} rows are not larger than the ${attributes} columns of a row`);
    if (releaseRows < this.blockRows) impossible("release_too_small", "release_rows must be at least block_rows");
    if (right < 2 || !left) impossible("too_few_providers", "a study needs two right providers and one left provider at least");
    if (!(0 < this.shareLeakage && this.shareLeakage <= 2 ** -10)) impossible("share_leakage", "share_leakage must be in (0, 2^-10]");
    if (!(0 < this.obfuscationFailure && this.obfuscationFailure <= 1e-3)) {
      impossible("obfuscation_failure", "obfuscation_failure must be in (0, 0.001]");
    }
    const tau = leastTau(rows, attributes, this.noiseColumns, rowNorm, sigma, this.obfuscationFailure);
    if (this.tau < tau * (1 - 1e-12)) impossible("tau", `tau = ${this.tau} is below ${tau}, which blocks of this size need`);
    this.#checkGrid();
    const steps = ldexp(sigma, -this.gridExponent);
    if (steps % 1 || (steps > 0 && steps < LEAST_SIGMA_STEPS)) {
      impossible("sigma", `sigma must be 0 or a whole number of grid steps, at least ${LEAST_SIGMA_STEPS}`);
    }
    if (this.maskCommitment.length !== 32) impossible("bad_key", "mask_commitment must be 32 bytes");
    const roles = new Set(["collector"]);
    for (let k = 1; k <= right; k++) roles.add(`R${k}`);
    for (let j = 1; j <= left; j++) roles.add(`L${j}`);
    if (this.unmasking.length !== right || !this.unmasking.every((role) => roles.has(role))) {
      impossible("bad_unmasking", "name one unmasking node, by role, for each right provider");
    }
    refuseSingleBreaker(right, left, this.unmasking);
    if (this.tagHolders.length && this.columns < TAGS * rows + 1) {
      impossible("too_few_noise_columns", `with p = ${this.columns} columns the tag keys of a block would give a right mask away`);
    }
    const publishing = sigma ? PUBLISHING_STEPS : 0;
    if (this.publishingSteps !== publishing) impossible("publishing_steps", `publishing_steps must be ${publishing} in this study`);
    const columns = this.noiseColumns - CHECK_DIRECTIONS;
    const mu = noiseColumnsMu(rows, attributes, columns, rowNorm, sigma, this.tau, this.obfuscationFailure);
    if (!(mu * (1 - 1e-6) <= this.noiseColumnsMu && this.noiseColumnsMu < Infinity)) {
      impossible("noise_columns_mu", `noise_columns_mu = ${this.noiseColumnsMu} is below ${mu}, which these noise columns give`);
    }
  }

  #checkGrid() {
    const { rowNorm, sigma, right } = this.around;
    if (this.gridExponent > COARSEST_EXPONENT || !Number.isFinite(this.shareScale)) {
      impossible("grid_too_coarse", `a grid of 2^${this.gridExponent} is coarser than 2^${COARSEST_EXPONENT}`);
    }
    const [mantissa, exponent] = frexp(DEVIATIONS * this.shareScale * Math.sqrt(Math.max(1, right - 1)));
    if (this.gridExponent < exponent - Number(mantissa === 0.5) - 52) {
      impossible("grid_overflow", "the grid leaves components less than 12 standard deviations below 2^52");
    }
    if (rowNorm + DEVIATIONS * (sigma + this.tau) > this.shareScale / 16) {
      impossible("grid_overflow", "rows are too near the components' scale");
    }
  }
}

/**
 * The least tau for a block of `rows`, of whose noise columns the check of each row takes some away.
 * Davidson and Szarek: docs/theory/collection.md#condition.
 * @param {number} rows @param {number} attributes @param {number} noiseColumns @param {number} rowNorm @param {number} sigma @param {number} failure
 */
function leastTau(rows, attributes, noiseColumns, rowNorm, sigma, failure) {
  if (attributes + noiseColumns < rows) {
    impossible("too_few_columns", `${attributes} + ${noiseColumns} columns are fewer than the ${rows} rows a block may have`);
  }
  const t = Math.sqrt(2 * Math.log(1 / (sigma ? failure / 2 : failure)));
  const left = noiseColumns - CHECK_DIRECTIONS;
  const spread = Math.sqrt(Math.max(0, left)) - Math.sqrt(rows) - t;
  if (!(spread > 0) || left < LEAST_LEFT) impossible("too_few_noise_columns", `${noiseColumns} noise columns cannot hide ${rows} rows`);
  const answers = rowNorm * Math.sqrt(rows) + (sigma ? sigma * (Math.sqrt(rows) + Math.sqrt(attributes) + t) : 0);
  return answers / spread;
}
