/** A device's report: bits, products and the proof that they belong together, and its shares: `trimask_core.moments.report`. */
import { concat } from "../bytes.js";
import { draw, expandElements, modulo, P, pack, smallInverses } from "./field.js";

/** @typedef {import("../crypto.js").RandomSource} RandomSource */

const [SEED, VECTOR] = [Uint8Array.of(1), Uint8Array.of(2)];

/**
 * The elements of a report: rho is drawn first, then f(0). Both are fresh and uniform for every report; neither may be used twice.
 * @param {import("./layout.js").MomentsLayout} layout @param {import("../schema.js").Answers} answers @param {RandomSource} source
 */
export function buildReport(layout, answers, source) {
  const { bits, proved } = layout.encode(answers);
  const [rho, fZero] = [draw(source), draw(source)];
  const products = proved.flatMap((value, j) => proved.slice(j).map((other) => modulo(value * other)));
  const further = extend([fZero, ...bits]); // f at m+1..2m
  const h = [fZero, ...further].map((value) => modulo(value * value - value));
  return [...bits, ...products, rho, ...proved.map((value) => modulo(rho * value)), modulo(rho * rho), fZero, ...h];
}

/**
 * From a polynomial's values at 0..d, its degree being at most d, those at d+1..2d: Lagrange over consecutive nodes.
 * @param {bigint[]} values
 */
export function extend(values) {
  const degree = values.length - 1;
  if (degree < 1) return [];
  const inverses = smallInverses(2 * degree);
  const factorial = [1n];
  for (let k = 1; k <= degree; k++) factorial.push((factorial[k - 1] * inverses[k]) % P);
  const weighted = values.map((value, k) => {
    const weight = (factorial[k] * factorial[degree - k]) % P;
    return ((degree - k) % 2 ? P - (value * weight) % P : value * weight) % P;
  });
  let product = 1n; // prod_i (x - i) over the nodes, first at x = d + 1
  for (let difference = 2; difference <= degree + 1; difference++) product = (product * BigInt(difference)) % P;
  const further = [];
  for (let x = degree + 1; x <= 2 * degree; x++) {
    let total = 0n;
    for (let k = 0; k <= degree; k++) total += weighted[k] * inverses[x - k];
    further.push((product * (total % P)) % P);
    product = (((product * BigInt(x + 1)) % P) * inverses[x - degree]) % P;
  }
  return further;
}

/**
 * What is sealed to R_1..R_K1: a fresh seed for all but the last, and for the last the vector that makes up the difference.
 * @param {bigint[]} elements @param {number} providers @param {RandomSource} source @returns {Promise<import("../bytes.js").Bytes[]>}
 */
export async function splitReport(elements, providers, source) {
  if (providers < 2) throw new RangeError("one provider alone would hold the answers");
  const seeds = Array.from({ length: providers - 1 }, () => source.read(32));
  const shares = await Promise.all(seeds.map((seed) => expandElements(seed, elements.length)));
  const vector = elements.map((element, place) =>
    modulo(shares.reduce((left, share) => left - share[place], element)),
  );
  return [...seeds.map((seed) => concat(SEED, seed)), concat(VECTOR, pack(vector))];
}
