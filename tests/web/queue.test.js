/** The queue against providers that sign for real: sealed once, never redrawn, whatever is killed when. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { bigEndian, concat, fromHex, toHex } from "../../client/web/device/bytes.js";
import { sha256, SigningKey } from "../../client/web/device/crypto.js";
import { Invitation, makeDeviceKey, parseStudy, Queue, Receipt, Refused } from "../../client/web/device/index.js";
import { submissionIdOf } from "../../client/web/device/submission.js";
import { decodeMessage, encodeMessage } from "../../client/web/device/wire.js";
import { MemoryStore } from "./memory_store.js";

const HOUR = 3600_000;
const vectors = new URL("../vectors/", import.meta.url);
const { accepted } = JSON.parse(await readFile(new URL("device-studies.json", vectors), "utf8"));
const { cases } = JSON.parse(await readFile(new URL("device-submissions.json", vectors), "utf8"));
const INVITED = 1; // rows with tags, invited, with https origins
const { signed, identities } = accepted[INVITED];
const answers = cases[INVITED].answers;
const invitation = () => Invitation.fromBytes(fromHex(cases[INVITED].study_id), fromHex(cases[INVITED].invitation));

/** Right providers that keep what they are sent, as real ones do. */
class Providers {
  held = new Map();
  refusals = new Map();
  calls = [];
  now = 1_700_000_000_000;
  open = 1;
  constructor(study) {
    this.study = study;
  }
  fetch = async (url, request) => {
    const { origin, pathname } = new URL(url);
    const role = [...this.study.parties].find(([, party]) => party.https === origin)[0];
    const method = pathname.split("/").pop();
    this.calls.push(`${role} ${method}`);
    const refusal = this.refusals.get(role);
    if (refusal === "down") throw new TypeError("fetch failed");
    if (refusal) {
      const headers = { "content-type": "application/json", "trimask-reason": refusal, "retry-after-ms": "7200000" };
      return new Response(JSON.stringify({ code: "failed_precondition", message: "no" }), { status: 400, headers });
    }
    return new Response(await this[method](role, new Uint8Array(request.body)), { headers: { "content-type": "application/proto" } });
  };
  async sign(role, context, message) {
    return (await SigningKey.from(fromHex(identities[role]))).sign(context, message);
  }
  async Submit(role, body) {
    const { studyId, submissionId, sealedComponent } = decodeMessage("SubmitRequest", body, "a request");
    const name = `${role} ${toHex(submissionId)}`;
    assert.ok(!this.held.has(name) || toHex(this.held.get(name)) === toHex(sealedComponent), "the same id with other bytes");
    this.held.set(name, sealedComponent);
    const message = concat(studyId, submissionId, await sha256(sealedComponent), bigEndian(this.now, 8));
    return encodeMessage("SubmitResponse", { receiveTimeMs: this.now, signature: await this.sign(role, "receipt", message) });
  }
  async Withdraw(role, body) {
    const { studyId, withdrawalKey } = decodeMessage("WithdrawRequest", body, "a request");
    const id = await submissionIdOf(studyId, withdrawalKey);
    this.held.delete(`${role} ${toHex(id)}`);
    const signature = await this.sign(role, "withdrawal", concat(studyId, id, bigEndian(this.now, 8)));
    return encodeMessage("WithdrawResponse", { withdrawTimeMs: this.now, signature });
  }
  async GetSealingKeys() {
    return new Uint8Array();
  }
  async GetStudyStatus() {
    return encodeMessage("GetStudyStatusResponse", { state: this.open });
  }
}

async function world() {
  const { study } = await parseStudy(signed);
  const [store, providers, key] = [new MemoryStore(), new Providers(study), await makeDeviceKey()];
  const clock = { now: providers.now };
  const start = () => new Queue(store, key, { fetch: providers.fetch, now: () => clock.now });
  const queue = start();
  const id = await queue.join(await parseStudy(signed), invitation());
  return { study, store, providers, clock, start, queue, id };
}

test("from a draft to a receipt that verifies", async () => {
  const { study, queue, providers, id } = await world();
  await queue.saveDraft(id, { page: 3 });
  await queue.checkOpen(id);
  const entry = await queue.seal(id, answers);
  assert.deepEqual([entry.state, entry.providers, await queue.draft(id)], ["waiting", 4, { page: 3 }]);
  const [sent] = await queue.send();
  assert.deepEqual([sent.state, sent.receivedBy], ["sent", ["R1", "R2", "R3", "R4"]]);
  assert.equal(await queue.draft(id), null);
  const receipt = Receipt.fromJson(sent.receipt.toJson());
  await receipt.verify(study);
  assert.equal(receipt.shown.withdrawalKey.length, 0);
  assert.deepEqual(await queue.send(), []);
  assert.equal(await queue.nextMs(), null);
  assert.equal(providers.held.size, 4);
  await assert.rejects(queue.seal(id, answers), (error) => error instanceof Refused && error.reason.word === "already_answered");
  await assert.rejects(queue.checkOpen(id), (error) => error.reason.told === "answered");
});

test("what is stored cannot be read, and not passed off as another", async () => {
  const { queue, store, id } = await world();
  await queue.saveDraft(id, { diagnosis: "a secret word" });
  const entry = await queue.seal(id, answers);
  for (const value of store.records.values()) assert.ok(!Buffer.from(value).includes("secret word"));
  store.records.set(`payloads/${"00".repeat(16)}`, store.records.get(`payloads/${entry.submissionId}`));
  assert.equal((await queue.entry("00".repeat(16))).state, "damaged");
});

test("a provider that is down: back-off, the same bytes, and no provider asked twice", async () => {
  const { queue, providers, clock, store, id } = await world();
  providers.refusals.set("R3", "down");
  const { submissionId } = await queue.seal(id, answers);
  const payload = store.records.get(`payloads/${submissionId}`);
  const [entry] = await queue.send();
  assert.deepEqual([entry.state, entry.receivedBy, entry.attempts], ["waiting", ["R1", "R2", "R4"], 1]);
  assert.ok(entry.nextMs >= clock.now + 7500 && entry.nextMs <= clock.now + 15000);
  assert.deepEqual(await queue.send(), []);
  assert.equal(await queue.nextMs(), entry.nextMs);
  clock.now = entry.nextMs;
  await queue.send();
  providers.refusals.clear();
  const [sent] = await queue.send({ all: true });
  assert.equal(sent.state, "sent");
  assert.equal(providers.calls.filter((call) => call === "R1 Submit").length, 1);
  assert.equal(store.records.has(`payloads/${submissionId}`), false);
  assert.ok(payload);
});

test("a final refusal keeps the answers: the draft is still there, and can be sealed again", async () => {
  const { queue, providers, id } = await world();
  await queue.saveDraft(id, { page: 3 });
  const { submissionId } = await queue.seal(id, answers);
  providers.refusals.set("R1", "study_closed");
  const [entry] = await queue.send();
  assert.deepEqual([entry.state, entry.told, entry.receivedBy], ["refused", "closed", []]);
  assert.deepEqual(entry.causes, [["R1", "study_closed"]]);
  assert.equal(providers.calls.filter((call) => call.endsWith("Submit")).length, 1, "the first provider decides");
  assert.deepEqual(await queue.draft(id), { page: 3 });
  await queue.discard(submissionId);
  assert.equal((await queue.seal(id, answers)).state, "waiting");
});

test("no draft is kept beside answers that a provider has accepted, unless they are withdrawn", async () => {
  const { queue, id } = await world();
  assert.equal(await queue.saveDraft(id, { page: 3 }), true);
  const { submissionId } = await queue.seal(id, answers);
  assert.equal(await queue.saveDraft(id, { page: 4 }), true, "nobody has it yet");
  await queue.send();
  assert.equal(await queue.saveDraft(id, { page: 5 }), false);
  assert.equal(await queue.draft(id), null);
  await queue.withdraw(submissionId);
  assert.equal(await queue.saveDraft(id, { page: 1 }), true);
});

test("a provider that asks for patience is left alone so long", async () => {
  const { queue, providers, clock, id } = await world();
  await queue.seal(id, answers);
  providers.refusals.set("R1", "overloaded");
  const [entry] = await queue.send();
  assert.deepEqual([entry.state, entry.nextMs, entry.told], ["waiting", clock.now + 2 * HOUR, "busy"]);
});

test("closed, expired, uninvited: refused before anything is sealed", async () => {
  const { queue, providers, clock, store, id, start } = await world();
  providers.open = 3;
  await assert.rejects(queue.checkOpen(id), (error) => error.reason.word === "study_closed");
  providers.refusals.set("collector", "down");
  await queue.checkOpen(id); // nobody to ask: the person goes on, and the draft stays
  clock.now = invitation().expiresMs;
  await assert.rejects(queue.seal(id, answers), (error) => error.reason.word === "invitation_expired");
  const other = new Queue(new MemoryStore(), await makeDeviceKey(), { now: () => clock.now });
  await other.join(await parseStudy(signed));
  await assert.rejects(other.seal(id, answers), (error) => error.reason.word === "no_invitation");
  assert.deepEqual(await start().entries(), []);
  assert.ok([...store.records.keys()].every((key) => !key.startsWith("payloads/")));
});

test("withdrawn before it was tried: nobody is asked", async () => {
  const { queue, providers, id } = await world();
  await queue.saveDraft(id, {});
  const { submissionId } = await queue.seal(id, answers);
  const gone = await queue.withdraw(submissionId);
  assert.deepEqual([gone.state, gone.withdrawnBy, providers.calls], ["withdrawn", [], []]);
  assert.equal(await queue.draft(id), null);
  assert.equal((await queue.seal(id, answers)).state, "waiting");
});

test("withdrawn after it was sent, with one provider down, from the receipt on another device", async () => {
  const { queue, providers, id, clock } = await world();
  await queue.seal(id, answers);
  const [sent] = await queue.send();
  const other = new Queue(new MemoryStore(), await makeDeviceKey(), { fetch: providers.fetch, now: () => clock.now });
  await other.join(await parseStudy(signed), invitation());
  await other.importReceipt(sent.receipt.toJson());
  providers.refusals.set("R2", "down");
  const part = await other.withdraw(sent.submissionId);
  assert.deepEqual([part.state, part.withdrawnBy], ["withdrawing", ["R1", "R3", "R4"]]);
  providers.refusals.clear();
  const [done] = await other.send({ all: true });
  assert.deepEqual([done.state, done.withdrawnBy.length, providers.held.size], ["withdrawn", 4, 0]);
  await assert.rejects(other.importReceipt(sent.receipt.toJson().replace(/"R2"/, '"R3"')));
});

test("too late where all have it in a block", async () => {
  const { queue, providers, id } = await world();
  await queue.seal(id, answers);
  const [sent] = await queue.send();
  for (const role of ["R1", "R2", "R3", "R4"]) providers.refusals.set(role, "already_in_block");
  assert.equal((await queue.withdraw(sent.submissionId)).state, "too_late");
});

test("killed before every single write: sealed once, sent once, and the draft is never lost", async () => {
  for (let at = 1; ; at++) {
    const { queue, providers, store, start, id } = await world();
    await queue.saveDraft(id, { page: 3 });
    store.killAt = store.writes + at;
    let killed = false;
    try {
      await queue.seal(id, answers);
      await queue.send({ all: true });
    } catch (error) {
      assert.equal(error.message, "killed");
      killed = true;
    }
    store.killAt = Infinity;
    store.locks.clear();
    const again = start(); // the tab is opened again
    const before = await again.entries();
    if (!before.length) {
      assert.deepEqual(await again.draft(id), { page: 3 }, "nothing was sealed, so the draft is there");
      await again.seal(id, answers);
    }
    await again.send({ all: true });
    const [entry, ...more] = await again.entries();
    assert.deepEqual([entry.state, more, providers.held.size], ["sent", [], 4], `killed before write ${at}`);
    assert.equal(await again.draft(id), null);
    if (!killed) {
      assert.ok(at > 5);
      break;
    }
  }
});

test("two tabs: one sends", async () => {
  const { queue, start, providers, id } = await world();
  await queue.seal(id, answers);
  const both = await Promise.all([queue.send(), start().send()]);
  assert.equal(both.filter((tried) => tried === null).length, 1);
  assert.equal(providers.calls.filter((call) => call === "R1 Submit").length, 1);
});

test("a forged receipt is not taken for one", async () => {
  const { queue, providers, id } = await world();
  await queue.seal(id, answers);
  providers.Submit = async () => encodeMessage("SubmitResponse", { receiveTimeMs: 5, signature: new Uint8Array(64) });
  const [entry] = await queue.send();
  assert.deepEqual([entry.state, entry.receivedBy], ["waiting", []]);
  assert.match(entry.why, /does not verify/);
});

test("forgotten: nothing of a study is left", async () => {
  const { queue, store, id } = await world();
  await queue.saveDraft(id, {});
  await queue.seal(id, answers);
  await queue.forget(id);
  assert.equal(store.records.size, 0);
});

test("the first provider decides whose an invitation is: while it is down, no other is asked", async () => {
  const { queue, providers, id } = await world();
  await queue.seal(id, answers);
  providers.refusals.set("R1", "down");
  const [entry] = await queue.send();
  assert.deepEqual([entry.state, entry.receivedBy, providers.calls], ["waiting", [], ["R1 Submit"]]);
});

test("one that does not answer delays no other: after the first all are asked at once", async () => {
  const { queue, providers, id } = await world();
  const { submissionId } = await queue.seal(id, answers);
  const take = providers.Submit.bind(providers);
  /** @type {(value?: unknown) => void} */
  let others = () => undefined;
  const waits = new Promise((done) => { others = done; });
  providers.Submit = async (role, body) => {
    if (role === "R1") assert.deepEqual(providers.calls, ["R1 Submit"]);
    if (role === "R2") await waits; // until R3 and R4 have signed, and their receipts are kept
    return take(role, body);
  };
  const sent = queue.send();
  while ((await queue.entry(submissionId)).receivedBy.length < 3) await new Promise((done) => setTimeout(done, 1));
  assert.deepEqual((await queue.entry(submissionId)).receivedBy, ["R1", "R3", "R4"]);
  others();
  assert.deepEqual((await sent)[0].receivedBy, ["R1", "R2", "R3", "R4"]);
});

test("of several refusals the final one decides what is told", async () => {
  const { queue, providers, id } = await world();
  await queue.seal(id, answers);
  for (const [role, why] of [["R2", "overloaded"], ["R3", "study_closed"], ["R4", "down"]]) providers.refusals.set(role, why);
  const [entry] = await queue.send();
  assert.deepEqual([entry.state, entry.told, entry.receivedBy], ["refused", "closed", ["R1"]]);
  assert.deepEqual(entry.causes.map(([role]) => role), ["R2", "R3", "R4"]);
});

test("killed while a provider answers: what may be out is withdrawn there", async () => {
  const { queue, store, providers, start, id } = await world();
  const { submissionId } = await queue.seal(id, answers);
  const take = providers.Submit.bind(providers);
  providers.Submit = async (role, body) => {
    await take(role, body);
    store.killAt = 0; // nothing is stored from here on
    return new Uint8Array();
  };
  await assert.rejects(queue.send(), /killed/);
  store.killAt = Infinity;
  store.locks.clear();
  const again = start();
  assert.equal((await again.entry(submissionId)).receivedBy.length, 0);
  const gone = await again.withdraw(submissionId);
  assert.deepEqual([gone.state, gone.withdrawnBy.length, providers.held.size], ["withdrawn", 4, 0]);
});
