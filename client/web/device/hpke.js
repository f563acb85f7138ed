/**
 * HPKE (RFC 9180) in base mode: KEM 0x0020 (X25519), KDF 0x0001 (HKDF-SHA256), AEAD 0x0001 (AES-128-GCM), one message a key,
 * all of it by WebCrypto. A sealed message is the encapsulated key followed by the ciphertext.
 */
import { bigEndian, concat, utf8 } from "./bytes.js";
import { gcmOpen, gcmSeal, hmac, x25519 } from "./crypto.js";
import { VerificationError } from "./errors.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */

const KEM = Uint8Array.of(75, 69, 77, 0, 32); // "KEM", 0x0020
const SUITE = Uint8Array.of(72, 80, 75, 69, 0, 32, 0, 1, 0, 1); // "HPKE", 0x0020, 0x0001, 0x0001
const VERSION = utf8("HPKE-v1");
const NONE = new Uint8Array();

/** @param {Uint8Array} salt @param {Uint8Array} suite @param {string} label @param {Uint8Array} keying */
const extract = (salt, suite, label, keying) => hmac(salt, concat(VERSION, suite, utf8(label), keying));

/** @param {Uint8Array} key @param {Uint8Array} suite @param {string} label @param {Uint8Array} info @param {number} length at most a block of SHA-256 */
async function expand(key, suite, label, info, length) {
  const labelled = concat(bigEndian(length, 2), VERSION, suite, utf8(label), info, Uint8Array.of(1));
  return (await hmac(key, labelled)).subarray(0, length);
}

/** @param {Uint8Array} agreed @param {Uint8Array} enc @param {Uint8Array} recipient */
export async function sharedSecret(agreed, enc, recipient) {
  return expand(await extract(NONE, KEM, "eae_prk", agreed), KEM, "shared_secret", concat(enc, recipient), 32);
}

/** @param {Uint8Array} shared @param {Uint8Array} info */
export async function keySchedule(shared, info) {
  const [names, infos, secret] = await Promise.all([
    extract(NONE, SUITE, "psk_id_hash", NONE),
    extract(NONE, SUITE, "info_hash", info),
    extract(shared, SUITE, "secret", NONE),
  ]);
  const context = concat(Uint8Array.of(0), names, infos);
  const [key, nonce] = await Promise.all([
    expand(secret, SUITE, "key", context, 16),
    expand(secret, SUITE, "base_nonce", context, 12),
  ]);
  return { key, nonce };
}

/**
 * `plaintext` for the holder of the private half of `recipient` alone.
 * @param {Uint8Array} recipient @param {Uint8Array} plaintext @param {Uint8Array} info
 * @param {Uint8Array} ephemeral 32 fresh random bytes: the private key of this message and no other @param {Uint8Array} [aad]
 * @returns {Promise<Bytes>}
 */
export async function hpkeSeal(recipient, plaintext, info, ephemeral, aad = NONE) {
  let pair;
  try {
    pair = await x25519(ephemeral, recipient);
  } catch {
    throw new VerificationError("a sealing key is not a usable X25519 public key");
  }
  const { key, nonce } = await keySchedule(await sharedSecret(pair.agreed, pair.public, recipient), info);
  return concat(pair.public, await gcmSeal(key, nonce, plaintext, aad));
}

/**
 * What was sealed, or `VerificationError`. A device opens nothing; the tests do.
 * @param {Uint8Array} secret @param {Uint8Array} sealed @param {Uint8Array} info @param {Uint8Array} [aad]
 */
export async function hpkeOpen(secret, sealed, info, aad = NONE) {
  const [enc, ciphertext] = [sealed.subarray(0, 32), sealed.subarray(32)];
  let opened = null;
  try {
    const pair = await x25519(secret, enc);
    const { key, nonce } = await keySchedule(await sharedSecret(pair.agreed, enc, pair.public), info);
    opened = await gcmOpen(key, nonce, ciphertext, aad);
  } catch {
    opened = null;
  }
  if (opened === null) throw new VerificationError("a sealed message does not open");
  return opened;
}
