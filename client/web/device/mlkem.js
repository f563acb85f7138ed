/**
 * ML-KEM-768 (FIPS 203), the half that a device needs: `encapsulate` to a public key, with SHA-3 and SHAKE (FIPS 202), which WebCrypto
 * lacks. It mirrors `trimask_core.crypto.mlkem`. No branch and no index depends on a secret; what is secret is drawn for one message.
 */
import { concat } from "./bytes.js";
import { VerificationError } from "./errors.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */

export const PUBLIC_BYTES = 1184;
const [Q, N, K] = [3329, 256, 3];

/** Of the 24 rounds, in halves, the low one first. */
const ROUNDS = new Int32Array(48);
/** Where rho and pi move the lanes, in the order in which they follow each other, and how far each turns. */
const PLACES = new Uint8Array(24);
const TURNS = new Uint8Array(24);
for (let t = 0, x = 1, y = 0; t < 24; t++) {
  TURNS[t] = (((t + 1) * (t + 2)) / 2) % 64;
  [x, y] = [y, (2 * x + 3 * y) % 5];
  PLACES[t] = 2 * (x + 5 * y);
}
for (let round = 0, register = 1; round < 24; round++) {
  for (let j = 0; j < 7; j++) {
    const bit = (1 << j) - 1;
    ROUNDS[2 * round + (bit >> 5)] ^= (register & 1) << (bit & 31);
    register = (register << 1) ^ ((register >> 7) * 0x171);
  }
}

/** Keccak-f[1600]. @param {Int32Array} s 25 lanes in halves, the low one first */
function permute(s) {
  const c = new Int32Array(10);
  const row = new Int32Array(10);
  for (let round = 0; round < 24; round++) {
    for (let x = 0; x < 10; x++) c[x] = s[x] ^ s[x + 10] ^ s[x + 20] ^ s[x + 30] ^ s[x + 40];
    for (let x = 0; x < 10; x += 2) {
      const [before, after] = [(x + 8) % 10, (x + 2) % 10];
      const low = c[before] ^ ((c[after] << 1) | (c[after + 1] >>> 31));
      const high = c[before + 1] ^ ((c[after + 1] << 1) | (c[after] >>> 31));
      for (let at = x; at < 50; at += 10) {
        s[at] ^= low;
        s[at + 1] ^= high;
      }
    }
    let [low, high] = [s[2], s[3]];
    for (let t = 0; t < 24; t++) {
      const [at, turn] = [PLACES[t], TURNS[t] & 31];
      if (TURNS[t] > 32) [low, high] = [high, low];
      const turned = [(low << turn) | (high >>> (32 - turn)), (high << turn) | (low >>> (32 - turn))];
      [low, high] = [s[at], s[at + 1]];
      [s[at], s[at + 1]] = turned;
    }
    for (let y = 0; y < 50; y += 10) {
      row.set(s.subarray(y, y + 10));
      for (let x = 0; x < 10; x++) s[y + x] ^= ~row[(x + 2) % 10] & row[(x + 4) % 10];
    }
    s[0] ^= ROUNDS[2 * round];
    s[1] ^= ROUNDS[2 * round + 1];
  }
}

/** @param {Uint8Array} data @param {number} rate bytes a permutation @param {number} suffix @param {number} length @returns {Bytes} */
function sponge(data, rate, suffix, length) {
  const state = new Int32Array(50);
  const padded = new Uint8Array(rate * (Math.floor(data.length / rate) + 1));
  padded.set(data);
  padded[data.length] = suffix;
  padded[padded.length - 1] |= 128;
  for (let start = 0; start < padded.length; start += rate) {
    for (let i = 0; i < rate; i++) state[i >> 2] ^= padded[start + i] << (8 * (i & 3));
    permute(state);
  }
  const out = new Uint8Array(length);
  for (let i = 0; i < length; i++) {
    if (i && i % rate === 0) permute(state);
    out[i] = state[(i % rate) >> 2] >> (8 * (i & 3));
  }
  return out;
}

/** @param {Uint8Array} data */
export const sha3 = (data) => sponge(data, 136, 6, 32);
/** @param {Uint8Array} data */
const sha3Long = (data) => sponge(data, 72, 6, 64);
/** @param {Uint8Array} data @param {number} length */
const shake128 = (data, length) => sponge(data, 168, 31, length);
/** @param {Uint8Array} data @param {number} length */
export const shake256 = (data, length) => sponge(data, 136, 31, length);

/** Powers of 17 modulo q, by the reversed bits of their places. @param {(reversed: number) => number} exponent */
const powers = (exponent) =>
  Int32Array.from({ length: 128 }, (_, i) => {
    let [value, reversed] = [1, 0];
    for (let bit = 0; bit < 7; bit++) reversed |= ((i >> bit) & 1) << (6 - bit);
    for (let e = exponent(reversed); e > 0; e--) value = (value * 17) % Q;
    return value;
  });
const ZETAS = powers((reversed) => reversed);
const GAMMAS = powers((reversed) => 2 * reversed + 1);

/** Whole numbers of so many bits, the lowest first; without a reduction. @param {Uint8Array} data @param {number} bits */
function unpack(data, bits) {
  const out = new Int32Array((8 * data.length) / bits);
  for (let i = 0, held = 0, count = 0, at = 0; i < out.length; i++, held >>= bits, count -= bits) {
    for (; count < bits; count += 8) held |= data[at++] << count;
    out[i] = held & ((1 << bits) - 1);
  }
  return out;
}

/** What `unpack` reads, of nearest(2^bits x / q) mod 2^bits; the quotient without a division. @param {Int32Array} poly @param {number} bits */
function compressed(poly, bits) {
  const out = new Uint8Array((N * bits) / 8);
  for (let i = 0, held = 0, count = 0, at = 0; i < N; i++) {
    held |= (Math.floor((((poly[i] << bits) + 1664) * 1290168) / 2 ** 32) & ((1 << bits) - 1)) << count;
    for (count += bits; count >= 8; count -= 8, held >>= 8) out[at++] = held;
  }
  return out;
}

/** SampleNTT: of public bytes alone, so it may reject. @param {Uint8Array} seed */
function uniform(seed) {
  for (let size = 672; ; size += 168) {
    const found = unpack(shake128(seed, size), 12).filter((value) => value < Q);
    if (found.length >= N) return found.subarray(0, N);
  }
}

/** SamplePolyCBD: differences of two sums of two bits. @param {Uint8Array} seed @param {number} number */
const small = (seed, number) =>
  unpack(shake256(concat(seed, Uint8Array.of(number)), 128), 4).map((g) => (g & 1) + ((g >> 1) & 1) - ((g >> 2) & 1) - (g >> 3));

/** @param {number} value */
const reduced = (value) => ((value % Q) + Q) % Q;

/** The transform. @param {Int32Array} poly */
function ntt(poly) {
  const f = poly.map(reduced);
  for (let size = 128, i = 1; size >= 2; size /= 2) {
    for (let start = 0; start < N; start += 2 * size, i++) {
      for (let j = start; j < start + size; j++) {
        const t = (ZETAS[i] * f[j + size]) % Q;
        [f[j], f[j + size]] = [(f[j] + t) % Q, (f[j] - t + Q) % Q];
      }
    }
  }
  return f;
}

/** Its inverse. @param {Int32Array} poly */
function back(poly) {
  const f = poly.slice();
  for (let size = 2, i = 127; size <= 128; size *= 2) {
    for (let start = 0; start < N; start += 2 * size, i--) {
      for (let j = start; j < start + size; j++) {
        const [low, high] = [f[j], f[j + size]];
        [f[j], f[j + size]] = [(low + high) % Q, (ZETAS[i] * (high - low + Q)) % Q];
      }
    }
  }
  return f.map((value) => (value * 3303) % Q);
}

/** The sum of products of transforms, pair by pair modulo X^2 - gamma. @param {Int32Array[]} left @param {Int32Array[]} right */
function inner(left, right) {
  const total = new Int32Array(N);
  left.forEach((a, k) => {
    const b = right[k];
    for (let i = 0; i < N; i += 2) {
      total[i] = (total[i] + a[i] * b[i] + ((a[i + 1] * b[i + 1]) % Q) * GAMMAS[i / 2]) % Q;
      total[i + 1] = (total[i + 1] + a[i] * b[i + 1] + a[i + 1] * b[i]) % Q;
    }
  });
  return total;
}

/**
 * ML-KEM.Encaps. A key that is not in its canonical form is refused (FIPS 203, section 7.2).
 * @param {Uint8Array} key @param {Uint8Array} random 32 fresh bytes: this message's and no other's
 * @returns {{ secret: Bytes, ciphertext: Bytes }}
 */
export function encapsulate(key, random) {
  const numbers = unpack(key.subarray(0, 1152), 12);
  if (key.length !== PUBLIC_BYTES || random.length !== 32 || numbers.some((value) => value >= Q)) {
    throw new VerificationError("this is not an ML-KEM-768 public key");
  }
  const rho = key.subarray(1152);
  const shared = sha3Long(concat(random, sha3(key)));
  const coins = shared.subarray(32);
  const places = Array.from({ length: K }, (_, i) => i);
  const y = places.map((i) => ntt(small(coins, i)));
  const parts = places.map((i) => {
    const column = places.map((j) => uniform(concat(rho, Uint8Array.of(i, j)))); // of A transposed
    const e = small(coins, K + i);
    return compressed(back(inner(column, y)).map((value, at) => reduced(value + e[at])), 10);
  });
  const t = places.map((i) => numbers.subarray(i * N, (i + 1) * N));
  const [e, message] = [small(coins, 2 * K), unpack(random, 1)];
  const v = back(inner(t, y)).map((value, at) => reduced(value + e[at] + message[at] * 1665));
  return { secret: shared.slice(0, 32), ciphertext: concat(...parts, compressed(v, 4)) };
}
