/**
 * HPKE (RFC 9180) in base mode, one message a key; a sealed message is the encapsulated key followed by the ciphertext. KDF 0x0001
 * (HKDF-SHA256). A classical key is KEM 0x0020 (X25519) with AEAD 0x0001 (AES-128-GCM), all of it by WebCrypto; a hybrid one KEM 0x647a
 * (ML-KEM-768 with X25519) with AEAD 0x0002 (AES-256-GCM), whose lattice half is in `mlkem.js`.
 */
import { bigEndian, concat, utf8 } from "./bytes.js";
import { gcmSeal, hmac, x25519 } from "./crypto.js";
import { VerificationError } from "./errors.js";
import { encapsulate, PUBLIC_BYTES, sha3 } from "./mlkem.js";

const KEM = Uint8Array.of(75, 69, 77, 0, 32); // "KEM", 0x0020
const SUITE = Uint8Array.of(72, 80, 75, 69, 0, 32, 0, 1, 0, 1); // "HPKE", 0x0020, 0x0001, 0x0001
const HYBRID_SUITE = Uint8Array.of(72, 80, 75, 69, 100, 122, 0, 1, 0, 2);
const LABEL = utf8("\\.//^\\"); // of X-Wing: what the hash of the two secrets is for
/** @typedef {"classical" | "hybrid"} Sealing */
/** Bytes of a public key of each kind, which tell it. @type {Readonly<Record<Sealing, number>>} */
export const PUBLIC_KEY_BYTES = { classical: 32, hybrid: PUBLIC_BYTES + 32 };
/** What sealing to a key of each kind draws. @type {Readonly<Record<Sealing, number>>} */
export const EPHEMERAL_BYTES = { classical: 32, hybrid: 64 };
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

/** @param {Uint8Array} shared @param {Uint8Array} info @param {Uint8Array} [suite] @param {number} [keyBytes] */
export async function keySchedule(shared, info, suite = SUITE, keyBytes = 16) {
  const [names, infos, secret] = await Promise.all([
    extract(NONE, suite, "psk_id_hash", NONE),
    extract(NONE, suite, "info_hash", info),
    extract(shared, suite, "secret", NONE),
  ]);
  const context = concat(Uint8Array.of(0), names, infos);
  const [key, nonce] = await Promise.all([
    expand(secret, suite, "key", context, keyBytes),
    expand(secret, suite, "base_nonce", context, 12),
  ]);
  return { key, nonce };
}

/**
 * X-Wing's Encaps. @param {Uint8Array} recipient @param {Uint8Array} random 32 bytes for ML-KEM, then 32 for X25519
 */
export async function hybridEncapsulate(recipient, random) {
  const [lattice, curve] = [recipient.subarray(0, PUBLIC_BYTES), recipient.subarray(PUBLIC_BYTES)];
  const { secret, ciphertext } = encapsulate(lattice, random.subarray(0, 32));
  const pair = await agreed(random.subarray(32), curve);
  return { shared: sha3(concat(secret, pair.agreed, pair.public, curve, LABEL)), enc: concat(ciphertext, pair.public) };
}

/** @param {Uint8Array} secret @param {Uint8Array} recipient */
async function agreed(secret, recipient) {
  try {
    return await x25519(secret, recipient);
  } catch {
    throw new VerificationError("a sealing key is not a usable public key");
  }
}

/**
 * `plaintext` for the holder of the private half of `recipient` alone.
 * @param {Uint8Array} recipient @param {Uint8Array} plaintext @param {Uint8Array} info
 * @param {Uint8Array} ephemeral `EPHEMERAL_BYTES` fresh random bytes: of this message and no other @param {Uint8Array} [aad]
 * @returns {Promise<import("./bytes.js").Bytes>}
 */
export async function hpkeSeal(recipient, plaintext, info, ephemeral, aad = NONE) {
  if (recipient.length === PUBLIC_KEY_BYTES.hybrid) {
    const { shared, enc } = await hybridEncapsulate(recipient, ephemeral);
    const { key, nonce } = await keySchedule(shared, info, HYBRID_SUITE, 32);
    return concat(enc, await gcmSeal(key, nonce, plaintext, aad));
  }
  const pair = await agreed(ephemeral, recipient);
  const { key, nonce } = await keySchedule(await sharedSecret(pair.agreed, pair.public, recipient), info);
  return concat(pair.public, await gcmSeal(key, nonce, plaintext, aad));
}
