/** Every file of tests/vectors, recomputed by the device library. Run by node (vectors.test.js) and by Chromium (test_web_device.py). */
import { concat, fromHex, toHex, utf8 } from "../../client/web/device/bytes.js";
import { newestKey, submitRequest } from "../../client/web/device/calls.js";
import { Stream } from "../../client/web/device/crypto.js";
import { ApprovalError, InvitationError, StudyError } from "../../client/web/device/errors.js";
import { hpkeSeal, hybridEncapsulate, keySchedule } from "../../client/web/device/hpke.js";
import { parseDirectory } from "../../client/web/device/institutions.js";
import { Invitation, Link } from "../../client/web/device/invitation.js";
import { canonicalJson, plain, readJson } from "../../client/web/device/json.js";
import { encapsulate } from "../../client/web/device/mlkem.js";
import { expandElements, P } from "../../client/web/device/moments/field.js";
import { MomentsLayout } from "../../client/web/device/moments/layout.js";
import { buildReport, splitReport } from "../../client/web/device/moments/report.js";
import { normalsFromWords } from "../../client/web/device/normals.js";
import { Receipt, verifyWithdrawal } from "../../client/web/device/receipt.js";
import { expandComponent, maskRow, noisyAnswers, RowFrame, shortenRow, splitRow } from "../../client/web/device/rows/row.js";
import { expandKey, expandSpare, tagComponent } from "../../client/web/device/rows/tags.js";
import { Schema } from "../../client/web/device/schema.js";
import { parseStudy } from "../../client/web/device/signed_study.js";
import { Study } from "../../client/web/device/study.js";
import { Weight } from "../../client/web/device/weight.js";
import { buildSubmission, componentInfo, sealingKeyId, submissionIdOf } from "../../client/web/device/submission.js";
import { decodeMessage, encodeMessage } from "../../client/web/device/wire.js";
import { challengeOf, FORMS, formsOf, readShare, verdict } from "./moments_check.js";
import { hpkeOpen, unpack } from "./opening.js";
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

  async "device-hybrid.json"(read) {
    const { encapsulate: kem, bad_keys: bad, draft, own } = JSON.parse(await read("device-hybrid.json"));
    for (const one of kem) {
      const { secret, ciphertext } = encapsulate(fromHex(one.ek), fromHex(one.m));
      same([toHex(secret), toHex(ciphertext)], [one.k, one.c], one.from);
    }
    for (const { ek, why } of bad) await refused(async () => encapsulate(fromHex(ek), new Uint8Array(32)), why);
    const { shared, enc } = await hybridEncapsulate(fromHex(draft.pkRm), fromHex(draft.random));
    same([toHex(shared), toHex(enc)], [draft.shared_secret, draft.enc], "encapsulated");
    const { key, nonce } = await keySchedule(shared, fromHex(draft.info), fromHex(draft.suite_id), 32);
    same([toHex(key), toHex(nonce)], [draft.key, draft.base_nonce], "key schedule");
    const sealed = await hpkeSeal(fromHex(own.public), utf8(own.plaintext), fromHex(own.info), fromHex(own.random));
    same(toHex(sealed), own.sealed, "sealed");
    return kem.length + bad.length + 2;
  },

  async "core-study.json"(read) {
    const { id, canonical } = JSON.parse(await read("core-study.json"));
    const data = readJson(canonical);
    same(new TextDecoder().decode(canonicalJson(data)), canonical, "canonical");
    same(toHex((await Study.read(/** @type {any} */ (data))).id), id, "id");
    return 1;
  },

  async "schema-rows.json"(read) {
    const all = /** @type {any} */ (readJson(await read("schema-rows.json")));
    const { cases, attributes, refused: bad } = all;
    for (const one of cases) {
      const schema = new Schema(one.schema);
      same(
        schema.columns.map((column) => [column.name, column.center, column.halfRange, column.source, column.level, column.within, column.middle]),
        one.columns.map((/** @type {any} */ c) => [c.name, fromHexFloat(c.center), fromHexFloat(c.half_range), c.source, c.level, c.within, fromHexFloat(c.middle)]),
        one.name,
      );
      same([schema.rowNorm, Object.fromEntries(schema.groups)], [fromHexFloat(one.row_norm), one.groups], one.name);
      for (const { answers, row, shortened } of one.rows) {
        const encoded = schema.encode(plain(answers));
        same(encoded, row.map(fromHexFloat), `${one.name} ${plainText(answers)}`);
        same(shortenRow(encoded, fromHexFloat(all.shortened_to)), shortened.map(fromHexFloat), `${one.name} ${plainText(answers)}, shortened`);
      }
    }
    for (const { derived, reason } of bad) {
      const error = await refused(() => new Schema({ attributes, derived, ones: true }), `${plainText(derived)}: ${reason}`);
      if (!(error instanceof StudyError)) throw error;
    }
    return cases.length + bad.length;
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
      const schema = schemaOf(one.schema, text);
      const layout = new MomentsLayout(schema, one.row_norm, one.weight && new Weight(find(readJson(text), JSON.stringify(one.weight)), schema));
      same([layout.bits, layout.elements, layout.choices], [one.layout.bits, one.layout.elements, one.layout.choices], one.name);
      same(
        [...layout.columns, ...(layout.root ? [layout.root] : [])].map((column) => [column.name, column.kind, Number(column.offset), Number(column.width), Number(column.largest), column.firstBit, column.weights.map(Number), column.factors]),
        [...one.layout.columns, ...(one.layout.root ? [one.layout.root] : [])].map((/** @type {any} */ c) => [c.name, c.kind, c.offset, c.width, c.largest, c.first_bit, c.weights, c.factors]),
        one.name,
      );
      const encoded = layout.encode(one.answers);
      same([encoded.bits.join(""), encoded.z.map(Number), encoded.clipped, Number(encoded.root)], [one.bits, one.z, one.clipped, one.root], one.name);
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
      const sums = FORMS.map((_, form) => said.reduce((total, values) => (total + values[form]) % P, 0n));
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
    const { weighted } = all;
    const held = schemaOf(weighted.schema, text);
    const counts = formsOf(new MomentsLayout(held, null, new Weight(find(readJson(text), JSON.stringify(weighted.weight)), held)), {
      u: weighted.challenge.u.map(BigInt), uRho: BigInt(weighted.challenge.u_rho), r: BigInt(weighted.challenge.r), g: weighted.challenge.g.map(BigInt),
    });
    same(verdict(counts.apply(weighted.honest.map(BigInt), true)), null, "an honest weight");
    for (const [why, { elements, verdict: wanted }] of Object.entries(/** @type {Record<string, any>} */ (weighted.cases))) {
      same(verdict(counts.apply(elements.map(BigInt), true)), wanted, why);
    }
    const payloads = Object.entries(all.payloads_for_the_last_of_two);
    for (const [why, payload] of payloads) {
      await refused(() => readShare(fromHex(String(payload)), 2, 2, layout.elements), why);
    }
    await refused(() => unpack(fromHex("ff".repeat(8))), "an element of 64 ones");
    return 1 + all.altered.length + all.roots.length + payloads.length;
  },

  async "device-json.json"(read) {
    const { cases, refused: bad, no_canonical_form } = JSON.parse(await read("device-json.json"));
    for (const { text, canonical } of cases) same(new TextDecoder().decode(canonicalJson(readJson(text))), canonical, text);
    for (const text of bad) await refused(() => readJson(text), text);
    for (const text of no_canonical_form) await refused(() => canonicalJson(readJson(text)), text);
    return cases.length + bad.length;
  },

  async "device-studies.json"(read) {
    const { accepted, refused: bad, texts_refused } = /** @type {any} */ (readJson(await read("device-studies.json")));
    const texts = new Map();
    for (const { name, signed, canonical, id, binding } of accepted) {
      const { study } = await parseStudy(signed, { expectedId: id });
      same([toHex(study.id), toHex(await study.binding())], [id, binding], name);
      const tree = /** @type {any} */ (readJson(signed));
      same(new TextDecoder().decode(canonicalJson(tree.study)), canonical, name);
      await refused(() => parseStudy(signed, { expectedId: "00".repeat(32) }), `${name}: another id`);
      texts.set(name, signed);
    }
    for (const one of bad) {
      const tree = /** @type {any} */ (readJson(texts.get(one.of)));
      const path = one.path.map((/** @type {any} */ key) => (typeof key === "bigint" ? Number(key) : key));
      const place = path.slice(0, -1).reduce((/** @type {any} */ data, /** @type {any} */ key) => data[key], tree);
      const last = path[path.length - 1];
      if (!one.remove) place[last] = one.set;
      else if (Array.isArray(place)) place.splice(last, 1);
      else delete place[last];
      one.signatures?.forEach((/** @type {string} */ signature, /** @type {number} */ at) => (tree.approvals[at].signature = signature));
      const error = await refused(() => parseStudy(canonicalJson(tree)), one.name);
      // Where everybody has signed it, what it says is the reason, and not a signature.
      if (!(error instanceof StudyError) || (one.signatures && error instanceof ApprovalError)) throw new Error(`${one.name}: refused with ${error}`);
      if (one.reason) same(error.reason, one.reason, `${one.name}: ${error}`);
    }
    for (const text of texts_refused) {
      const error = await refused(() => parseStudy(text), text);
      if (!(error instanceof StudyError)) throw new Error(`${text}: refused with ${error}`);
    }
    return accepted.length + bad.length;
  },

  async "device-messages.json"(read) {
    const all = JSON.parse(await read("device-messages.json"));
    const { accepted } = JSON.parse(await read("device-studies.json"));
    const { study } = await parseStudy(accepted[0].signed);
    const [id, key] = [fromHex(all.submission_id), fromHex(all.withdrawal_key)];
    same([toHex(study.id), toHex(await submissionIdOf(study.id, key))], [all.study_id, all.submission_id], "ids");
    const binding = await study.binding();
    same(study.right.map((_, k) => toHex(componentInfo(binding, k + 1, id))), all.component_info, "info");
    same(await Promise.all(study.right.map(async (party) => toHex(await sealingKeyId(party.sealing)))), all.sealing_key_ids, "key ids");
    same(toHex(encodeMessage("WithdrawRequest", { studyId: study.id, withdrawalKey: key, invitation: new Uint8Array() })), all.withdraw_request);
    const submitted = decodeMessage("SubmitResponse", fromHex(all.submit_response), "a receipt");
    const receipt = Receipt.fromJson(all.receipt);
    same([Number(submitted["receiveTimeMs"]), submitted["signature"]], [receipt.providers[0]?.receiveTimeMs, receipt.providers[0]?.signature]);
    await receipt.verify(study);
    same([receipt.toJson(), receipt.shown.toJson()], [all.receipt, all.receipt_shown], "receipt");
    for (const { name, receipt: text } of all.receipts_refused) await refused(() => Receipt.fromJson(text).verify(study), name);
    const gone = decodeMessage("WithdrawResponse", fromHex(all.withdraw_response), "a withdrawal");
    const word = { role: "R1", withdrawTimeMs: Number(gone["withdrawTimeMs"]), signature: gone["signature"] };
    await verifyWithdrawal(study, id, word);
    await refused(() => verifyWithdrawal(study, id, { ...word, role: "R2" }), "another's withdrawal");
    await refused(() => verifyWithdrawal(study, id, { ...word, withdrawTimeMs: word.withdrawTimeMs + 1 }), "another time");
    const keys = all.sealing_keys_of_r1;
    const answer = fromHex(keys.response);
    same(toHex(await newestKey(answer, study.party("R1").identity, "R1", "classical")), keys.newest, "sealing key");
    await refused(() => newestKey(answer, study.party("R2").identity, "R2", "classical"), "another's sealing key");
    await refused(() => newestKey(new Uint8Array(), study.party("R1").identity, "R1", "classical"), "no sealing key");
    await refused(() => newestKey(answer.subarray(0, 20), study.party("R1").identity, "R1", "classical"), "half an answer");
    return 8 + all.receipts_refused.length;
  },

  async "device-invitations.json"(read) {
    const all = JSON.parse(await read("device-invitations.json"));
    const studyId = fromHex(all.study_id);
    const invitation = Invitation.fromBytes(studyId, fromHex(all.invitation));
    same([invitation.expiresMs, toHex(invitation.toBytes())], [all.expires_ms, all.invitation]);
    await invitation.verify(fromHex(all.signer));
    await refused(() => invitation.verify(new Uint8Array(32)), "another signer");
    same(toHex(await invitation.admit(fromHex(all.submission_id), all.sealed.map(fromHex))), all.admission, "admission");
    same(toHex(await invitation.admit(fromHex(all.submission_id), [])), all.admission_to_withdraw, "to withdraw");
    for (const { text, address, invited } of all.links) {
      const link = Link.parse(text);
      same([String(link), link.address, link.invitation !== null, toHex(link.studyId)], [text, address, invited, all.study_id], text);
      if (invited) same(link.code, all.code, text);
    }
    for (const { text, means } of all.links_as_pasted) same(String(Link.parse(text)), means, text);
    for (const text of all.links_refused) {
      const error = await refused(() => Link.parse(text), text);
      if (!(error instanceof InvitationError)) throw new Error(`${text}: refused with ${error}`);
    }
    return all.links.length + all.links_refused.length;
  },

  async "device-submissions.json"(read) {
    const { cases } = JSON.parse(await read("device-submissions.json"));
    const { accepted } = JSON.parse(await read("device-studies.json"));
    for (const one of cases) {
      const { study } = await parseStudy(accepted.find((/** @type {any} */ item) => item.id === one.study_id).signed);
      const source = recorded(fromHex(one.randomness));
      const made = await buildSubmission(study, one.answers, source);
      same(source.used, one.randomness.length / 2, `${one.name}: all randomness is used`);
      const invitation = one.invitation === null ? null : Invitation.fromBytes(study.id, fromHex(one.invitation));
      const admission = invitation === null ? new Uint8Array() : await invitation.admit(made.submissionId, made.sealed);
      same(made.sealed.map((_, k) => toHex(submitRequest(made, k + 1, admission))), one.requests, one.name);
      if (study.sealing === "hybrid") continue; // a device opens nothing, and WebCrypto cannot; the randomness gives the same bytes
      const binding = await study.binding();
      const opened = made.sealed.map((part, k) => hpkeOpen(fromHex(one.secrets[k]), part, componentInfo(binding, k + 1, made.submissionId)));
      same((await Promise.all(opened)).map(toHex), one.payloads, `${one.name}: opened`);
    }
    return cases.length;
  },

  async "device-institutions.json"(read) {
    const { directory, names, refused: bad } = JSON.parse(await read("device-institutions.json"));
    same((await parseDirectory(directory)).institutions.map((item) => item.name), names);
    for (const text of bad) await refused(() => parseDirectory(text), text);
    return 1 + bad.length;
  },
};
