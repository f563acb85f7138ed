/**
 * Who would have to collude to recover people's rows: a coalition's knowledge, closed under the rules of linear algebra.
 * `trimask_core.rows.collusion_closure` states the rules and what they rest on; this repeats them, bit mask by bit mask.
 */
import { StudyError } from "../errors.js";

/** @typedef {{ parties: string[], exact: boolean, needsDevice: boolean }} Coalition */

const MOST_PARTIES = 30; // bits of a mask
const MOST_LISTED = 16; // parties up to which every coalition is tried

class Knowledge {
  /** @param {number} right @param {number} left */
  constructor(right, left) {
    this.stages = left + 1;
    this.everything = 2 ** right - 1;
    /** @type {number[]} */
    this.clear = new Array(this.stages).fill(0);
    /** @type {number[]} */
    this.masked = new Array(this.stages).fill(0);
    this.masks = 0;
    /** @type {boolean[]} */
    this.total = new Array(this.stages).fill(false);
    this.linked = Array.from({ length: this.stages }, (_, j) => 1 << j);
  }

  /** Stages i and j are now related; so is everything already related to either. @param {number} i @param {number} j */
  link(i, j) {
    const group = this.linked[i] | this.linked[j];
    for (let stage = 0; stage < this.stages; stage++) if ((group >> stage) & 1) this.linked[stage] = group;
  }

  /** unmask, add and remainder, at each stage. */
  withinStages() {
    let changed = false;
    for (let j = 0; j < this.stages; j++) {
      const [clear, masked] = [this.clear[j], this.masked[j]];
      const both = (clear | masked) & this.masks;
      this.clear[j] = clear | both;
      this.masked[j] = masked | both;
      changed ||= clear !== this.clear[j] || masked !== this.masked[j];
      const missing = this.everything & ~this.clear[j];
      if (!missing && !this.total[j]) {
        changed = this.total[j] = true;
      } else if (this.total[j] && missing && (missing & (missing - 1)) === 0) {
        changed = true;
        this.clear[j] = this.everything;
      }
    }
    return changed;
  }

  /** solve, align and move, for each pair of stages. @param {boolean} align */
  betweenStages(align) {
    let changed = false;
    for (let i = 0; i < this.stages; i++) {
      for (let j = i + 1; j < this.stages; j++) {
        if ((this.linked[i] >> j) & 1 || this.relate(i, j, align)) {
          const moved = [this.move(i, j), this.move(j, i)];
          changed ||= moved.includes(true);
        }
      }
    }
    return changed;
  }

  /** @param {number} i @param {number} j @param {boolean} align */
  relate(i, j, align) {
    const [one, other] = [this.clear[i], this.clear[j]];
    const solved = (one & other) !== 0 || (this.masked[i] & this.masked[j]) !== 0;
    const sums = align || this.total[i] === true || this.total[j] === true;
    const aligned = one !== 0 && other !== 0 && (one | other) === this.everything && sums;
    if (solved || aligned) this.link(i, j);
    return solved || aligned;
  }

  /** @param {number} i @param {number} j */
  move(i, j) {
    const [clear, masked, total] = [this.clear[j], this.masked[j], this.total[j]];
    this.clear[j] = clear | this.clear[i];
    this.masked[j] = masked | this.masked[i];
    this.total[j] = total === true || this.total[i] === true;
    return clear !== this.clear[j] || masked !== this.masked[j] || total !== this.total[j];
  }

  /** The one estimate too rough for `move` in general. */
  correlate() {
    const last = (this.everything + 1) >> 1;
    const start = this.clear[0];
    for (let j = 1; j < this.stages; j++) {
      const end = this.clear[j];
      if (this.total[j] && start && end && (start | end) & last) return true;
    }
    return false;
  }
}

/**
 * What a coalition, with any devices, knows in the end. Parties are numbered R_1.., L_1.., collector.
 * @param {number} right @param {number} left @param {number[]} unmasking @param {number} coalition a bit mask @param {boolean} align
 */
function closed(right, left, unmasking, coalition, align) {
  const known = new Knowledge(right, left);
  for (let k = 0; k < right; k++) {
    if ((coalition >> k) & 1) {
      known.clear[0] |= 1 << k;
      known.masked[0] |= 1 << k;
      known.masks |= 1 << k;
    }
  }
  unmasking.forEach((node, k) => {
    if ((coalition >> node) & 1) {
      known.masks |= 1 << k;
      known.masked[left] |= 1 << k;
      known.clear[left] |= 1 << k;
    }
  });
  for (let j = 1; j <= left; j++) {
    if ((coalition >> (right + j - 1)) & 1) {
      known.masked[j - 1] = known.masked[j] = known.everything;
      known.link(j - 1, j);
    }
  }
  if ((coalition >> (right + left)) & 1) known.total[left] = true;
  for (let changed = true; changed; ) {
    const within = known.withinStages();
    changed = known.betweenStages(align) || within;
  }
  return known;
}

/**
 * Whether a coalition, with any devices, gets the rows.
 * @param {number} right @param {number} left @param {number[]} unmasking @param {number} coalition a bit mask
 * @param {boolean} [align] false leaves the estimates out: rows then come out exactly
 */
export function breaks(right, left, unmasking, coalition, align = true) {
  const known = closed(right, left, unmasking, coalition, align);
  return known.total[0] === true || (align && known.correlate());
}

/**
 * Whether it sees them through the noise columns at least: all components but one, and that one under its right mask.
 * @param {number} right @param {number} left @param {number[]} unmasking @param {number} coalition a bit mask
 */
function blurs(right, left, unmasking, coalition) {
  const known = closed(right, left, unmasking, coalition, true);
  const missing = known.everything & ~known.clear[0];
  return (missing & (missing - 1)) === 0 && (known.masked[0] & missing) !== 0;
}

/** @param {number} right @param {number} left */
const partyNames = (right, left) => [
  ...Array.from({ length: right }, (_, k) => `R${k + 1}`),
  ...Array.from({ length: left }, (_, j) => `L${j + 1}`),
  "collector",
];

/** @param {number} right @param {number} left @param {string[]} unmasking */
export function refuseSingleBreaker(right, left, unmasking) {
  const names = partyNames(right, left);
  if (names.length > MOST_PARTIES) throw new StudyError(`this device knows studies of up to ${MOST_PARTIES} parties`);
  const nodes = unmasking.map((role) => names.indexOf(role));
  const alone = names.filter((_, party) => breaks(right, left, nodes, 1 << party));
  if (alone.length) {
    throw new StudyError(`each of ${alone.join(", ")} alone could recover answers: take no part`, "single_breaker");
  }
}

/**
 * Every breaking coalition no part of which breaks, smallest first; with very many parties, those of up to three.
 * @param {number} right @param {number} left @param {string[]} unmasking @returns {Coalition[]}
 */
export function minimalCoalitions(right, left, unmasking) {
  const names = partyNames(right, left);
  const nodes = unmasking.map((role) => names.indexOf(role));
  return minimal(names.length, (members) => breaks(right, left, nodes, members)).map((members) => {
    const parties = names.filter((_, party) => (members >> party) & 1);
    return {
      parties,
      exact: breaks(right, left, nodes, members, false),
      needsDevice: !parties.some((party) => party === "collector" || party.startsWith("R")),
    };
  });
}

/**
 * Every coalition that breaks nothing and sees answers through the noise columns, and no part of which does.
 * @param {number} right @param {number} left @param {string[]} unmasking @returns {string[][]}
 */
export function blurringCoalitions(right, left, unmasking) {
  const names = partyNames(right, left);
  const nodes = unmasking.map((role) => names.indexOf(role));
  const breaking = minimal(names.length, (members) => breaks(right, left, nodes, members));
  const seeing = minimal(names.length, (members) => breaks(right, left, nodes, members) || blurs(right, left, nodes, members));
  const only = seeing.filter((members) => !breaking.some((group) => (group & members) === group));
  return only.map((members) => names.filter((_, party) => (members >> party) & 1));
}

/** The smallest sets of parties of which something holds, no part of which it holds of. @param {number} count @param {(members: number) => boolean} holds */
function minimal(count, holds) {
  const largest = count > MOST_LISTED ? 3 : count;
  /** @type {number[]} */
  const found = [];
  for (let size = 1; size <= largest; size++) {
    for (const members of combinations(count, size)) {
      if (!found.some((smaller) => (smaller & members) === smaller) && holds(members)) found.push(members);
    }
  }
  return found;
}

/** Bit masks of `size` of `count`, in the order of their members. @param {number} count @param {number} size @returns {Generator<number>} */
function* combinations(count, size, first = 0) {
  if (size === 0) yield 0;
  else for (let k = first; k <= count - size; k++) for (const rest of combinations(count, size - 1, k + 1)) yield (1 << k) | rest;
}
