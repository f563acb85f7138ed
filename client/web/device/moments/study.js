/** What the moments suite adds to a study, and the checks that it can give the protection the study claims. */
import { StudyError } from "../errors.js";
import { ldexp } from "../floats.js";
import { keysOf, realOrNull, wholeOf } from "../reading.js";
import { Fraction } from "./fraction.js";
import { MomentsLayout } from "./layout.js";

/** @typedef {import("../json.js").JsonObject} JsonObject */

const LARGEST_TOTAL = 1n << 59n;
const [DEVIATIONS, SMALLEST, FINE] = [12, 4, 256];

export class MomentsStudy {
  /** @param {JsonObject} data @param {import("../rows/study.js").Around} around @param {import("../schema.js").Schema} schema @param {import("../weight.js").Weight | null} weight */
  constructor(data, around, schema, weight) {
    keysOf(data, ["name", "honest_providers", "ball_norm"], "suite", ["several_releases"]);
    if ("several_releases" in data && data["several_releases"] !== true) throw new StudyError("must be true where it is given", "", "suite.several_releases");
    this.honestProviders = wholeOf(data["honest_providers"], "suite.honest_providers");
    this.ballNorm = realOrNull(data["ball_norm"], "suite.ball_norm");
    this.layout = new MomentsLayout(schema, this.ballNorm, weight);
    // sqrt(2) R^2 bounds what a record moves whatever x_0 is, from here on.
    if (weight !== null && this.layout.radiusSquared.below(new Fraction(2n))) throw new StudyError("a weighted study needs a ball_norm of at least 1.415", "weight", "weight");
    this.#check(around);
  }

  /** @param {import("../rows/study.js").Around} around */
  #check({ right, left, releaseRows, rowNorm, sigma }) {
    if (right < 2 || left) throw new StudyError("a study of the moments suite has two right providers at least, and no left ones", "too_few_providers");
    if (!(1 <= this.honestProviders && this.honestProviders <= right - 1)) {
      throw new StudyError(`must be between 1 and ${right - 1}`, "honest_providers", "suite.honest_providers");
    }
    if (releaseRows < 1) throw new StudyError("must be at least 1", "release_too_small", "release_rows");
    // The norm the noise is calibrated to may not be below what the proof lets pass.
    if (!(rowNorm * rowNorm >= this.layout.radiusSquared.toNumber() * (1 - 1e-12))) {
      throw new StudyError("is below the norm of the rows the proof lets pass", "row_norm", "protection.row_norm");
    }
    const { published } = this.layout;
    published.forEach(({ column, bound }, j) => {
      for (const { column: one, bound: most } of published.slice(j)) {
        const largest = bound * most;
        const noise = entryNoise(sigma, column.width, one.width, this.honestProviders, one === column);
        const total = ((3n * BigInt(releaseRows) * largest) << noise.shift) + BigInt(DEVIATIONS * right) * noise.sigma;
        if (total >= LARGEST_TOTAL) throw new StudyError(`sums of ${column.name} do not fit 2^59`, "moments_overflow");
      }
    });
  }
}

/** One provider's noise on the total of z_j z_l, rounded up. @param {number} sigma @param {bigint} width @param {bigint} other @param {number} honest @param {boolean} diagonal */
function entryNoise(sigma, width, other, honest, diagonal) {
  if (sigma === 0) return { sigma: 0n, shift: 0n };
  const asked = ((sigma * Number(width) * Number(other)) / Math.sqrt(honest * (diagonal ? 1 : 2))) * (1 + 2 ** -48);
  const shift = Math.max(0, Math.ceil(Math.log2(FINE / asked)));
  const found = Math.max(SMALLEST, Math.ceil(ldexp(asked, shift)));
  if (!Number.isFinite(found)) throw new StudyError("sums do not fit 2^59", "moments_overflow");
  return { sigma: BigInt(found), shift: BigInt(shift) };
}
