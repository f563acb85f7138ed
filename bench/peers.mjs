// A client's work and bytes in one JavaScript engine: `node peers.mjs DEVICE PRIO3 SCHEMA ANSWERS BITS`, printed as JSON.
// Ours builds the report of the moments suite and splits it for two providers; @divviup/prio3 shards a vector for two.
import { randomBytes } from "node:crypto";
import { pathToFileURL } from "node:url";

const [device, library, schemaText, answersText, bitsText] = process.argv.slice(2);
const from = (folder, file) => import(new URL(file, pathToFileURL(`${folder}/`)));
const [{ readJson }, { Schema }, { MomentsLayout }, { buildReport, splitReport }, { systemRandom }] = await Promise.all(
  ["json.js", "schema.js", "moments/layout.js", "moments/report.js", "crypto.js"].map((file) => from(device, file)),
);
const { Prio3SumVec } = await from(library, "dist/index.js");

/** Milliseconds of processor time, the best of five turns of so many. */
async function spent(work, turns) {
  await work();
  let best = Infinity;
  for (let turn = 0; turn < 5; turn++) {
    const start = process.cpuUsage();
    for (let i = 0; i < turns; i++) await work();
    const { user, system } = process.cpuUsage(start);
    best = Math.min(best, (user + system) / 1e3 / turns);
  }
  return best;
}

const layout = new MomentsLayout(new Schema(readJson(new TextEncoder().encode(schemaText))), null);
const answers = JSON.parse(answersText);
let parcels;
const ours = await spent(async () => {
  parcels = await splitReport(buildReport(layout, answers, systemRandom), 2, systemRandom);
}, 5);
const found = { moments: { ms: ours, bytes: parcels.reduce((sum, parcel) => sum + parcel.length, 0) } };

const q = layout.columns.length;
for (const [name, length, bits] of [["sums", q, Number(bitsText)], ["products", q + (q * (q + 1)) / 2, 2 * Number(bitsText)]]) {
  const vdaf = new Prio3SumVec({ shares: 2, length, bits, chunkLength: Math.ceil(Math.sqrt(length * bits)) });
  const measurement = Array.from({ length }, (_, i) => (i * 37) % 2 ** bits);
  let made;
  const ms = await spent(async () => {
    made = await vdaf.shard(measurement, randomBytes(vdaf.nonceSize), randomBytes(vdaf.randSize));
  }, 1);
  const parts = [vdaf.encodePublicShare(made.publicShare), ...made.inputShares.map((share) => vdaf.encodeInputShare(share))];
  found[name] = { ms, bytes: parts.reduce((sum, part) => sum + part.length, 0) };
}
console.log(JSON.stringify(found));
