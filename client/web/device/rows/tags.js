/**
 * Tags: by what the first left provider knows a component that its right provider has altered. For each component x a secret
 * key: two vectors z of rounded Gaussians and offsets beta; the tags are <x, z> + beta modulo 2^127 - 1. `trimask_core.rows.payloads`.
 */
import { concat, littleEndian, readLittleEndian } from "../bytes.js";
import { Stream } from "../crypto.js";
import { roundHalfEven } from "../floats.js";
import { Normals } from "../normals.js";

/** @typedef {import("../crypto.js").RandomSource} RandomSource */
/** @typedef {import("../bytes.js").Bytes} Bytes */
/** @typedef {{ vectors: bigint[][], offsets: bigint[], spareOffsets: bigint[] }} TagKey */
/** @typedef {{ tags: bigint[][], spare: Bytes, spareTags: bigint[][] }} Tagged */

export const TAGS = 2;
export const PRIME = (1n << 127n) - 1n;
const ELEMENT_BYTES = 16;
const KEY_SCALE = 2 ** 40;

/** Which right providers hold a key of each component (1..K1); empty where a study has no tags. @param {string[]} unmasking */
export function keyHolders(unmasking) {
  const right = unmasking.map((_, place) => place + 1);
  /** @param {string} role */
  const provider = (role) => right.find((k) => role === `R${k}`);
  if (unmasking.some((role, place) => provider(role) === place + 1)) return [];
  return unmasking.map((role, place) => {
    const own = provider(role);
    return own === undefined ? right.filter((k) => k !== place + 1).slice(0, 2) : [own];
  });
}

/** For each component a fresh seed of its spare vector, and of a key for each holder. @param {number[][]} holders @param {RandomSource} source */
export const drawKeys = (holders, source) =>
  holders.map((held) => ({ spare: source.read(32), keys: held.map(() => source.read(32)) }));

/** @param {Uint8Array} data */
function elements(data) {
  const found = [];
  for (let at = 0; at < data.length; at += ELEMENT_BYTES) found.push(readLittleEndian(data.subarray(at, at + ELEMENT_BYTES)) & PRIME);
  return found;
}

/** The key a seed stands for. @param {Uint8Array} seed @param {number} columns @returns {Promise<TagKey>} */
export async function expandKey(seed, columns) {
  const [normals, offsets] = await Promise.all([
    Normals.open(seed, "tag key").then((stream) => stream.next(TAGS * columns)),
    Stream.open(seed, "tag offsets").then((stream) => stream.read(2 * TAGS * ELEMENT_BYTES)),
  ]);
  const values = Array.from(normals, (normal) => BigInt(roundHalfEven(normal * KEY_SCALE)));
  const drawn = elements(offsets);
  return {
    vectors: Array.from({ length: TAGS }, (_, t) => values.slice(t * columns, (t + 1) * columns)),
    offsets: drawn.slice(0, TAGS),
    spareOffsets: drawn.slice(TAGS),
  };
}

/** The spare vector a seed stands for. @param {Uint8Array} seed @param {number} columns */
export const expandSpare = async (seed, columns) =>
  elements(await (await Stream.open(seed, "spare vector")).read(ELEMENT_BYTES * columns));

/** <x, z> + beta modulo the prime. @param {bigint[]} vector @param {TagKey} key @param {bigint[]} offsets */
function tagsOf(vector, key, offsets) {
  return key.vectors.map((z, t) => {
    let total = offsets[t];
    for (let i = 0; i < vector.length; i++) total += vector[i] * z[i];
    return ((total % PRIME) + PRIME) % PRIME;
  });
}

/** A component's tags, and its spare vector's, under every key. @param {number[]} component @param {Bytes} spare @param {TagKey[]} keys @returns {Promise<Tagged>} */
export async function tagComponent(component, spare, keys) {
  const [values, vector] = [component.map(BigInt), await expandSpare(spare, component.length)];
  return {
    tags: keys.map((key) => tagsOf(values, key, key.offsets)),
    spare,
    spareTags: keys.map((key) => tagsOf(vector, key, key.spareOffsets)),
  };
}

/** Field elements, little-endian and 16 bytes each. @param {bigint[]} values */
export const writeElements = (values) => concat(...values.map((value) => littleEndian(value, ELEMENT_BYTES)));
