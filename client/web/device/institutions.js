/** Institutions a device knows: a directory that somebody keeps and signs: `trimask_core.submit.institutions`. */
import { equal, fromHex } from "./bytes.js";
import { verify } from "./crypto.js";
import { VerificationError } from "./errors.js";
import { canonicalJson, readJson } from "./json.js";
import { checkLetters, items, keysOf, objectOf, textOf } from "./reading.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */
/** @typedef {{ name: string, identity: Bytes, contact: string, url: string }} Institution */
/** @typedef {{ keeper: string, keeperKey: Bytes, institutions: Institution[] }} Directory */
/** @typedef {{ role: string, organisation: string, knownAs: string | null, keeper: string }} Standing */

const FORMAT = "trimask-institutions/1";

/** Reads and verifies a directory; `VerificationError` unless its keeper signed it. @param {string | Uint8Array} source @returns {Promise<Directory>} */
export async function parseDirectory(source) {
  let data;
  let found;
  let signature;
  try {
    data = objectOf(readJson(source), "directory");
    if (data["format"] !== FORMAT) throw new SyntaxError(`its format is not ${FORMAT}`);
    keysOf(data, ["format", "keeper", "keeper_key", "institutions", "signature"], "directory");
    checkLetters(data["keeper"] ?? "", "name", "keeper");
    found = {
      keeper: textOf(data["keeper"], "keeper"),
      keeperKey: fromHex(textOf(data["keeper_key"], "keeper_key")),
      institutions: items(data["institutions"], "institutions").map(readInstitution),
    };
    signature = fromHex(textOf(data["signature"], "signature"));
  } catch (error) {
    throw new VerificationError(`this is not a directory of institutions: ${error instanceof Error ? error.message : error}`);
  }
  const twice = found.institutions.some((one, place) => found.institutions.slice(0, place).some((other) => equal(one.identity, other.identity)));
  if (twice) throw new VerificationError("a directory names every key once");
  const { signature: _, ...signed } = data;
  await verify(found.keeperKey, "institutions", canonicalJson(signed), signature, "the directory of institutions");
  return found;
}

/** @param {import("./json.js").Json} value @returns {Institution} */
function readInstitution(value) {
  const data = objectOf(value, "institutions");
  keysOf(data, ["name", "identity", "contact", "url"], "institutions");
  const [name, identity, contact, url] = ["name", "identity", "contact", "url"].map((key) => textOf(data[key], `institutions.${key}`));
  const found = { name: String(name), identity: fromHex(String(identity)), contact: String(contact), url: String(url) };
  checkLetters(data, "", "institutions");
  if (!found.name.trim() || found.identity.length !== 32) throw new SyntaxError("an institution has a name and a key of 32 bytes");
  return found;
}

/** Every party, and whether its key is in one of the directories. @param {import("./study.js").Study} study @param {Directory[]} directories @returns {Standing[]} */
export function knownParties(study, directories) {
  return [...study.parties].map(([role, party]) => {
    for (const book of directories) {
      const known = book.institutions.find((item) => equal(item.identity, party.identity));
      if (known) return { role, organisation: party.organisation || role, knownAs: known.name, keeper: book.keeper };
    }
    return { role, organisation: party.organisation || role, knownAs: null, keeper: "" };
  });
}
