// The way through the page: which view is shown, and what each thing a person does leads to.

import { utf8 } from "../device/bytes.js";
import { sha256 } from "../device/crypto.js";
import { parseDirectory, Refused, toHex } from "../device/index.js";
import { dateOrder, dateParts } from "../form/parse_input.js";
import { catalogue, direction } from "./catalogue.js";
import { h } from "./dom.js";
import { Participation } from "./participation.js";
import { causeWords, explain, PageError } from "./problem.js";

/** @typedef {import("./keeper.js").Keeper} Keeper */
/** @typedef {import("./keeper.js").Opened} Opened */
/** @typedef {import("./keeper.js").Entry} Entry */
/** @typedef {import("../form/question.js").Question} Question */
/** @typedef {"starting" | "study" | "consent" | "eligibility" | "question" | "review" | "sending" | "discard" | "forget" | "receipt"
 *   | "withdraw" | "leave" | "left" | "problem"} Screen */
/** @typedef {"waiting" | "busy" | "done" | "later" | "failed"} PartState */

/** What stands for a time that is typed in part: the browser keeps it to itself, and it is no answer. */
export const HALF = "?";
const SETTLED = ["sent", "withdrawing", "withdrawn", "too_late"];

/** From a link through a study's form to a receipt. `changed` shows the view anew. */
export class Guide {
  /** @param {import("./catalogue.js").Catalogue} words @param {string} language @param {() => void} changed */
  constructor(words, language, changed) {
    this.words = words;
    this.language = language;
    this.changed = changed;
    /** @type {Screen} */ this.screen = "starting";
    this.busy = false;
    /** @type {Record<string, string>} */ this.problems = {};
    /** @type {import("./problem.js").Problem} */ this.problem = { kind: "other", detail: "", again: false, values: {} };
    /** @type {Entry | null} */ this.entry = null;
    /** @type {Record<string, PartState>} */ this.calls = {};
    this.unkept = false;
    this.consentHash = "";
    /** @type {(() => Promise<void>) | null} */ this.repeat = null;
    /** @type {Promise<unknown>} */ this.saving = Promise.resolve();
    /** @type {object | null} */ this.newest = null;
    /** @type {import("./keeper.js").Directory | null} */ this.directory = null;
    this.directoryText = "";
    this.directoryProblem = false;
    this.moreOpen = false;
    this.another = false;
    /** @type {Keeper | undefined} */ this.maybeKeeper = undefined;
    /** @type {Opened | undefined} */ this.maybeOpened = undefined;
    /** @type {Participation | undefined} */ this.maybePart = undefined;
  }

  /** @param {string} key @param {Record<string, unknown>} [values] */
  say(key, values) {
    return this.words.say(key, values);
  }

  /** What marks a text of the study's own, which may be in another language than the page's words. */
  get inForm() {
    const language = this.formLanguage;
    return language === this.words.language ? {} : { lang: language, dir: direction(language) };
  }

  get formLanguage() {
    return this.maybePart?.language ?? this.words.language;
  }

  get part() {
    return there(this.maybePart, "a page of the form without a study");
  }

  get keeper() {
    return there(this.maybeKeeper, "nothing is kept before a study is open");
  }

  get opened() {
    return there(this.maybeOpened, "a page of a study without one");
  }

  get shown() {
    return there(this.entry, "a page about a submission without one");
  }

  get title() {
    const opened = this.maybeOpened;
    return opened ? (opened.form.title?.[this.part.language] ?? opened.study.title) : this.say("app");
  }

  // A study

  /** @param {Keeper} keeper @param {Opened} opened @param {boolean} [check] whether what would be refused is asked for */
  async open(keeper, opened, check = true) {
    this.maybeKeeper = keeper;
    this.maybeOpened = opened;
    this.maybePart = new Participation(opened.form, this.language);
    const draft = await keeper.draft();
    if (draft !== null) this.part.resume(draft);
    await this.speak(this.part.language);
    this.entry = await keeper.entry();
    if (this.entry === null) {
      this.go(this.part.step);
      if (check) await this.checkOpen();
      return;
    }
    this.showEntry();
    if (["waiting", "withdrawing"].includes(this.entry.state)) await this.tryNow();
  }

  /** What would be refused anyway is said before anybody takes pains. */
  async checkOpen() {
    try {
      await this.keeper.checkOpen();
    } catch (error) {
      if (this.entry === null) this.failed(error);
    }
  }

  /** Reads and verifies a directory of institutions; it is added once the person says that its keeper's key is right.
   * @param {string} text */
  async readDirectory(text) {
    this.directoryText = text;
    this.directory = await parseDirectory(text).catch(() => null);
    this.directoryProblem = this.directory === null;
    this.changed();
    document.getElementById(this.directory ? "directory-add" : "directory-file")?.focus();
  }

  async addDirectory() {
    await this.keeper.acquaintance.add(this.directoryText).catch(() => this.tellUnkept(true));
    this.directory = null;
    this.changed();
  }

  /** Everything in another language, at once. What was answered stays; a consent not yet given must be read again.
   * @param {string} language */
  async chooseLanguage(language) {
    if (this.maybePart) {
      if (this.part.language !== language && this.part.step === "consent") this.part.agreed = false;
      this.part.language = this.part.form.language(language);
      for (const name of Object.keys(this.problems)) this.noteProblem(name);
      this.save();
    }
    await this.speak(language);
    this.changed();
  }

  /** @param {string} language */
  async speak(language) {
    this.words = await catalogue(language);
    if (this.maybePart) this.consentHash = toHex(await sha256(utf8(this.consentText.text)));
  }

  /** The form's own consent, or the page's plain one where the form has none. */
  get consentText() {
    const part = this.part;
    return part.form.consent(part.language) ?? { version: "app-2", language: this.words.language, text: this.say("consent.plain") };
  }

  // Moving

  /** @param {Screen} screen */
  go(screen) {
    this.screen = screen;
    this.changed();
  }

  moved() {
    this.problems = {};
    this.save();
    this.go(this.part.step);
  }

  /** @param {unknown} error @param {(() => Promise<void>) | null} [repeat] */
  failed(error, repeat = null) {
    this.busy = false;
    this.repeat = repeat;
    this.problem = explain(error);
    this.go("problem");
  }

  /** Whether a problem leaves answers behind, to be seen and sent with another invitation. */
  get hasAnswers() {
    return this.entry === null && Object.keys(this.maybePart?.responses ?? {}).length > 0;
  }

  /** From a problem that may have passed: once more what led to it. */
  async again() {
    if (this.repeat) await this.repeat();
    else if (this.entry) this.showEntry();
    else if (this.maybePart) this.go(this.part.step);
  }

  // The form

  /** An answer as it is given; a message that stood below it goes, or changes, at once.
   * @param {Question} question @param {unknown} value */
  answer(question, value) {
    this.part.answer(question, value);
    if (question.name in this.problems) this.noteProblem(question.name);
    this.save();
  }

  /** @param {string} name */
  noteProblem(name) {
    const known = [...this.part.form.eligibility.map((item) => item.asked), ...this.part.form.parts];
    const question = known.find((one) => one.name === name);
    const text = question ? this.missingParts(question) || this.part.problem(question) : "";
    if (text) this.problems[name] = text;
    else delete this.problems[name];
  }

  /** Which fields of a date are still empty, as a sentence; nothing where all are, or none is. @param {Question} question */
  missingParts(question) {
    const given = question.rules.control === "date" ? this.part.givenTo(question)[question.name] : undefined;
    const parts = dateParts(given);
    const empty = dateOrder(this.part.language).filter((part) => parts[part] === "");
    const what = this.words.list(empty.map((part) => this.say(`date.${part}`)));
    return given === undefined || empty.length === 0 ? "" : this.say("date.missing", { what });
  }

  /** Whether these questions are answered well; if not, what is wrong is shown.
   * @param {Question[]} questions */
  wellAnswered(questions) {
    this.problems = {};
    for (const question of questions) {
      // A time that is typed in part: the browser says so only when asked.
      const control = document.getElementById(`q-${question.name}`);
      if (control instanceof HTMLInputElement && control.validity.badInput) this.part.answer(question, HALF);
      this.noteProblem(question.name);
    }
    const wrong = questions.find((question) => question.name in this.problems);
    if (wrong === undefined) return true;
    this.changed();
    document.getElementById(`q-${wrong.name}`)?.focus();
    return false;
  }

  /** The page's main button. */
  async next() {
    const part = this.part;
    if (part.step === "consent") {
      if (part.unsigned.length > 0) return;
      const { version, language } = this.consentText;
      part.consent = { version, language, text_hash: this.consentHash, name: part.name.trim(), signed_ms: Date.now() };
      part.forward();
    } else if (part.step === "eligibility") {
      if (!this.wellAnswered(part.form.eligibility.map((item) => item.asked))) return;
      if (!part.form.eligible(part.eligibility, part.language)) {
        await this.forget();
        this.problem = { kind: "ineligible", detail: "", again: false, values: {} };
        this.go("problem");
        return;
      }
      part.forward();
    } else if (part.step === "question") {
      if (!this.wellAnswered(part.page.questions)) return;
      part.nextPage();
    } else {
      part.forward();
    }
    this.moved();
  }

  back() {
    if (this.part.back()) this.moved();
  }

  /** Whether the browser's own way back has somewhere to lead to on this page. */
  get canGoBack() {
    return !this.busy && ["consent", "eligibility", "question", "review", "withdraw", "leave", "discard", "forget"].includes(this.screen);
  }

  /** Where the page's own button leads back to. */
  goBack() {
    if (this.screen === "forget") this.go(this.part.step);
    else if (["withdraw", "leave", "discard"].includes(this.screen)) this.showEntry();
    else this.back();
  }

  /** From the review to one page of questions.
   * @param {string} name */
  edit(name) {
    this.part.edit(name);
    this.moved();
  }

  /** Keep the draft, one write after another; of those that wait the newest alone. A write that fails is said, and stops nothing. */
  save() {
    const record = structuredClone(this.part.toRecord());
    this.newest = record;
    this.saving = this.saving.then(async () => {
      if (this.newest !== record) return;
      try {
        const saved = await this.keeper.saveDraft(record);
        if (this.unkept) this.tellUnkept(false);
        if (!saved) await this.showAnswered();
      } catch {
        this.tellUnkept(true);
      }
    });
  }

  /** Another tab has sent answers to this study: what became of them is shown, here too. Whether it has. */
  async showAnswered() {
    const entry = await this.keeper.entry();
    if (entry === null || entry.state === "withdrawn") return false;
    this.entry = entry;
    this.busy = false;
    this.showEntry();
    return true;
  }

  /** @param {boolean} unkept */
  tellUnkept(unkept) {
    this.unkept = unkept;
    const note = document.getElementById("unkept");
    if (note) note.hidden = !unkept;
  }

  /** Of somebody who does not belong, or who wants it gone, nothing is kept. */
  async forget() {
    this.maybePart = new Participation(this.part.form, this.part.language);
    this.newest = null;
    await this.saving;
    await this.keeper.deleteDraft().catch(() => this.tellUnkept(true));
  }

  /** Delete the draft and begin anew. */
  async startAnew() {
    await this.forget();
    this.go("study");
  }

  // Sending

  /** Check what can be checked, seal, upload. From the moment it is sealed, nothing here can change it. */
  async send() {
    const wrong = this.part.firstWrong;
    if (wrong !== null) {
      this.edit(wrong.name);
      this.wellAnswered(wrong.questions);
      return;
    }
    if (this.busy) return;
    this.busy = true;
    this.entry = null;
    this.go("sending");
    try {
      await this.saving;
      const part = this.part;
      this.entry = await this.keeper.seal(part.form.answers(part.responses, part.language), part.consent);
    } catch (error) {
      if (error instanceof Refused && error.reason.word === "already_answered" && (await this.showAnswered())) return;
      this.failed(error, async () => { this.go(this.part.step); });
      return;
    }
    this.busy = false;
    await this.tryNow();
  }

  /** What institutions are asked for, one thing at a time; then what became of it. @param {() => Promise<Entry | null>} ask */
  async attempt(ask) {
    if (this.busy) return;
    this.busy = true;
    this.calls = {};
    this.changed();
    try {
      this.entry = await ask();
      this.busy = false;
      this.showEntry();
    } catch (error) {
      this.failed(error);
    }
  }

  /** Upload what waits, or ask again to erase, without waiting for its time. */
  tryNow() {
    return this.attempt(() => this.keeper.send((role, state) => {
      this.calls[role] = state;
      this.changed();
    }));
  }

  /** What is due is sent: now and then, when the network is back, when the page comes to the front. */
  async tick() {
    const entry = this.entry;
    if (entry === null || this.busy || !["waiting", "withdrawing"].includes(entry.state)) return;
    if (entry.nextMs === null || entry.nextMs <= Date.now()) await this.tryNow();
    else if (this.screen === "sending" || this.screen === "receipt") this.changed(); // "in about 3 minutes" becomes 2
  }

  showEntry() {
    if (this.entry === null) this.go(this.part.step);
    else this.go(SETTLED.includes(this.entry.state) ? "receipt" : "sending");
  }

  /** After a refusal that nobody has anything of: the answers are still here, to be sent with another invitation. */
  get canReturn() {
    return this.entry?.state === "refused" && this.entry.receivedBy.length === 0;
  }

  /** Who has a part. */
  get providers() {
    const { study } = this.opened;
    return study.right.map((_, place) => {
      const role = `R${place + 1}`;
      const has = this.entry?.receivedBy.includes(role);
      /** @type {PartState} */
      const state = has ? "done" : this.busy ? (this.calls[role] ?? "waiting") : this.entry?.state === "refused" ? "failed" : "later";
      const cause = this.entry?.causes.find(([whose]) => whose === role)?.[1] ?? "offline";
      const why = !this.busy && !has && cause !== "offline" ? causeWords(cause, this.words) : "";
      return { name: this.partyName(role), state, why };
    });
  }

  /** Which institution refused and why, or what else is wrong, in the page's language. */
  get why() {
    const entry = this.shown;
    if (entry.state === "damaged") return this.say("cause.damaged");
    return entry.causes.map(([role, code]) => this.say("cause.line", { name: this.partyName(role), why: causeWords(code, this.words) })).join("; ");
  }

  /** The nodes' own sentences, for whoever helps; nothing where it was only the network. */
  get detail() {
    const entry = this.shown;
    return entry.state === "damaged" || entry.causes.some(([, code]) => code !== "offline") ? entry.why : "";
  }

  /** An institution's name; its role where it has none.
   * @param {string} role */
  partyName(role) {
    const party = this.opened.study.party(role);
    return party.organisation || party.name || role;
  }

  /** When it is tried again.
   * @param {Entry} entry */
  due(entry) {
    return this.words.span((entry.nextMs ?? Date.now()) - Date.now());
  }

  /** Forget what was sealed and refused; where no institution has a part of it, the answers are there again. */
  async discard() {
    try {
      await this.keeper.discard(this.shown.submissionId);
      this.entry = null;
      await this.open(this.keeper, this.opened, false);
    } catch (error) {
      this.failed(error);
    }
  }

  // Receipts and withdrawing

  saveReceipt() {
    const text = this.shown.receipt?.toJson() ?? "";
    const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const name = `${this.say("receipt.file")} ${this.title} ${this.words.day(this.sentMs)}`.replace(/[^\p{L}\p{M}\p{N} -]+/gu, "");
    const link = h("a", { href: address, download: `${name}.json` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  }

  /** When the last institution has signed. */
  get sentMs() {
    return Math.max(...(this.shown.receipt?.providers ?? []).map(({ receiveTimeMs }) => receiveTimeMs));
  }

  /** Everything of this study leaves this browser; in an open study somebody else may begin. @param {boolean} another */
  async leave(another) {
    try {
      await this.keeper.forget();
      if (another && this.opened.study.admission === "open") location.reload();
      else this.go("left");
    } catch (error) {
      this.failed(error);
    }
  }

  get receiptLink() {
    const { receipt } = this.shown;
    return receipt === null ? "" : this.keeper.linkOf(receipt);
  }

  /** A receipt from a file or a code: what it is of is shown, and can be withdrawn.
   * @param {string} text */
  async importReceipt(text) {
    try {
      this.entry = await this.keeper.importReceipt(text);
      this.showEntry();
    } catch {
      this.failed(new PageError("receipt"));
    }
  }

  withdraw() {
    return this.attempt(() => this.keeper.withdraw(this.shown.submissionId));
  }
}

/** @template T @param {T | null | undefined} value @param {string} problem @returns {T} */
function there(value, problem) {
  if (value === null || value === undefined) throw new Error(problem);
  return value;
}
