// Recomputes what test_web_truth.py wrote: `node truth_vectors.js CASES.json`.

import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { readJson } from "../../client/web/device/json.js";
import { Study } from "../../client/web/device/study.js";
import { exactStatement } from "../../client/web/page/exact.js";
import { catalogue } from "../../client/web/page/catalogue.js";
import { plainTruth } from "../../client/web/page/plain_truth.js";

let compared = 0;
const wrong = [];
const { cases } = JSON.parse(readFileSync(process.argv[2], "utf8"));
for (const [place, { study: text, plain, exact }] of cases.entries()) {
  const study = await Study.read(readJson(text));
  for (const [language, python] of Object.entries(plain)) {
    const { promises, seen, note, first, strength } = plainTruth(study, await catalogue(language));
    compared += 1;
    if (!isDeepStrictEqual({ promises, seen, note, first, strength }, python)) wrong.push({ place, language, python, here: { promises, seen, note, first, strength } });
  }
  // The exact statement has no more than what the client says, word by word.
  const missing = exactStatement(study, []).filter((paragraph) => !exact.includes(paragraph));
  compared += 1;
  if (missing.length > 0) wrong.push({ place, missing, exact });
}
console.log(JSON.stringify({ compared, wrong: wrong.slice(0, 2) }));
