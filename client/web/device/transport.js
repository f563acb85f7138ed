/**
 * How bytes reach a node: Connect's unary protocol over `fetch`, and how long to wait before what failed is tried again. A refusal
 * comes as a Connect error with the reason in a header.
 */
import { readReason, Refused, Unreachable } from "./errors.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */
/** @typedef {(url: string, request: RequestInit) => Promise<Response>} Fetch */

const [REASON_KEY, RETRY_KEY] = ["trimask-reason", "retry-after-ms"];
const FIRST_PAUSE_MS = 15_000;
export const LONGEST_PAUSE_MS = 6 * 3600 * 1000;
const MAX_RESPONSE_BYTES = 4 << 20;
/** Without a reason from the node itself, these say that it was not asked, or that nobody knows whether it was. */
const AGAIN = ["UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED", "UNKNOWN"];
/** What an answer that is no Connect error means, by its HTTP status. @type {Record<number, string>} */
const HTTP = { 400: "INTERNAL", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "UNIMPLEMENTED", 429: "UNAVAILABLE", 502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "UNAVAILABLE" };

export class Transport {
  /** @param {Fetch} [fetcher] @param {number} [timeoutMs] */
  constructor(fetcher = (url, request) => globalThis.fetch(url, request), timeoutMs = 15000) {
    this.#fetch = fetcher;
    this.#timeoutMs = timeoutMs;
  }
  #fetch;
  #timeoutMs;

  /**
   * The response's bytes; `Refused` if the node refused, `Unreachable` if it could not be asked.
   * @param {string} origin @param {string} method "/trimask_proto.v1.Service/Method" @param {Bytes} request @param {number} [timeoutMs]
   */
  async call(origin, method, request, timeoutMs = this.#timeoutMs) {
    const ended = new AbortController();
    const timer = setTimeout(() => ended.abort(), Math.min(timeoutMs, this.#timeoutMs));
    try {
      const response = await this.#fetch(origin + method, {
        method: "POST",
        headers: { "Content-Type": "application/proto", "Connect-Protocol-Version": "1" },
        body: request,
        credentials: "omit",
        cache: "no-store",
        redirect: "error",
        referrerPolicy: "no-referrer",
        signal: ended.signal,
      });
      const body = await readBody(response);
      if (response.ok && response.headers.get("content-type")?.startsWith("application/proto")) return body;
      throw refusalOf(origin, response, body);
    } catch (error) {
      if (error instanceof Refused || error instanceof Unreachable) throw error;
      const why = ended.signal.aborted ? "no answer in time; it may be busy, or the network slow" : "it could not be reached";
      throw new Unreachable(why, origin);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** @param {Response} response @returns {Promise<Bytes>} */
async function readBody(response) {
  const parts = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
    size += next.value.length;
    if (size > MAX_RESPONSE_BYTES) {
      await reader?.cancel();
      throw new Unreachable("its answer is too long", response.url);
    }
    parts.push(next.value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** @param {string} origin @param {Response} response @param {Bytes} body */
function refusalOf(origin, response, body) {
  const told = readError(body);
  const status = told === null ? (HTTP[response.status] ?? "UNKNOWN") : told.code;
  const word = response.headers.get(REASON_KEY);
  const problem = told?.message || `it answered with HTTP status ${response.status}`;
  if (word === null && AGAIN.includes(status)) return new Unreachable(problem, origin);
  return new Refused(readReason(word, status), problem, readRetry(response.headers.get(RETRY_KEY)));
}

/** A Connect error's code, by its gRPC name, and message. @param {Bytes} body */
function readError(body) {
  try {
    const { code, message } = JSON.parse(new TextDecoder().decode(body));
    if (typeof code !== "string") return null;
    return { code: code === "canceled" ? "CANCELLED" : code.toUpperCase(), message: typeof message === "string" ? message : "" };
  } catch {
    return null;
  }
}

/** How long the node asks to be left alone; a node cannot ask for more than six hours. @param {string | null} value */
const readRetry = (value) => (value !== null && /^[0-9]{1,11}$/.test(value) ? Math.min(Number(value), LONGEST_PAUSE_MS) : null);

/**
 * The pause after a failure: between half of a limit that doubles and all of it, so that those that failed together do not come back
 * together. @param {number} failures in a row, at least one @param {import("./crypto.js").RandomSource} source
 */
export function pauseMs(failures, source) {
  const limit = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(Math.max(failures, 1) - 1, 64));
  const data = source.read(4);
  const jitter = new DataView(data.buffer, data.byteOffset).getUint32(0) / 2 ** 32;
  return Math.round(limit * (0.5 + 0.5 * jitter));
}
