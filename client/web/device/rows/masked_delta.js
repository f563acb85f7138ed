/**
 * delta of a masked release at the pair of rows that is proved to be the worst: `trimask_core.study.signed`, where the
 * statement and the proof are cited. Basis: numerical, by Simpson's rule, raised by `MARGIN`, which is more than it can err.
 */

export const MARGIN = 5e-4;
const PANEL = 0.05; // in standard deviations, which are at most 1 on this axis
const REACH = 9; // how far from the modes anything weighs
const TINY = 1e-12; // stands for 0 under a logarithm
const FURTHEST = 80; // R/sigma beyond which there is no noise to speak of

/**
 * delta at `epsilon` of noise `sigma`; 1 where the noise is too small for the grid.
 * @param {number} epsilon @param {number} sigma @param {number} rows @param {number} attributes @param {number} rowNorm
 */
export function maskedDelta(epsilon, sigma, rows, attributes, rowNorm) {
  const m = rows - attributes;
  const a = sigma > 0 ? rowNorm / sigma : Infinity;
  if (m < 1 || attributes < 2 || !(a <= FURTHEST)) return 1;
  const low = Math.max(0, Math.sqrt(m - 1) - REACH);
  const high = Math.sqrt(m - 1 + a * a) + REACH;
  const panels = Math.ceil((high - low) / PANEL);
  const width = (0.5 * (high - low)) / panels;
  const r = Float64Array.from({ length: 2 * panels + 1 }, (_, k) => Math.max(low + width * k, TINY));
  const slope = r.map((x) => a * ratio(0.5 * m - 1, a * x));
  const g = cumulated(slope, width);
  const logCentral = r.map((x) => (m - 1) * Math.log(x) - 0.5 * x * x);
  const central = normalised(logCentral, width);
  // The noncentral density is the central one times e^g, but for a factor.
  const shifted = normalised(logCentral.map((f, k) => f + g[k]), width);
  const below = cumulated(central, width);
  const lost = inner(g, slope, below, width);
  return Math.min(1, (1 + MARGIN) * width * outer(epsilon, g, shifted, below, lost));
}

/** I_(order + 1)(z) / I_order(z), rounded up. @param {number} order @param {number} z */
function ratio(order, z) {
  const steps = order < 50 ? 16 : 8;
  const top = order + steps;
  let found = z / (top + 0.5 + Math.hypot(z, top + 0.5));
  for (let k = 0; k < steps; k++) found = 1 / (((top - k) * 2) / z + found);
  return found;
}

/** The integral from the first point to each, by parabolas through three points. @param {Float64Array} values @param {number} width */
function cumulated(values, width) {
  const total = new Float64Array(values.length);
  for (let k = 0; k < values.length - 2; k += 2) {
    const [left, middle, right] = [values[k], values[k + 1], values[k + 2]];
    total[k + 1] = total[k] + (width * (5 * left + 8 * middle - right)) / 12;
    total[k + 2] = total[k + 1] + (width * (5 * right + 8 * middle - left)) / 12;
  }
  return total;
}

/** A density from the logarithm of something in proportion to it. @param {Float64Array} logs @param {number} width */
function normalised(logs, width) {
  const top = logs.reduce((most, value) => Math.max(most, value), -Infinity);
  const values = logs.map((x) => Math.exp(x - top));
  const whole = cumulated(values, width)[values.length - 1];
  return values.map((value) => value / whole);
}

/** H at every point: what is lost to a v below it. @param {Float64Array} g @param {Float64Array} slope @param {Float64Array} below @param {number} width */
function inner(g, slope, below, width) {
  const found = new Float64Array(g.length);
  for (let k = 0; k < g.length - 2; k += 2) {
    const [f0, f1, f2] = [k, k + 1, k + 2].map((j) => Math.max(below[j], 0) * slope[j]);
    const first = Math.exp(g[k] - g[k + 1]);
    const second = Math.exp(g[k + 1] - g[k + 2]);
    const half = (width * (5 * Number(f0) * first + 8 * Number(f1) - Number(f2) / second)) / 12;
    found[k + 1] = found[k] * first + Math.max(half, 0);
    const whole = (width * (Number(f0) * first * second + 4 * Number(f1) * second + Number(f2))) / 3;
    found[k + 2] = found[k] * first * second + whole;
  }
  return found;
}

/**
 * The sum over u of its density times H at g(u) - epsilon, where dH/dg = F - H.
 * @param {number} epsilon @param {Float64Array} g @param {Float64Array} density @param {Float64Array} below @param {Float64Array} lost
 */
function outer(epsilon, g, density, below, lost) {
  let total = 0;
  let k = 0;
  for (let u = 0; u < g.length; u++) {
    const target = g[u] - epsilon;
    if (target <= g[0]) continue;
    while (g[k + 1] < target) k += 1;
    const span = g[k + 1] - g[k];
    const t = (target - g[k]) / span;
    const left = span * (below[k] - lost[k]);
    const right = span * (below[k + 1] - lost[k + 1]);
    const rise = lost[k + 1] - lost[k];
    // The cubic with these values and slopes.
    const height = lost[k] + t * (left + t * (3 * rise - 2 * left - right + t * (left + right - 2 * rise)));
    total += density[u] * Math.max(height, 0);
  }
  return total;
}
