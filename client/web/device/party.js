/** The institutions of a study: where each listens, and the keys it is known by. */
import { bytesOf, keysOf, objectOf, textOf } from "./reading.js";
import { checkOrigin } from "./web.js";

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
