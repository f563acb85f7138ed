/** The institutions of a study, where each listens and its keys; and which hosts may show the study's page: `trimask_core.study.party`. */
import { StudyError } from "./errors.js";
import { bytesOf, items, keysOf, objectOf, textOf } from "./reading.js";

/** @typedef {{ hosts: string[], pageSha256: string }} Web */

const NAME = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const ORIGIN = new RegExp(`^(https?)://(${NAME}(?:\\.${NAME})*\\.?|\\[[0-9a-f:.]+\\])(?::([1-9][0-9]{0,4}))?$`);
const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];
const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";

/** An origin as browsers write it. @param {string} text @param {string} field @param {boolean} [development] lets http://localhost through */
export function checkOrigin(text, field, development = false) {
  const [, scheme, host = "", port] = ORIGIN.exec(text) ?? [];
  const safe = scheme === "https" || (scheme === "http" && development && LOOPBACK.includes(host));
  const standard = scheme === "https" ? 443 : 80;
  if (!safe || (port !== undefined && (Number(port) > 65535 || Number(port) === standard))) {
    throw new StudyError("must be an origin such as https://survey.example:8443", "web_origin", field);
  }
  return text;
}

/** @param {import("./json.js").Json | undefined} value @returns {Web} */
export function readWeb(value) {
  const data = objectOf(value, "web");
  keysOf(data, ["hosts", "page_sha256"], "web");
  const hosts = items(data["hosts"], "web.hosts").map((host) => checkOrigin(textOf(host, "web.hosts"), "web.hosts", true));
  if (!hosts.length || new Set(hosts).size !== hosts.length) throw new StudyError("must name one host at least, each once", "web_hosts", "web.hosts");
  const pageSha256 = textOf(data["page_sha256"], "web.page_sha256");
  if (!/^[0-9a-f]{64}$/.test(pageSha256)) throw new StudyError("must be 64 lower-case hexadecimal digits", "page_sha256", "web.page_sha256");
  return { hosts, pageSha256 };
}

/** What stands for a study in a web address: the first 40 bits of its id. @param {Uint8Array} studyId */
export function shortCode(studyId) {
  const bits = Array.from(studyId.subarray(0, 5), (value) => value.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{5}/g) ?? []).map((five) => BASE32[parseInt(five, 2)]).join("");
}

/**
 * `https` is where a page reaches it, as an origin; empty where it serves no pages.
 * @typedef {object} Party
 * @property {string} name
 * @property {string} organisation
 * @property {string} address
 * @property {string} peerAddress
 * @property {string} tlsName
 * @property {string} https
 * @property {import("./bytes.js").Bytes} identity
 * @property {import("./bytes.js").Bytes} sealing
 */

/** @param {import("./json.js").Json | undefined} value @param {string} role @returns {Party} */
export function readParty(value, role) {
  const data = objectOf(value, role);
  const texts = ["name", "organisation", "address", "peer_address", "tls_name"];
  keysOf(data, [...texts, "identity", "sealing", "https"], role);
  const [name = "", organisation = "", address = "", peerAddress = "", tlsName = ""] = texts.map((key) => textOf(data[key], `${role}.${key}`));
  const https = textOf(data["https"], `${role}.https`);
  if (https) checkOrigin(https, `${role}.https`);
  const [identity, sealing] = [bytesOf(data["identity"], `${role}.identity`), bytesOf(data["sealing"], `${role}.sealing`)];
  return { name, organisation, address, peerAddress, tlsName, https, identity, sealing };
}
