// A QR code (ISO/IEC 18004) of bytes, at error correction level L: it is shown on a screen, where nothing gets dirty, and fewer
// modules are easier for a camera than more correction.

const EC_BYTES = [
  0, 7, 10, 15, 20, 26, 18, 20, 24, 30, 18, 20, 24, 26, 30, 22, 24, 28, 30, 28, 28, 28, 28, 30, 30, 26, 28, 30, 30, 30, 30, 30,
  30, 30, 30, 30, 30, 30, 30, 30, 30,
];
const BLOCKS = [
  0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 6, 6, 6, 6, 7, 8, 8, 9, 9, 10, 12, 12, 12, 13, 14, 15, 16, 17, 18, 19, 19, 20, 21,
  22, 24, 25,
];
const LEVEL_L = 1;
/** @type {((row: number, column: number) => boolean)[]} */
const MASKS = [
  (r, c) => (r + c) % 2 === 0,
  (r) => r % 2 === 0,
  (_, c) => c % 3 === 0,
  (r, c) => (r + c) % 3 === 0,
  (r, c) => (Math.floor(r / 2) + Math.floor(c / 3)) % 2 === 0,
  (r, c) => ((r * c) % 2) + ((r * c) % 3) === 0,
  (r, c) => (((r * c) % 2) + ((r * c) % 3)) % 2 === 0,
  (r, c) => (((r + c) % 2) + ((r * c) % 3)) % 2 === 0,
];

/** A square of modules, dark or light; `taken` are those that carry no data. */
class Grid {
  /** @param {number} size */
  constructor(size) {
    this.size = size;
    this.cells = new Uint8Array(size * size);
    this.taken = new Uint8Array(size * size);
  }

  /** @param {number} row @param {number} column */
  dark(row, column) {
    return this.cells[row * this.size + column] === 1;
  }

  /** @param {number} row @param {number} column @param {boolean} dark */
  set(row, column, dark) {
    this.cells[row * this.size + column] = dark ? 1 : 0;
  }

  /** One of the patterns a camera looks for; what falls outside is left out. @param {number} row @param {number} column @param {boolean} dark */
  fix(row, column, dark) {
    if (row < 0 || column < 0 || row >= this.size || column >= this.size) return;
    this.set(row, column, dark);
    this.taken[row * this.size + column] = 1;
  }

  /** @param {number} row @param {number} column */
  free(row, column) {
    return this.taken[row * this.size + column] === 0;
  }
}

/** The modules of the smallest code that holds the text, row by row: true is dark.
 * @param {string} text @returns {boolean[][]} */
export function qrModules(text) {
  const data = new TextEncoder().encode(text);
  let version = 1;
  while (version <= 40 && capacity(version) < data.length) version += 1;
  if (version > 40) throw new RangeError("too long for a QR code");
  const codewords = interleaved(packed(data, version), version);
  const drawings = MASKS.map((mask, number) => drawn(version, codewords, mask, number)).map((grid) => ({ grid, hard: penalty(grid) }));
  const { grid } = drawings.reduce((best, other) => (other.hard < best.hard ? other : best));
  const places = Array.from({ length: grid.size }, (_, place) => place);
  return places.map((row) => places.map((column) => grid.dark(row, column)));
}

/** @param {number} version */
function rawBits(version) {
  let bits = (16 * version + 128) * version + 64;
  if (version >= 2) {
    const aligned = Math.floor(version / 7) + 2;
    bits -= (25 * aligned - 10) * aligned - 55;
    if (version >= 7) bits -= 36;
  }
  return bits;
}

/** @param {number} version */
const dataBytes = (version) => Math.floor(rawBits(version) / 8) - EC_BYTES[version] * BLOCKS[version];

/** @param {number} version */
const capacity = (version) => dataBytes(version) - (version < 10 ? 2 : 3);

/** Mode, count, bytes, padding.
 * @param {Uint8Array} data @param {number} version */
function packed(data, version) {
  const bits = [0, 1, 0, 0];
  const push = (/** @type {number} */ value, /** @type {number} */ count) => {
    for (let i = count - 1; i >= 0; i -= 1) bits.push((value >> i) & 1);
  };
  push(data.length, version < 10 ? 8 : 16);
  for (const byte of data) push(byte, 8);
  const whole = dataBytes(version) * 8;
  push(0, Math.min(4, whole - bits.length));
  push(0, (8 - (bits.length % 8)) % 8);
  for (let pad = 0xec; bits.length < whole; pad ^= 0xec ^ 0x11) push(pad, 8);
  const bytes = new Uint8Array(whole / 8);
  bits.forEach((bit, i) => { bytes[i >> 3] |= (bit << (7 - (i & 7))); });
  return bytes;
}

/** Multiplication in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1.
 * @param {number} x @param {number} y */
function times(x, y) {
  let z = 0;
  for (let i = 7; i >= 0; i -= 1) z = ((z << 1) ^ ((z >> 7) * 0x11d)) ^ (((y >> i) & 1) * x);
  return z;
}

/** The Reed-Solomon remainder of a block.
 * @param {Uint8Array} block @param {number} degree */
function remainder(block, degree) {
  const divisor = new Uint8Array(degree);
  divisor[degree - 1] = 1;
  for (let root = 1, i = 0; i < degree; i += 1, root = times(root, 2)) {
    for (let j = 0; j < degree; j += 1) divisor[j] = times(divisor[j], root) ^ (divisor[j + 1] ?? 0);
  }
  const rest = new Uint8Array(degree);
  for (const byte of block) {
    const factor = byte ^ rest[0];
    rest.copyWithin(0, 1);
    rest[degree - 1] = 0;
    for (let j = 0; j < degree; j += 1) rest[j] ^= times(divisor[j], factor);
  }
  return rest;
}

/** Blocks with their remainders, byte by byte from each in turn.
 * @param {Uint8Array} data @param {number} version */
function interleaved(data, version) {
  const [count, correction] = [BLOCKS[version], EC_BYTES[version]];
  const raw = Math.floor(rawBits(version) / 8);
  const shorter = count - (raw % count);
  const length = Math.floor(raw / count) - correction;
  const blocks = [];
  for (let i = 0, start = 0; i < count; i += 1) {
    const block = data.subarray(start, start + length + (i < shorter ? 0 : 1));
    start += block.length;
    blocks.push({ block, rest: remainder(block, correction) });
  }
  const result = [];
  for (let i = 0; i <= length; i += 1) for (const { block } of blocks) if (i < block.length) result.push(block[i]);
  for (let i = 0; i < correction; i += 1) for (const { rest } of blocks) result.push(rest[i]);
  return result;
}

/** @param {number} version @param {number[]} codewords @param {(row: number, column: number) => boolean} mask @param {number} number */
function drawn(version, codewords, mask, number) {
  const size = version * 4 + 17;
  const grid = new Grid(size);
  for (let i = 0; i < size; i += 1) {
    grid.fix(6, i, i % 2 === 0);
    grid.fix(i, 6, i % 2 === 0);
  }
  for (const [row, column] of /** @type {[number, number][]} */ ([[3, 3], [3, size - 4], [size - 4, 3]])) {
    rings(grid, row, column, 4, [2, 4]);
  }
  const places = alignment(version);
  const last = places.length - 1;
  places.forEach((row, i) => places.forEach((column, j) => {
    const corner = (i === 0 && (j === 0 || j === last)) || (i === last && j === 0);
    if (!corner) rings(grid, row, column, 2, [1]);
  }));
  drawFormat(grid, number);
  drawVersion(grid, version);
  let bit = 0;
  for (let right = size - 1; right >= 1; right -= 2) {
    if (right === 6) right = 5;
    for (let step = 0; step < size; step += 1) {
      const row = ((right + 1) & 2) === 0 ? size - 1 - step : step;
      for (const column of [right, right - 1]) {
        if (!grid.free(row, column)) continue;
        const dark = (((codewords[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1) === 1;
        grid.set(row, column, dark !== mask(row, column));
        bit += 1;
      }
    }
  }
  return grid;
}

/** Square rings round a middle, dark but for some. @param {Grid} grid @param {number} row @param {number} column @param {number} reach @param {number[]} light */
function rings(grid, row, column, reach, light) {
  for (let y = -reach; y <= reach; y += 1) {
    for (let x = -reach; x <= reach; x += 1) grid.fix(row + y, column + x, !light.includes(Math.max(Math.abs(x), Math.abs(y))));
  }
}

/** @param {number} version */
function alignment(version) {
  if (version === 1) return [];
  const count = Math.floor(version / 7) + 2;
  const step = version === 32 ? 26 : Math.ceil((version * 4 + 4) / (count * 2 - 2)) * 2;
  const places = [6];
  for (let place = version * 4 + 10; places.length < count; place -= step) places.splice(1, 0, place);
  return places;
}

/** @param {Grid} grid @param {number} mask */
function drawFormat(grid, mask) {
  const { size } = grid;
  const set = (/** @type {number} */ row, /** @type {number} */ column, /** @type {boolean} */ dark) => grid.fix(row, column, dark);
  const data = (LEVEL_L << 3) | mask;
  let rest = data;
  for (let i = 0; i < 10; i += 1) rest = (rest << 1) ^ ((rest >> 9) * 0x537);
  const bits = ((data << 10) | rest) ^ 0x5412;
  const bit = (/** @type {number} */ i) => ((bits >> i) & 1) === 1;
  for (let i = 0; i <= 5; i += 1) set(i, 8, bit(i));
  set(7, 8, bit(6));
  set(8, 8, bit(7));
  set(8, 7, bit(8));
  for (let i = 9; i < 15; i += 1) set(8, 14 - i, bit(i));
  for (let i = 0; i < 8; i += 1) set(8, size - 1 - i, bit(i));
  for (let i = 8; i < 15; i += 1) set(size - 15 + i, 8, bit(i));
  set(size - 8, 8, true);
}

/** @param {Grid} grid @param {number} version */
function drawVersion(grid, version) {
  if (version < 7) return;
  let rest = version;
  for (let i = 0; i < 12; i += 1) rest = (rest << 1) ^ ((rest >> 11) * 0x1f25);
  const bits = (version << 12) | rest;
  for (let i = 0; i < 18; i += 1) {
    const dark = ((bits >> i) & 1) === 1;
    const [a, b] = [grid.size - 11 + (i % 3), Math.floor(i / 3)];
    grid.fix(a, b, dark);
    grid.fix(b, a, dark);
  }
}

/** How hard a camera finds it: runs, blocks, false finders, too much of one colour.
 * @param {Grid} grid */
function penalty(grid) {
  const places = Array.from({ length: grid.size }, (_, place) => place);
  let total = 0;
  for (const i of places) {
    total += linePenalty(places.map((j) => (grid.dark(i, j) ? "1" : "0")).join(""));
    total += linePenalty(places.map((j) => (grid.dark(j, i) ? "1" : "0")).join(""));
    if (i === 0) continue;
    for (const j of places.slice(1)) {
      const four = Number(grid.dark(i, j)) + Number(grid.dark(i - 1, j)) + Number(grid.dark(i, j - 1)) + Number(grid.dark(i - 1, j - 1));
      if (four === 0 || four === 4) total += 3;
    }
  }
  const dark = grid.cells.reduce((sum, cell) => sum + cell, 0);
  return total + 10 * Math.floor(Math.abs((dark * 20) / grid.cells.length - 10));
}

/** @param {string} line */
function linePenalty(line) {
  const runs = line.match(/0{5,}|1{5,}/g) ?? [];
  const finders = line.match(/(?=10111010000|00001011101)/g) ?? [];
  return runs.reduce((sum, run) => sum + run.length - 2, 0) + finders.length * 40;
}
