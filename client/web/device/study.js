/**
 * The study: everything the parties agree on before the first answer, named by the SHA-256 of its canonical JSON.
 *
 * Every check that needs no statistics library is repeated here, so that a device does not have to trust whoever made the
 * study: `trimask_core.study.definition`. A setting this version does not know is refused, for it may change what a device must do.
 */
import { concat, equal, fromHex, toHex, utf8 } from "./bytes.js";
import { sha256 } from "./crypto.js";
import { StudyError } from "./errors.js";
import { PUBLIC_KEY_BYTES } from "./hpke.js";
import { canonicalJson, plain } from "./json.js";
import { readParty, readWeb } from "./party.js";
import { readProtection } from "./protection.js";
import { checkLetters, items, keysOf, objectOf, textOf, wholeOf } from "./reading.js";
import { Schema } from "./schema.js";
import { Weight } from "./weight.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */
/** @typedef {import("./json.js").JsonObject} JsonObject */
/** @typedef {import("./party.js").Party} Party */

export const FORMAT = "trimask-study/1";
const TEXTS = ["title", "purpose", "contact", "tls_roots", "admission", "admission_signer", "owner_key", "access", "licence"];
const NUMBERS = ["created_ms", "release_rows"];
const PARTS = ["format", "schema", "protection", "suite", "collector", "right", "left", "form", "web"];

/** @typedef {typeof import("./rows/study.js") | typeof import("./moments/study.js")} SuiteCode */

/**
 * The code of the study's suite, and not that of the other: a page is small. What sealing needs comes now too, since the network may
 * be gone by then.
 * @param {JsonObject} data @returns {Promise<SuiteCode>}
 */
async function suiteCode(data) {
  const { name } = objectOf(data["suite"], "suite");
  if (name === "rows") return (await Promise.all([import("./rows/study.js"), import("./rows/row.js")]))[0];
  if (name === "moments") return (await Promise.all([import("./moments/study.js"), import("./moments/report.js")]))[0];
  throw new StudyError("this version does not know it; a newer one may", "", "suite.name");
}

/** @param {string} reason @param {string} problem @param {string} [field] @returns {never} */
function impossible(reason, problem, field = "") {
  throw new StudyError(problem, reason, field);
}

/** @param {import("./json.js").Json | undefined} value @returns {import("./hpke.js").Sealing} */
function readSealing(value) {
  if (value === undefined) return "classical";
  if (value === "hybrid") return value;
  return impossible("sealing", "answers to this study are sealed in a way that this version cannot do, so it sends nothing", "sealing");
}

export class Study {
  /** Use `Study.read`. @param {JsonObject} data @param {Bytes} id @param {SuiteCode} code */
  constructor(data, id, code) {
    if (data["format"] !== FORMAT) throw new StudyError(`this is not a study of format ${FORMAT}`);
    keysOf(data, [...TEXTS, ...NUMBERS, ...PARTS], "study", ["reminders", "weight", "pilot", "sealing"]);
    this.id = id;
    const [title, purpose, contact, tlsRoots, admission, signer, ownerKey, access, licence] = TEXTS.map((name) => textOf(data[name], name));
    this.title = String(title);
    this.purpose = String(purpose);
    this.contact = String(contact);
    this.tlsRoots = String(tlsRoots);
    this.admission = String(admission);
    this.admissionSigner = String(signer);
    this.ownerKey = String(ownerKey);
    this.access = String(access);
    this.licence = String(licence);
    /** Whether right providers tell the owner which invitations were used; people are told. Written only where it is so. */
    this.reminders = "reminders" in data;
    if (this.reminders && data["reminders"] !== true) throw new StudyError("must be true where it is given", "", "reminders");
    this.createdMs = wholeOf(data["created_ms"], "created_ms");
    this.releaseRows = wholeOf(data["release_rows"], "release_rows");
    this.schema = new Schema(/** @type {JsonObject} */ (data["schema"]));
    this.protection = readProtection(data["protection"]);
    this.collector = readParty(data["collector"], "collector");
    this.right = items(data["right"], "right").map((party, k) => readParty(party, `R${k + 1}`));
    this.left = items(data["left"], "left").map((party, j) => readParty(party, `L${j + 1}`));
    /** What people are shown and asked, as it stands in the study, with ordinary numbers; null for a plain form of the schema. */
    this.form = data["form"] === null ? null : plain(objectOf(data["form"], "form"));
    /** Where the survey page may come from, and its hash; null in a study without one. */
    this.web = data["web"] === null ? null : readWeb(data["web"]);
    /** How much each person's answers count; null where all count the same. Written only where there is one. */
    this.weight = "weight" in data ? new Weight(data["weight"], this.schema) : null;
    // What shrinking rows takes from the moments, for who reads releases: signed with the study, and nothing to a device.
    if ("pilot" in data) keysOf(objectOf(data["pilot"], "pilot"), ["people", "mean", "factors", "rest"], "pilot", ["release"]);
    /** Of which kind the right providers' keys are. Written only where it is not classical, as it was before there were two. */
    this.sealing = readSealing(data["sealing"]);
    this.#checkAdmission();
    const suite = objectOf(data["suite"], "suite");
    this.suite = textOf(suite["name"], "suite.name");
    this.#rows = null;
    this.#moments = null;
    this.#code = code;
    this.#checkWeight();
    this.#readSuite(suite);
    this.#checkParties();
    checkLetters(data);
  }
  /** @type {import("./rows/study.js").RowsStudy | null} */
  #rows;
  /** @type {import("./moments/study.js").MomentsStudy | null} */
  #moments;
  /** @type {SuiteCode} */
  #code;
  #maskSeed = new Uint8Array();
  /** @type {Promise<import("./rows/row.js").RowFrame> | null} */
  #frame = null;
  /** @type {Bytes[]} */
  #commitments = [];

  /** @param {JsonObject} data @param {(id: Bytes) => void} [expected] throws for an id that is not wanted, before anything else is read */
  static async read(data, expected = () => undefined) {
    let canonical;
    try {
      canonical = canonicalJson(data);
    } catch {
      throw new StudyError("this study has text that is not Unicode, or a number that is not finite");
    }
    const id = await sha256(canonical);
    expected(id);
    return new Study(data, id, await suiteCode(data));
  }

  /** @param {JsonObject} suite */
  #readSuite(suite) {
    const { rowNorm, sigma, budget } = this.protection;
    if (!(sigma >= 0)) impossible("sigma", "must not be negative", "protection.sigma");
    if (budget !== null && sigma) impossible("budget", "a budget is for a study without noise of its own", "protection.budget");
    const sizes = { attributes: this.attributes, rowNorm, sigma, releaseRows: this.releaseRows };
    const around = { ...sizes, right: this.right.length, left: this.left.length };
    if ("RowsStudy" in this.#code) {
      if (budget !== null) impossible("budget", 'a budget needs suite = "moments", where nobody holds the sums', "protection.budget");
      if (!(0 < rowNorm && rowNorm <= this.schema.rowNorm * (1 + 1e-12))) {
        impossible("row_norm", `must be in (0, ${this.schema.rowNorm}], the schema's largest`, "protection.row_norm");
      }
      this.#rows = new this.#code.RowsStudy(suite, around);
    } else {
      if (!(rowNorm > 0)) impossible("row_norm", "must be above 0", "protection.row_norm");
      this.#moments = new this.#code.MomentsStudy(suite, around, this.schema, this.weight);
    }
  }

  #checkAdmission() {
    const [signer, key] = [this.admissionSigner, this.ownerKey];
    if (!["open", "invited"].includes(this.admission)) throw new StudyError("must be 'open' or 'invited'", "", "admission");
    if (!["public", "token"].includes(this.access)) throw new StudyError("must be 'public' or 'token'", "", "access");
    if (!/^[0-9a-f]{64}$/.test(key)) impossible("owner_key", "must be the key with which the owner orders the study closed", "owner_key");
    if (key === toHex(this.collector.identity)) impossible("owner_key", "must not be the collector's own", "owner_key");
    if (this.admission === "open") {
      if (this.reminders) impossible("reminders", "an open study has no invitations", "reminders");
      if (signer) impossible("admission_signer", "an open study has no invitations", "admission_signer");
      return;
    }
    // Who admits is somebody else than who collects: a collector could admit a fleet of its own around one person.
    if (signer !== "owner" && !this.right.some((_, k) => signer === `R${k + 1}`)) {
      impossible("admission_signer", "must be 'owner' or a right provider's role; the collector may not admit people", "admission_signer");
    }
  }

  #checkWeight() {
    if (this.weight === null) return;
    const { budget, public: promise } = this.protection;
    if (budget !== null) impossible("weight", "private answers are made for rows that all count the same", "weight");
    if (promise?.neighbours.relation === "unit") impossible("weight", "an answer that changes the weight moves the whole row", "weight");
    if ((this.suite === "rows") !== (this.weight.steps === 0)) impossible("weight", "steps are of the moments suite alone", "weight.steps");
  }

  #checkParties() {
    const parties = [...this.parties];
    const groups = [
      parties.map(([, party]) => toHex(party.identity)),
      parties.map(([, party]) => party.tlsName),
      this.right.map((party) => toHex(party.sealing)),
    ];
    if (groups.some((group) => new Set(group).size !== group.length)) {
      impossible("same_party_twice", "every party needs its own keys and its own TLS name");
    }
    for (const [role, party] of parties) {
      if (party.identity.length !== 32 || party.sealing.length !== (role.startsWith("R") ? PUBLIC_KEY_BYTES[this.sealing] : 0)) {
        impossible("bad_key", "its identity or sealing key is missing or has the wrong length", role);
      }
      // A page calls the collector and every right provider over HTTPS.
      if (this.web !== null && !role.startsWith("L") && !party.https) impossible("web_https", "is missing", `${role}.https`);
    }
  }

  /** p1, the number of columns an answer fills. */
  get attributes() {
    return this.schema.columns.length;
  }

  /** Every party by its role's name: R1.., L1.., collector. @returns {Map<string, Party>} */
  get parties() {
    const right = this.right.map((party, k) => /** @type {[string, Party]} */ ([`R${k + 1}`, party]));
    const left = this.left.map((party, j) => /** @type {[string, Party]} */ ([`L${j + 1}`, party]));
    return new Map([...right, ...left, ["collector", this.collector]]);
  }

  /** @param {string} role @returns {Party} */
  party(role) {
    const found = this.parties.get(role);
    if (!found) throw new StudyError(`this study has no party ${role}`);
    return found;
  }

  get rows() {
    if (!this.#rows) throw new StudyError("this study is of another suite: it has no blocks of rows");
    return this.#rows;
  }

  get moments() {
    if (!this.#moments) throw new StudyError("this study is of another suite: its moments are not summed in shares");
    return this.#moments;
  }

  /** The key of who signs invitations to this study. @returns {Bytes} */
  get admits() {
    if (this.admission !== "invited") throw new StudyError("this study is open: nobody is invited to it");
    return this.admissionSigner === "owner" ? fromHex(this.ownerKey) : this.party(this.admissionSigner).identity;
  }

  /** The root of a person's weight, by which the row is multiplied; 1 in a study without weights. @param {import("./schema.js").Answers} answers */
  rootOf(answers) {
    return this.weight === null ? 1 : this.weight.root(this.weight.of(this.schema.read(answers)));
  }

  /** With the seed of B_0, which must be the one the study commits to. @param {Uint8Array} seed */
  async useSeed(seed) {
    const committed = await sha256(concat(utf8("trimask/v1/mask-commitment\0"), seed));
    if (seed.length !== 32 || !equal(committed, this.rows.maskCommitment)) {
      impossible("bad_key", "mask_seed must be the 32 bytes the study's mask_commitment is the hash of", "mask_seed");
    }
    this.#maskSeed = concat(seed);
  }

  /** What right providers of the moments suite committed to with their approvals. @param {Bytes[]} commitments */
  useCommitments(commitments) {
    this.#commitments = commitments;
  }

  /** What every sealed parcel is bound to. @returns {Promise<Bytes>} */
  async binding() {
    if (this.suite === "rows") return this.id;
    if (this.#commitments.length !== this.right.length) {
      throw new StudyError("this copy of the study is without the approvals of all right providers");
    }
    return sha256(concat(utf8("trimask/v1/binding\0"), this.id, ...this.#commitments));
  }

  /** What the row arithmetic needs; expanding F is most of its time, and is done once. @returns {Promise<import("./rows/row.js").RowSettings>} */
  async rowSettings() {
    const { columns, tau, gridExponent, shareSteps } = this.rows;
    if (!this.#maskSeed.length) throw new StudyError("this copy of the study is without the seed of B_0, which devices mask with");
    const { RowFrame } = await import("./rows/row.js");
    this.#frame ??= RowFrame.expand(this.#maskSeed, this.attributes, columns);
    const { rowNorm, sigma } = this.protection;
    const row = { rowNorm, sigma, schemaRowNorm: this.schema.rowNorm, right: this.right.length };
    return { ...row, columns, tau, gridExponent, shareSteps, frame: await this.#frame };
  }
}
