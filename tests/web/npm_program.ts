// A stranger's program on the npm package: node npm_program.js COLLECTOR_ORIGIN STUDY_ID ANSWERS takes part in a study.
import { AnswerError, explain, fetchStudy, fromHex, openStore, Queue, Transport } from "trimask-device";

declare const process: { argv: [string, string, string, string, string] };
const [, , origin, id, answers] = process.argv;

const checked = await fetchStudy(new Transport(), origin, fromHex(id));
// @ts-expect-error - the package has types: a name it does not have is an error
void checked.study.tittle;
const { store, key, lasting } = await openStore();
const queue = new Queue(store, key);
await queue.join(checked);
let refused = "";
try {
  await queue.seal(id, {});
} catch (error) {
  if (!(error instanceof AnswerError)) throw error;
  refused = error.field;
}
await queue.seal(id, JSON.parse(answers));
const [sent] = (await queue.send()) ?? [];
console.log(JSON.stringify({
  title: checked.study.title, coalitions: explain(checked.study).coalitions.length, lasting, refused, state: sent?.state, receipt: sent?.receipt?.toJson(),
}));
