/** What a device never does and these tests do: open what was sealed, and read a share. */
import { gcmOpen, x25519 } from "../../client/web/device/crypto.js";
import { VerificationError } from "../../client/web/device/errors.js";
import { keySchedule, sharedSecret } from "../../client/web/device/hpke.js";
import { ELEMENT_BYTES, P } from "../../client/web/device/moments/field.js";

/**
 * What was sealed, or `VerificationError`.
 * @param {Uint8Array} secret @param {Uint8Array} sealed @param {Uint8Array} info @param {Uint8Array} [aad]
 */
export async function hpkeOpen(secret, sealed, info, aad = new Uint8Array()) {
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

/** @param {Uint8Array} data a value of P and above is refused @returns {bigint[]} */
export function unpack(data) {
  if (data.length % ELEMENT_BYTES) throw new VerificationError("field elements take 8 bytes each");
  const view = new DataView(data.buffer, data.byteOffset);
  return Array.from({ length: data.length / ELEMENT_BYTES }, (_, place) => {
    const value = view.getBigUint64(ELEMENT_BYTES * place, true);
    if (value >= P) throw new VerificationError("a field element must be below P = 2^61 - 1");
    return value;
  });
}
