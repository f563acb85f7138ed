/** Every file of tests/vectors, recomputed by the device library. Run by node (vectors.test.js) and by Chromium (test_web_device.py). */
import { concat, fromHex, toHex, utf8 } from "../../client/web/device/bytes.js";
import { Stream } from "../../client/web/device/crypto.js";
import { hpkeOpen, hpkeSeal, keySchedule } from "../../client/web/device/hpke.js";
import { canonicalJson, readJson } from "../../client/web/device/json.js";
import { expandElements, P, unpack } from "../../client/web/device/moments/field.js";
import { MomentsLayout } from "../../client/web/device/moments/layout.js";
import { buildReport, splitReport } from "../../client/web/device/moments/report.js";
import { normalsFromWords } from "../../client/web/device/normals.js";
import { RowFrame } from "../../client/web/device/rows/frame.js";
import { expandComponent, maskRow, noisyAnswers, splitRow } from "../../client/web/device/rows/row.js";
import { expandKey, expandSpare, tagComponent } from "../../client/web/device/rows/tags.js";
import { Schema } from "../../client/web/device/schema.js";
import { Study } from "../../client/web/device/study.js";
import { challengeOf, FORMS, formsOf, readShare, verdict } from "./moments_check.js";
import { deterministic, fromHexFloat, recorded, refused, same } from "./support.js";

/** @typedef {(name: string) => Promise<string>} Read the text of a file of tests/vectors */

/** @param {string[]} words hexadecimal, of 64 bits */
function packWords(words) {
  const view = new DataView(new ArrayBuffer(8 * words.length));
  words.forEach((word, place) => view.setBigUint64(8 * place, BigInt(word.startsWith("0x") ? word : `0x${word}`), true));
  return new Uint8Array(view.buffer);
}

/** @param {any} schema as JSON.parse reads it @param {string} text the document it is in */
function schemaOf(schema, text) {
  // Through the library's own reader, which tells 1 from 1.0.
  const found = find(readJson(text), JSON.stringify(schema));
  return new Schema(found);
}

/** @param {any} tree @param {string} wanted @returns {any} */
function find(tree, wanted) {
  if (tree === null || typeof tree !== "object") return undefined;
  if (plainText(tree) === wanted) return tree;
  for (const item of Object.values(tree)) {
    const found = find(item, wanted);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** @param {any} tree */
const plainText = (tree) => JSON.stringify(tree, (_, value) => (typeof value === "bigint" ? Number(value) : value));

/** @type {Record<string, (read: Read) => Promise<number>>} each gives how many cases it looked at */
export const CHECKS = {
  async "core-stream.json"(read) {
    const { cases } = JSON.parse(await read("core-stream.json"));
    for (const { seed, label, bytes } of cases) {
      const stream = await Stream.open(fromHex(seed), label);
      const size = bytes.length / 2;
      const parts = [await stream.read(5), await stream.read(size - 5)];
      same(toHex(concat(...parts)), bytes, label);
    }
    return cases.length;
  },

  async "core-normal.json"(read) {
    const { words, normals } = JSON.parse(await read("core-normal.json"));
    same(Array.from(normalsFromWords(packWords(words)), (value) => value + 0), normals.map(fromHexFloat));
    return normals.length;
  },

  async "device-normal.json"(read) {
    const { cases } = JSON.parse(await read("device-normal.json"));
    for (const { name, words, normals } of cases) same(normalsFromWords(packWords(words)), normals.map(fromHexFloat), name);
    return cases.length;
  },

  async "core-component.json"(read) {
    const { cases } = JSON.parse(await read("core-component.json"));
    for (const { seed, columns, scale_steps, component } of cases) {
      same(await expandComponent(fromHex(seed), columns, fromHexFloat(scale_steps)), component, seed);
    }
    return cases.length;
  },

  async "core-sealing.json"(read) {
    const { secret, info, plaintext, sealed } = JSON.parse(await read("core-sealing.json"));
    same(await hpkeOpen(fromHex(secret), fromHex(sealed), fromHex(info)), utf8(plaintext));
    return 1;
  },

  async "device-hpke.json"(read) {
    const good = JSON.parse(await read("device-hpke.json"));
    const sealed = await hpkeSeal(fromHex(good.pkRm), fromHex(good.pt), fromHex(good.info), fromHex(good.skEm), fromHex(good.aad));
    same(toHex(sealed), good.enc + good.ct, "sealed");
    const { key, nonce } = await keySchedule(fromHex(good.shared_secret), fromHex(good.info));
    same([toHex(key), toHex(nonce)], [good.key, good.base_nonce], "key schedule");
    same(await hpkeOpen(fromHex(good.skRm), sealed, fromHex(good.info), fromHex(good.aad)), fromHex(good.pt), "opened");
    for (const bad of good.bad) {
      const all = { ...good, ...bad };
      await refused(() => hpkeOpen(fromHex(all.skRm), fromHex(all.enc + all.ct), fromHex(all.info), fromHex(all.aad)), bad.why);
    }
    return 1 + good.bad.length;
  },

  async "core-study.json"(read) {
    const { id, canonical } = JSON.parse(await read("core-study.json"));
    const data = readJson(canonical);
    same(new TextDecoder().decode(canonicalJson(data)), canonical, "canonical");
    same(toHex((await Study.read(/** @type {any} */ (data))).id), id, "id");
    return 1;
  },

  async "core-tags.json"(read) {
    const { cases } = JSON.parse(await read("core-tags.json"));
    /** @param {bigint[][]} tags */
    const hex = (tags) => tags.map((held) => held.map((tag) => tag.toString(16).padStart(32, "0")));
    for (const one of cases) {
      const keys = await Promise.all(one.keys.map((/** @type {string} */ seed) => expandKey(fromHex(seed), one.columns)));
      const component = await expandComponent(fromHex(one.component_seed), one.columns, fromHexFloat(one.share_steps));
      const tagged = await tagComponent(component, fromHex(one.spare), keys);
      same(keys.map((key) => key.vectors.map((/** @type {bigint[]} */ vector) => vector.slice(0, 3).map(Number))), one.first_entries, one.name);
      same((await expandSpare(fromHex(one.spare), 1))[0]?.toString(16).padStart(32, "0"), one.first_of_spare, one.name);
      same([hex(tagged.tags), hex(tagged.spareTags)], [one.tags, one.spare_tags], one.name);
    }
    return cases.length;
  },

  async "device-row.json"(read) {
    const { good } = JSON.parse(await read("device-row.json"));
    for (const one of good) {
      const settings = {
        rowNorm: fromHexFloat(one.row_norm),
        schemaRowNorm: fromHexFloat(one.schema_row_norm),
        sigma: one.sigma_steps * 2 ** one.grid_exponent,
        tau: fromHexFloat(one.tau),
        gridExponent: one.grid_exponent,
        columns: one.columns,
        right: one.right,
        shareSteps: fromHexFloat(one.share_steps),
        frame: await RowFrame.expand(fromHex(one.mask_seed), one.attributes, one.columns),
      };
      const source = await deterministic(one.label);
      const x1 = noisyAnswers(settings, one.row.map(fromHexFloat), source);
      same(x1, one.x1, `${one.name}: x1`);
      const row = await maskRow(settings, x1, source);
      same(row, one.masked, `${one.name}: masked`);
      const { seeds, components } = await splitRow(row, one.right, settings.shareSteps, source);
      same([seeds.map(toHex), components[one.right - 1]], [one.seeds, one.vector], `${one.name}: split`);
    }
    return good.length;
  },

  async "moments-reports.json"(read) {
    const text = await read("moments-reports.json");
    const { p, study_id, expansion, cases } = JSON.parse(text);
    same(String(P), p);
    same((await expandElements(fromHex(expansion.seed), 8)).map(String), expansion.elements, "expansion");
    for (const one of cases) {
      const layout = new MomentsLayout(schemaOf(one.schema, text), one.row_norm);
      same([layout.bits, layout.elements, layout.choices], [one.layout.bits, one.layout.elements, one.layout.choices], one.name);
      same(
        layout.columns.map((column) => [column.name, column.kind, Number(column.offset), Number(column.width), Number(column.largest), column.firstBit, column.weights.map(Number), column.factors]),
        one.layout.columns.map((/** @type {any} */ c) => [c.name, c.kind, c.offset, c.width, c.largest, c.first_bit, c.weights, c.factors]),
        one.name,
      );
      const encoded = layout.encode(one.answers);
      same([encoded.bits.join(""), encoded.z.map(Number), encoded.clipped], [one.bits, one.z, one.clipped], one.name);
      const source = recorded(fromHex(one.randomness.join("")));
      const elements = buildReport(layout, one.answers, source);
      same(elements.map(String), one.elements, `${one.name}: elements`);
      const payloads = await splitReport(elements, one.payloads.length, source);
      same(payloads.map(toHex), one.payloads, `${one.name}: payloads`);
      const challenge = await challengeOf(fromHex(one.challenge_key), fromHex(study_id), one.bucket, layout);
      same([challenge.u.map(String), String(challenge.r)], [one.challenge.u, one.challenge.r], `${one.name}: challenge`);
      const forms = formsOf(layout, challenge);
      const shares = await Promise.all(payloads.map((payload, place) => readShare(payload, place + 1, payloads.length, layout.elements)));
      const said = shares.map((share, place) => forms.apply(share, place === 0));
      same(said.map((values) => values.map(String)), one.opened_by, `${one.name}: opened`);
      const sums = FORMS.map((_, form) => said.reduce((total, values) => (total + /** @type {bigint} */ (values[form])) % P, 0n));
      same([sums.map(String), verdict(sums)], [FORMS.map((form) => one.opened[form]), one.verdict], `${one.name}: verdict`);
    }
    return cases.length;
  },

  async "moments-refused.json"(read) {
    const text = await read("moments-refused.json");
    const all = JSON.parse(text);
    const layout = new MomentsLayout(schemaOf(all.schema, text), all.row_norm);
    const { u, u_rho, r, g } = all.challenge;
    const forms = formsOf(layout, { u: u.map(BigInt), uRho: BigInt(u_rho), r: BigInt(r), g: g.map(BigInt) });
    const honest = all.honest.map(BigInt);
    same(verdict(forms.apply(honest, true)), all.honest_verdict, "honest");
    for (const { place, value, verdict: wanted } of all.altered) {
      const altered = honest.with(place, BigInt(value));
      same(verdict(forms.apply(altered, true)), wanted, `altered at ${place}`);
    }
    for (const { elements, verdict: wanted } of all.roots) same(verdict(forms.apply(elements.map(BigInt), true)), wanted, "roots");
    const payloads = Object.entries(all.payloads_for_the_last_of_two);
    for (const [why, payload] of payloads) {
      await refused(() => readShare(fromHex(String(payload)), 2, 2, layout.elements), why);
    }
    await refused(() => unpack(fromHex("ff".repeat(8))), "an element of 64 ones");
    return 1 + all.altered.length + all.roots.length + payloads.length;
  },
};
