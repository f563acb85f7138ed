/** Recomputes submissions that Python sealed (web_cases.random_case) from the same randomness: node tests/web/random_cases.js FILE */
import { readFile } from "node:fs/promises";
import { fromHex, toHex } from "../../client/web/device/bytes.js";
import { parseStudy } from "../../client/web/device/signed_study.js";
import { buildSubmission } from "../../client/web/device/submission.js";
import { recorded, same } from "./support.js";

const cases = JSON.parse(await readFile(String(process.argv[2]), "utf8"));
for (const [number, one] of cases.entries()) {
  try {
    const { study } = await parseStudy(one.signed);
    const source = recorded(fromHex(one.randomness));
    const made = await buildSubmission(study, one.answers, source);
    same(source.used, one.randomness.length / 2, "randomness used");
    same(toHex(made.submissionId), one.submission_id, "submission id");
    same([made.sealed.map(toHex), made.keyIds.map(toHex)], [one.sealed, one.key_ids], "sealed");
  } catch (error) {
    const { study } = JSON.parse(one.signed);
    console.error(`case ${number}, ${study.suite.name}, ${JSON.stringify(study.schema)} ${JSON.stringify(one.answers)}`);
    throw error;
  }
}
console.log(`${cases.length} alike`);
