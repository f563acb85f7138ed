/** How long to wait before something that failed is tried again: a limit that doubles, and jitter below it. */

const FIRST_MS = 15_000;
export const LONGEST_PAUSE_MS = 6 * 3600 * 1000;

/** Between half of the limit and all of it, so that those that failed together do not come back together. @param {number} failures in a row, at least one @param {import("./crypto.js").RandomSource} source */
export function pauseMs(failures, source) {
  const limit = Math.min(LONGEST_PAUSE_MS, FIRST_MS * 2 ** Math.min(Math.max(failures, 1) - 1, 64));
  const data = source.read(4);
  const jitter = new DataView(data.buffer, data.byteOffset).getUint32(0) / 2 ** 32;
  return Math.round(limit * (0.5 + 0.5 * jitter));
}
