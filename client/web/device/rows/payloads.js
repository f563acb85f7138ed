/** The payloads of the rows suite: what each right provider finds when it opens its sealed part of a submission. */
import { concat } from "../bytes.js";
import { maskRow, noisyAnswers, splitRow } from "./row.js";
import { drawKeys, expandKey, tagComponent, writeElements } from "./tags.js";

/** @typedef {import("../bytes.js").Bytes} Bytes */
/** @typedef {import("../crypto.js").RandomSource} RandomSource */
/** @typedef {import("../study.js").Study} Study */

const [SEED, VECTOR] = [Uint8Array.of(1), Uint8Array.of(2)];

/** @param {number[]} values @returns {Bytes} little-endian, 8 bytes each */
export function packSigned(values) {
  const view = new DataView(new ArrayBuffer(8 * values.length));
  values.forEach((value, place) => view.setBigInt64(8 * place, BigInt(value), true));
  return new Uint8Array(view.buffer);
}

/**
 * One payload a right provider. @param {Study} study of the rows suite @param {import("../schema.js").Answers} answers
 * @param {RandomSource} source @returns {Promise<Bytes[]>}
 */
export async function rowPayloads(study, answers, source) {
  const settings = await study.rowSettings();
  const x1 = noisyAnswers(settings, study.schema.encode(answers), source, study.rootOf(answers));
  const row = await maskRow(settings, x1, source);
  const { seeds, components } = await splitRow(row, settings.right, settings.shareSteps, source);
  const holders = study.rows.tagHolders;
  const drawn = drawKeys(holders, source);
  const made = [...seeds.map((seed) => concat(SEED, seed)), concat(VECTOR, packSigned(components[components.length - 1] ?? []))];
  await Promise.all(
    drawn.map(async ({ spare, keys }, k) => {
      const expanded = await Promise.all(keys.map((seed) => expandKey(seed, row.length)));
      const tagged = await tagComponent(components[k] ?? [], spare, expanded);
      made[k] = concat(made[k] ?? SEED, ...tagged.tags.map(writeElements), spare, ...tagged.spareTags.map(writeElements));
    }),
  );
  // Keys of others' components follow, in the order of those.
  holders.forEach((held, k) =>
    held.forEach((holder, place) => {
      made[holder - 1] = concat(made[holder - 1] ?? SEED, drawn[k]?.keys[place] ?? SEED);
    }),
  );
  return made;
}
