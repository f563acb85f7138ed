/**
 * Takes part in a study of a real cluster, as a page does: node tests/web/take_part.js COLLECTOR_ORIGIN STUDY_ID ANSWERS_FILE [CODE]
 * One submission for each of the answers; the first is withdrawn again. Prints one JSON document.
 */
import { readFile } from "node:fs/promises";
import { fromHex } from "../../client/web/device/bytes.js";
import { explain, fetchStudy, makeDeviceKey, Queue, readCode, Refused, spentBudget, Transport } from "../../client/web/device/index.js";
import { MemoryStore } from "./memory_store.js";

const [origin, id, file, code] = process.argv.slice(2);
const people = JSON.parse(await readFile(file, "utf8"));
const checked = await fetchStudy(new Transport(), origin, fromHex(id));
const receipts = [];
const found = { title: checked.study.title, coalitions: explain(checked.study).coalitions.length };
for (const answers of people) {
  const queue = new Queue(new MemoryStore(), await makeDeviceKey());
  await queue.join(checked, code ? readCode(code).invitation : null);
  await queue.checkOpen(id);
  found.newestKeys = await queue.refreshKeys(id);
  await queue.seal(id, answers);
  const [sent] = await queue.send();
  if (sent.state !== "sent") throw new Error(`${sent.state}: ${sent.why}`);
  if (!found.withdrawn) {
    found.withdrawn = (await queue.withdraw(sent.submissionId)).withdrawnBy;
    const again = new Queue(new MemoryStore(), await makeDeviceKey());
    await again.join(checked, code ? readCode(code).invitation : null);
    await again.seal(id, answers);
    const [second] = await again.send();
    if (second.state === "sent") receipts.push(second.receipt.toJson());
    else found.second = second.told;
  } else {
    receipts.push(sent.receipt.toJson());
  }
}
found.noBudget = await spentBudget(new Transport(), checked.study).catch((error) => error instanceof Refused && error.reason.word);
console.log(JSON.stringify({ ...found, receipts }));
