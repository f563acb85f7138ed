/** How far apart two answers of a person are in X B_0, for whoever has not B_0: `trimask_core.rows.noise_columns`. */

/** log Gamma, x > 0: Stirling's series from 16 on. @param {number} x */
export function logGamma(x) {
  let shift = 0;
  let at = x;
  for (; at < 16; at += 1) shift += Math.log(at);
  const square = 1 / (at * at);
  const series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / at;
  return (at - 0.5) * Math.log(at) - at + 0.5 * Math.log(2 * Math.PI) + series - shift;
}

/**
 * mu, but for probability `failure`, shared by five events. Proved: docs/theory/collection.md#claim.
 * @param {number} rows @param {number} attributes @param {number} noiseColumns those the check of a row leaves
 * @param {number} rowNorm @param {number} sigma @param {number} tau @param {number} failure
 */
export function noiseColumnsMu(rows, attributes, noiseColumns, rowNorm, sigma, tau, failure) {
  const free = noiseColumns - rows + 1;
  if (free < 3 || !(tau > 0)) return Infinity;
  const share = failure / 5;
  const t = Math.sqrt(2 * Math.log(1 / share));
  const others = rowNorm * Math.sqrt(rows) + (sigma ? sigma * (Math.sqrt(rows) + Math.sqrt(attributes) + t) : 0);
  const longer = rowNorm * rowNorm + (sigma ? 4 * rowNorm * sigma * t : 0);
  const first = (2 * rowNorm * others) / (tau * tau * Math.sqrt(leastChiSquare(free + 1, share)));
  const shift = longer / (tau * tau) + first * first + 2 * first * t;
  const least = leastSmooth(free, share);
  return least > 0 ? Math.hypot(first, (shift * Math.sqrt(0.5 * free - 1)) / least) * (1 + 1e-9) : Infinity;
}

/** Below it a chi-square is with probability at most `failure`, by Chernoff. @param {number} degrees @param {number} failure */
function leastChiSquare(degrees, failure) {
  const wanted = (2 * Math.log(1 / failure)) / degrees;
  const low = bisect(0, 1, (middle) => middle - 1 - Math.log(middle) < wanted);
  return (low || Math.exp(-1 - wanted)) * degrees;
}

/** r below which the density may be replaced by one that bends no more than at r. @param {number} degrees @param {number} failure */
function leastSmooth(degrees, failure) {
  const half = 0.5 * degrees;
  const constant = half * Math.LN2 + logGamma(half);
  return bisect(0, degrees - 2, (r) => {
    const slope = (half - 1) / r - 0.5;
    return (half - 1) * Math.log(r) - 0.5 * r - constant - Math.log(slope) > Math.log(failure);
  });
}

/** @param {number} low @param {number} high @param {(middle: number) => boolean} tooHigh */
function bisect(low, high, tooHigh) {
  for (let k = 0; k < 60; k++) {
    const middle = 0.5 * (low + high);
    if (tooHigh(middle)) high = middle;
    else low = middle;
  }
  return low;
}
