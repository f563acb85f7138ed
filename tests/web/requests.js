/** The requests a browser sends for one case, from its study, answers and randomness: node tests/web/requests.js FILE */
import { readFile } from "node:fs/promises";
import { fromHex, toHex } from "../../client/web/device/bytes.js";
import { submitRequest } from "../../client/web/device/calls.js";
import { parseStudy } from "../../client/web/device/signed_study.js";
import { buildSubmission } from "../../client/web/device/submission.js";
import { recorded } from "./support.js";

const [{ signed, answers, randomness }] = JSON.parse(await readFile(String(process.argv[2]), "utf8"));
const { study } = await parseStudy(signed);
const made = await buildSubmission(study, answers, recorded(fromHex(randomness)));
console.log(JSON.stringify(made.sealed.map((_, k) => toHex(submitRequest(made, k + 1, new Uint8Array())))));
