/** The right providers' check of a report, for the tests alone: docs/theory/verified-moments.md#check. A device must not know a challenge. */
import { concat, utf8 } from "../../client/web/device/bytes.js";
import { Stream } from "../../client/web/device/crypto.js";
import { expandElements, modulo, P, smallInverses } from "../../client/web/device/moments/field.js";
import { unpack } from "./opening.js";

/** @typedef {import("../../client/web/device/moments/layout.js").MomentsLayout} MomentsLayout */
/** @typedef {{ u: bigint[], uRho: bigint, r: bigint, g: bigint[] }} Challenge */

export const FORMS = ["s", "Q", "phi", "eta", "lambda"];

/** @param {Uint8Array} key @param {Uint8Array} studyId @param {number} bucket @param {MomentsLayout} layout @returns {Promise<Challenge>} */
export async function challengeOf(key, studyId, bucket, layout) {
  const size = Uint8Array.of(studyId.length & 255, studyId.length >> 8);
  const stream = await Stream.open(key, concat(utf8("moments challenge"), size, studyId, Uint8Array.of(bucket)));
  /** @param {bigint} least */
  const draw = async (least) => {
    for (;;) {
      const data = await stream.read(8);
      const value = new DataView(data.buffer, data.byteOffset).getBigUint64(0, true) & P;
      if (value !== P && value >= least) return value;
    }
  };
  const u = [];
  for (const _ of layout.proved) u.push(await draw(0n));
  const [uRho, r] = [await draw(1n), await draw(BigInt(2 * layout.bits + 1))];
  const g = [];
  for (let check = 0; check < layout.choices.length + 2 * layout.comparisons.length + Number(layout.ball !== null); check++) g.push(await draw(0n));
  return { u, uRho, r, g };
}

/** @param {bigint} value @param {bigint} exponent */
function power(value, exponent) {
  let found = 1n;
  for (let base = value; exponent; exponent >>= 1n, base = (base * base) % P) if (exponent & 1n) found = (found * base) % P;
  return found;
}

/** L_0(x)..L_d(x). @param {number} degree @param {bigint} x */
function basisAt(degree, x) {
  const inverses = smallInverses(degree);
  const factorial = [1n];
  for (let k = 1; k <= degree; k++) factorial.push((factorial[k - 1] * inverses[k]) % P);
  let product = 1n;
  for (let k = 0; k <= degree; k++) product = (product * modulo(x - BigInt(k))) % P;
  return factorial.map((one, k) => {
    const weight = (one * factorial[degree - k]) % P;
    const value = (((product * weight) % P) * power(modulo(x - BigInt(k)), P - 2n)) % P;
    return (degree - k) % 2 ? modulo(-value) : value;
  });
}

/** @param {MomentsLayout} layout @param {Challenge} challenge */
export function formsOf(layout, { u, uRho, r, g }) {
  const [m, q] = [layout.bits, layout.proved.length];
  /** @param {number} j @param {number} l */
  const product = (j, l) => m + Math.min(j, l) * q - (Math.min(j, l) * (Math.min(j, l) - 1)) / 2 + Math.abs(j - l);
  const rho = m + (q * (q + 1)) / 2;
  const fZero = rho + q + 2;
  const rows = FORMS.map(() => /** @type {bigint[]} */ (new Array(layout.elements).fill(0n)));
  const [s, quadratic, phi, eta, linear] = /** @type {[bigint[], bigint[], bigint[], bigint[], bigint[]]} */ (rows);
  let [sConstant, linearConstant] = [0n, 0n];
  /** @param {bigint[]} form @param {number} place @param {bigint} value */
  const add = (form, place, value) => (form[place] = modulo(form[place] + value));
  layout.proved.forEach((column, j) => {
    const weight = u[j];
    sConstant -= weight * column.offset;
    const each = column.kind === "bounded" || column.kind === "log" ? 2n : 1n;
    if (column.factors) add(s, product(...column.factors), weight);
    else column.weights.forEach((bit, i) => add(s, column.firstBit + i, weight * each * bit));
    for (let l = j; l < q; l++) add(quadratic, product(j, l), (l === j ? 1n : 2n) * weight * u[l]);
    add(quadratic, rho + 1 + j, 2n * uRho * weight);
  });
  s[rho] = uRho;
  quadratic[rho + q + 1] = modulo(uRho * uRho);
  const [zero, ...others] = basisAt(m, r);
  phi[fZero] = /** @type {bigint} */ (zero);
  others.forEach((value, place) => (phi[place] = value));
  const atR = basisAt(2 * m, r);
  [atR[0], ...atR.slice(m + 1)].forEach((value, place) => (eta[fZero + 1 + place] = /** @type {bigint} */ (value)));
  layout.choices.forEach((bits, check) => {
    linearConstant -= g[check];
    bits.forEach((bit) => add(linear, bit, g[check]));
  });
  layout.comparisons.forEach(({ number, bits, first, last, above, below, weights }, place) => {
    const column = layout.columns[number];
    [{ sign: 1n, ends: first, start: above }, { sign: -1n, ends: last, start: below }].forEach(({ sign, ends, start }, side) => {
      const weight = g[layout.choices.length + 2 * place + side];
      column.weights.forEach((bit, i) => add(linear, column.firstBit + i, weight * sign * bit));
      bits.forEach((bit, k) => add(linear, bit, -weight * sign * ends[k]));
      weights.forEach((bit, i) => add(linear, start + i, -weight * bit));
    });
  });
  const { ball } = layout;
  if (ball) {
    const weight = g[g.length - 1];
    linearConstant -= weight * ball.capacity;
    ball.coefficients.forEach((c, j) => add(linear, product(j, j), weight * c));
    ball.weights.forEach((bit, i) => add(linear, layout.ballBit + i, weight * bit));
  }
  const constants = [sConstant, 0n, 0n, 0n, linearConstant];
  return {
    /** @param {bigint[]} share @param {boolean} first R_1 adds the constants */
    apply: (share, first) =>
      rows.map((form, place) =>
        modulo(form.reduce((total, c, at) => total + c * share[at], first ? constants[place] : 0n)),
      ),
  };
}

/** @param {bigint[]} sums */
export function verdict(sums) {
  const [s, quadratic, phi, eta, linear] = /** @type {[bigint, bigint, bigint, bigint, bigint]} */ (sums);
  if (modulo(quadratic - s * s)) return "bad_products";
  if (modulo(eta - phi * phi + phi)) return "bad_bits";
  return modulo(linear) ? "bad_linear" : null;
}

/** @param {Uint8Array} payload @param {number} provider @param {number} providers @param {number} count */
export async function readShare(payload, provider, providers, count) {
  const [kind, body] = [payload[0], payload.slice(1)];
  if (provider < providers) {
    if (kind !== 1 || body.length !== 32) throw new Error("a share must be a seed");
    return expandElements(body, count);
  }
  if (kind !== 2 || body.length !== 8 * count) throw new Error("a share must be a vector");
  return unpack(body);
}
