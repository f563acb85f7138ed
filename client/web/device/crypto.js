/** Hashes, keys, signatures and streams, all by WebCrypto. Names and labels are those of `trimask_core`. */
import { concat, fromBase64Url, utf8 } from "./bytes.js";
import { VerificationError } from "./errors.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */
/**
 * Fresh, unpredictable bytes. The system's generator (`systemRandom`) everywhere but in tests.
 * @typedef {{ read(count: number): Bytes }} RandomSource
 */

const subtle = globalThis.crypto.subtle;
export const SEED_BYTES = 32;
const PREFIX = "trimask/v1/";
const LARGEST_READ = 65536;
/** PKCS #8 of a private key of 32 bytes, up to the key itself (RFC 8410). */
const PKCS8 = {
  Ed25519: Uint8Array.of(48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32),
  X25519: Uint8Array.of(48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 110, 4, 34, 4, 32),
};

/** @type {RandomSource} the only source outside tests */
export const systemRandom = {
  read(count) {
    const data = new Uint8Array(count);
    for (let at = 0; at < count; at += LARGEST_READ) {
      globalThis.crypto.getRandomValues(data.subarray(at, at + LARGEST_READ));
    }
    return data;
  },
};

/** @param {Uint8Array} data @returns {Promise<Bytes>} */
export const sha256 = async (data) => new Uint8Array(await subtle.digest("SHA-256", concat(data)));

/** @param {Uint8Array} key an empty one is HMAC's block of zeros @param {Uint8Array} data @returns {Promise<Bytes>} */
export async function hmac(key, data) {
  const raw = key.length ? concat(key) : new Uint8Array(32);
  const held = await subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await subtle.sign("HMAC", held, concat(data)));
}

/** A 32-byte key for one purpose, by HKDF-SHA256. @param {Uint8Array} secret @param {Uint8Array} label @returns {Promise<Bytes>} */
export async function deriveKey(secret, label) {
  const held = await subtle.importKey("raw", concat(secret), "HKDF", false, ["deriveBits"]);
  const info = concat(utf8(PREFIX), label);
  const how = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info };
  return new Uint8Array(await subtle.deriveBits(how, held, 256));
}

/** @param {Uint8Array | CryptoKey} key @param {"encrypt" | "decrypt"} use */
const gcmKey = async (key, use) =>
  key instanceof Uint8Array ? subtle.importKey("raw", concat(key), "AES-GCM", false, [use]) : key;

/** AES-GCM, ciphertext and tag. @param {Uint8Array | CryptoKey} key @param {Uint8Array} nonce 12 bytes @param {Uint8Array} plaintext @param {Uint8Array} aad @returns {Promise<Bytes>} */
export async function gcmSeal(key, nonce, plaintext, aad) {
  const how = { name: "AES-GCM", iv: concat(nonce), additionalData: concat(aad) };
  return new Uint8Array(await subtle.encrypt(how, await gcmKey(key, "encrypt"), concat(plaintext)));
}

/** The plaintext, or null if anything was altered. @param {Uint8Array | CryptoKey} key @param {Uint8Array} nonce @param {Uint8Array} sealed @param {Uint8Array} aad @returns {Promise<Bytes | null>} */
export async function gcmOpen(key, nonce, sealed, aad) {
  const how = { name: "AES-GCM", iv: concat(nonce), additionalData: concat(aad) };
  try {
    return new Uint8Array(await subtle.decrypt(how, await gcmKey(key, "decrypt"), concat(sealed)));
  } catch {
    return null;
  }
}

/** The bytes a 32-byte seed stands for under a label; the same on every machine. AES-256 in counter mode, from 0. */
export class Stream {
  /** @param {CryptoKey} key */
  constructor(key) {
    this.#key = key;
  }
  #key;
  #at = 0;

  /** @param {Uint8Array} seed @param {string | Uint8Array} label */
  static async open(seed, label) {
    if (seed.length !== SEED_BYTES) throw new RangeError(`a seed has ${SEED_BYTES} bytes`);
    const key = await deriveKey(seed, typeof label === "string" ? utf8(label) : label);
    return new Stream(await subtle.importKey("raw", key, "AES-CTR", false, ["encrypt"]));
  }

  /** The next `count` bytes. @param {number} count @returns {Promise<Bytes>} */
  async read(count) {
    const skipped = this.#at % 16;
    const counter = new Uint8Array(16);
    new DataView(counter.buffer).setBigUint64(8, BigInt((this.#at - skipped) / 16));
    const how = { name: "AES-CTR", counter, length: 64 };
    const zeros = new Uint8Array(skipped + count);
    this.#at += count;
    return new Uint8Array(await subtle.encrypt(how, this.#key, zeros)).subarray(skipped);
  }
}

/** @param {string} context @param {Uint8Array} message what is signed for this purpose, and verifies for no other */
const bound = (context, message) => concat(utf8(`${PREFIX}${context}\0`), message);

/**
 * @param {Uint8Array} key @param {string} context @param {Uint8Array} message @param {Uint8Array} signature
 * @returns {Promise<boolean>} whether it is the signature of `key` for this purpose
 */
export async function signatureHolds(key, context, message, signature) {
  if (key.length !== 32 || signature.length !== 64) return false;
  try {
    const held = await subtle.importKey("raw", concat(key), "Ed25519", false, ["verify"]);
    return await subtle.verify("Ed25519", held, concat(signature), bound(context, message));
  } catch (error) {
    if (error instanceof DOMException && error.name === "NotSupportedError") throw error;
    return false; // not a point of the curve
  }
}

/**
 * `VerificationError`, naming `what`, unless it is the signature of `key` for this purpose.
 * @param {Uint8Array} key @param {string} context @param {Uint8Array} message @param {Uint8Array} signature @param {string} what
 */
export async function verify(key, context, message, signature, what) {
  if (!(await signatureHolds(key, context, message, signature))) {
    throw new VerificationError(`the signature on ${what} does not verify`);
  }
}

/** @param {"Ed25519" | "X25519"} kind @param {Uint8Array} secret @param {KeyUsage[]} uses */
async function privateKey(kind, secret, uses) {
  const pair = await subtle.importKey("pkcs8", concat(PKCS8[kind], secret), kind, true, uses);
  const { x } = await subtle.exportKey("jwk", pair);
  return { key: pair, public: fromBase64Url(/** @type {string} */ (x)) };
}

/** A private Ed25519 key. */
export class SigningKey {
  /** @param {CryptoKey} key @param {Bytes} publicKey */
  constructor(key, publicKey) {
    this.#key = key;
    this.public = publicKey;
  }
  #key;

  /** @param {Uint8Array} secret 32 bytes */
  static async from(secret) {
    const made = await privateKey("Ed25519", secret, ["sign"]);
    return new SigningKey(made.key, made.public);
  }

  /** @param {string} context @param {Uint8Array} message @returns {Promise<Bytes>} */
  async sign(context, message) {
    return new Uint8Array(await subtle.sign("Ed25519", this.#key, bound(context, message)));
  }
}

/**
 * @param {Uint8Array} secret 32 bytes @param {Uint8Array | null} peer whose public key to agree with
 * @returns {Promise<{ public: Bytes, agreed: Bytes }>} an error for a peer of low order, whose secret would be zero
 */
export async function x25519(secret, peer) {
  const own = await privateKey("X25519", secret, ["deriveBits"]);
  if (peer === null) return { public: own.public, agreed: new Uint8Array() };
  const other = await subtle.importKey("raw", concat(peer), "X25519", false, []);
  const agreed = new Uint8Array(await subtle.deriveBits({ name: "X25519", public: other }, own.key, 256));
  if (agreed.every((value) => value === 0)) throw new RangeError("a key of low order");
  return { public: own.public, agreed };
}

/** Whether this browser has all that is used here; false in those older than Ed25519 and X25519 in WebCrypto. */
export async function supported() {
  try {
    await Promise.all([SigningKey.from(new Uint8Array(32)), x25519(new Uint8Array(32), null)]);
    return true;
  } catch {
    return false;
  }
}
