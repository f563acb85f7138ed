/**
 * Invitations: the word of who admits people that one of them may submit once, and the link it travels in.
 *
 * The secret goes to nobody: a device shows the public half of the key it stands for, and that key's signature over the one
 * submission it admits: `trimask_core.submit.invitation` and `admission`.
 */
import { bigEndian, concat, fromBase64Url, readBigEndian, toBase64Url, utf8 } from "./bytes.js";
import { sha256, signatureHolds, SigningKey } from "./crypto.js";
import { InvitationError } from "./errors.js";
import { checkOrigin, shortCode } from "./party.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */

const [STUDY, SECRET, TIME, SIGNATURE] = [32, 16, 6, 64];
const FORMAT = 2;
export const INVITATION_BYTES = 1 + SECRET + TIME + SIGNATURE;
const OLDER_BYTES = 88; // the first format: an id that whoever saw it could use
const SCHEME = "trimask://";
const WEB = /^https?:\/\//i; // http on this machine alone
// What a message leaves in a link or around it: no character of these belongs in one, or can end one.
const UNSEEN = /[\s\u00ad\u200b-\u200f\u2060\ufeff]+/g;
const BEFORE = /^[<([{"'*«“‘„]+/;
const AFTER = /[.,;:!?…)\]}>"'*»”’،؛؟।。，、]+$/;
const NOT_WHOLE = "this invitation link is not whole; copy all of it from your message";

/** One person's admission to one study, until `expiresMs`. Whoever has the secret may use it. */
export class Invitation {
  /** @param {Bytes} studyId @param {Uint8Array} secret @param {number} expiresMs @param {Bytes} signature of who admits */
  constructor(studyId, secret, expiresMs, signature) {
    if (studyId.length !== STUDY || secret.length !== SECRET || !(expiresMs > 0)) {
      throw new InvitationError(`an invitation needs a study id, ${SECRET} bytes of its own, and a time it ends`);
    }
    this.studyId = studyId;
    this.#secret = concat(secret);
    this.expiresMs = expiresMs;
    this.signature = signature;
  }
  #secret;

  /** @param {Bytes} studyId @param {Uint8Array} data what a link carries beside the study's id */
  static fromBytes(studyId, data) {
    if (data.length === OLDER_BYTES) {
      throw new InvitationError("this invitation is of an older format, which every provider could use; ask for a new one");
    }
    if (data.length !== INVITATION_BYTES) throw new InvitationError(`an invitation has ${INVITATION_BYTES} bytes`);
    if (data[0] !== FORMAT) throw new InvitationError("this invitation is of a format that a newer version may know");
    const [secret, rest] = [data.subarray(1, 1 + SECRET), data.slice(1 + SECRET)];
    return new Invitation(studyId, secret, Number(readBigEndian(rest.subarray(0, TIME))), rest.slice(TIME));
  }

  /** For the device's own encrypted store; it is sent to nobody. */
  toBytes() {
    return concat(Uint8Array.of(FORMAT), this.#secret, bigEndian(this.expiresMs, TIME), this.signature);
  }

  async #key() {
    return SigningKey.from(await sha256(concat(utf8("trimask/v1/invitation-key\0"), this.studyId, this.#secret)));
  }

  /** `InvitationError` unless who admits, known by this key, signed it. Expiry is the caller's to check. @param {Uint8Array} signer */
  async verify(signer) {
    const message = concat(this.studyId, (await this.#key()).public, bigEndian(this.expiresMs, 8));
    if (!(await signatureHolds(signer, "invited", message, this.signature))) {
      throw new InvitationError("the signature on the invitation does not verify; ask for a new one");
    }
  }

  /**
   * What a device shows to every right provider beside a submission, and can be used with no other. Without sealed parts it
   * keeps a submission out whose parts the device has no longer.
   * @param {Uint8Array} submissionId @param {Uint8Array[]} sealed @returns {Promise<Bytes>}
   */
  async admit(submissionId, sealed) {
    const [key, digests] = [await this.#key(), await Promise.all(sealed.map(sha256))];
    const signed = await key.sign("admission", concat(this.studyId, submissionId, bigEndian(digests.length, 4), ...digests));
    return concat(Uint8Array.of(FORMAT), key.public, bigEndian(this.expiresMs, TIME), this.signature, signed, ...digests);
  }
}

/**
 * What a person is sent: where the study is, which study it must be, and the invitation if there is one. As text,
 * https://HOST/s/SHORT#CODE where a page is, everything secret after the #; trimask://HOST:PORT/join/CODE for the app alone.
 */
export class Link {
  /** @param {string} address the origin of a page's host, or the collector's host:port @param {Bytes} studyId @param {Invitation | null} invitation */
  constructor(address, studyId, invitation) {
    this.address = address;
    this.studyId = studyId;
    this.invitation = invitation;
  }

  /** The study id, and the invitation if there is one. */
  get code() {
    return toBase64Url(concat(this.studyId, this.invitation?.toBytes() ?? new Uint8Array()));
  }

  /** Where the page is, whose folder also has the study (study.json), without anything secret; null in a link for the app. */
  get page() {
    return WEB.test(this.address) ? `${this.address}/s/${shortCode(this.studyId)}` : null;
  }

  toString() {
    return this.page === null ? `${SCHEME}${this.address}/join/${this.code}` : `${this.page}#${this.code}`;
  }

  /** Reads a link as a person pasted it, or as it stands in the address bar. @param {string} pasted */
  static parse(pasted) {
    const text = tidy(pasted);
    if (WEB.test(text)) return Link.#parseWeb(text);
    if (!text.toLowerCase().startsWith(SCHEME)) {
      throw new InvitationError(`an invitation link begins with https:// or ${SCHEME}; copy the whole of it from your message`);
    }
    const [, address = "", code = ""] = /^(.*?)\/join\/(.*)$/s.exec(text.slice(SCHEME.length)) ?? [];
    const [, host, port] = /^(.+):([0-9]+)$/.exec(address) ?? [];
    if (!host || !(Number(port) > 0 && Number(port) < 65536) || !code) throw new InvitationError(NOT_WHOLE);
    const { studyId, invitation } = readCode(code);
    return new Link(address, studyId, invitation);
  }

  /** @param {string} text */
  static #parseWeb(text) {
    const [, page = "", code = ""] = /^([^#]*)#?(.*)$/s.exec(text) ?? [];
    const [, origin = "", short = ""] = /^(.*?)\/s\/(.*)$/s.exec(page.replace(/\?.*$/s, "").replace(/\/+$/, "")) ?? [];
    if (!short || short.includes("/")) {
      throw new InvitationError("this web address is no invitation: one has /s/ and a short code in it; copy all of it from your message");
    }
    if (!code) {
      throw new InvitationError("this invitation link is without its secret part, which begins with #; copy all of it from your message");
    }
    try {
      checkOrigin(origin.toLowerCase(), "this invitation link", true);
    } catch (error) {
      throw new InvitationError(error instanceof Error ? error.message : NOT_WHOLE);
    }
    const { studyId, invitation } = readCode(code);
    const link = new Link(origin.toLowerCase(), studyId, invitation);
    if (short.toLowerCase() !== shortCode(studyId)) {
      throw new InvitationError("this invitation link was changed: its address is that of another study");
    }
    return link;
  }
}

/** Mail programs break long lines, encode characters and take the sentence's full stop for a part of the link. @param {string} pasted */
function tidy(pasted) {
  let text = pasted;
  try {
    text = decodeURIComponent(pasted);
  } catch {
    // a % that encodes nothing: refused below
  }
  return text.replace(UNSEEN, "").replace(BEFORE, "").replace(AFTER, "");
}

/** @param {string} code base64url of the study id, and of the invitation if there is one */
export function readCode(code) {
  let data;
  try {
    data = fromBase64Url(code.replace(/[?&].*$/s, "")); // what trackers append
  } catch {
    throw new InvitationError("this invitation link has a character that does not belong in it");
  }
  if (![STUDY, STUDY + OLDER_BYTES, STUDY + INVITATION_BYTES].includes(data.length)) throw new InvitationError(NOT_WHOLE);
  const [studyId, rest] = [data.slice(0, STUDY), data.slice(STUDY)];
  return { studyId, invitation: rest.length ? Invitation.fromBytes(studyId, rest) : null };
}
