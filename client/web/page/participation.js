// One person's way through one study's form: where they are, what they have said so far, what comes next. The whole of it is a
// record that is saved, encrypted, at every change; a tab that dies shows the same page again.

import { AnswerError } from "../device/errors.js";

/** @typedef {import("../form/question.js").Question} Question */
/** @typedef {"study" | "consent" | "eligibility" | "question" | "review"} Step */
/** @typedef {{version: string, language: string, text_hash: string, name: string, signed_ms: number}} Consent */

const STEPS = ["study", "consent", "eligibility", "question", "review"];

/** `responses` are as the person gave them; the form checks them and makes the row's answers of them. */
export class Participation {
  /** @param {import("../form/form.js").Form} form @param {string} language */
  constructor(form, language) {
    this.form = form;
    this.language = form.language(language);
    /** @type {Step} */ this.step = "study";
    this.at = "";
    /** @type {Record<string, any>} */ this.responses = {};
    /** @type {Record<string, any>} */ this.eligibility = {};
    this.name = "";
    this.agreed = false;
    /** @type {Consent | null} */ this.consent = null;
    /** Where an edit from the review page leads back to. */
    this.editing = false;
  }

  // What is kept

  toRecord() {
    const { language, step, at, responses, eligibility, name, agreed, consent, editing } = this;
    return { language, step, at, responses, eligibility, name, agreed, consent, editing };
  }

  /** Go on from a draft. What cannot be so any more (another program's draft) is left at the beginning.
   * @param {ReturnType<Participation["toRecord"]>} record */
  resume(record) {
    if (!STEPS.includes(record.step)) return;
    this.language = this.form.language(String(record.language));
    this.step = record.step;
    this.at = String(record.at);
    this.responses = { ...record.responses };
    this.eligibility = { ...record.eligibility };
    this.name = String(record.name);
    this.agreed = Boolean(record.agreed);
    this.consent = record.consent ?? null;
    this.editing = Boolean(record.editing);
    if (this.step === "question" && !this.pages.some((page) => page.name === this.at)) this.step = "review";
    if (["question", "review"].includes(this.step) && this.consent === null) this.step = "consent";
  }

  // What is shown

  /** @returns {Step[]} the steps before the questions */
  get before() {
    const eligibility = this.form.eligibility.length > 0;
    if (eligibility && this.form.eligibilityFirst) return ["study", "eligibility", "consent"];
    return eligibility ? ["study", "consent", "eligibility"] : ["study", "consent"];
  }

  /** What is asked, with what has been answered so far. */
  get pages() {
    return this.form.pagesFor(this.responses, this.language);
  }

  /** @returns {import("../form/form.js").AskedPage} */
  get page() {
    const pages = this.pages;
    const found = pages.find((page) => page.name === this.at) ?? pages[0];
    if (found === undefined) throw new Error("a form without a question");
    return found;
  }

  /** Which page of the questions that is, from 1. */
  get number() {
    return this.pages.findIndex((page) => page.name === this.at) + 1;
  }

  /** @param {Question} question @returns {Record<string, any>} */
  givenTo(question) {
    return this.form.eligibility.some((item) => item.asked === question) ? this.eligibility : this.responses;
  }

  /** What is wrong with the answer to a question; empty if nothing is.
   * @param {Question} question */
  problem(question) {
    try {
      question.check(this.givenTo(question)[question.name], this.language);
      return "";
    } catch (error) {
      if (error instanceof AnswerError) return sentence(error.problem);
      throw error;
    }
  }

  /** An answer as it was understood; empty if there is none, or none that fits.
   * @param {Question} question */
  understood(question) {
    try {
      return question.shown(question.check(this.givenTo(question)[question.name], this.language), this.language);
    } catch (error) {
      if (error instanceof AnswerError) return "";
      throw error;
    }
  }

  /** The first page with an answer that is missing or wrong. */
  get firstWrong() {
    return this.pages.find((page) => page.questions.some((question) => this.problem(question))) ?? null;
  }

  /** What a consent still lacks: "agree", "name". @returns {("agree" | "name")[]} */
  get unsigned() {
    return /** @type {const} */ (["agree", "name"]).filter((what) => (what === "agree" ? !this.agreed : this.name.trim() === ""));
  }

  /** How much of the way is done, for the bar on top. */
  get progress() {
    if (this.step === "review") return 0.95;
    if (this.step === "question") return 0.1 + (0.85 * (this.number - 1)) / this.pages.length;
    return this.before.indexOf(this.step) * 0.05;
  }

  // Moving

  /** Note an answer, good or not; an empty one is no answer.
   * @param {Question} question @param {any} value */
  answer(question, value) {
    const given = this.givenTo(question);
    const empty = value === null || value === "" || (Array.isArray(value) && value.length === 0);
    if (empty) delete given[question.name];
    else given[question.name] = value;
  }

  /** From a page before the questions to the next; from the last of them to the first question. */
  forward() {
    const next = this.before[this.before.indexOf(this.step) + 1];
    if (next !== undefined) this.step = next;
    else [this.step, this.at] = ["question", this.pages[0]?.name ?? ""];
  }

  /** The page after this one; after the last, or after an edit, the review. */
  nextPage() {
    const pages = this.pages;
    const after = pages.slice(this.number);
    // An edit can bring up a question that was not asked before: it is asked now.
    const wrong = after.find((page) => page.questions.some((question) => this.problem(question)));
    const next = this.editing ? wrong : after[0];
    this.editing = this.editing && next !== undefined;
    [this.step, this.at] = next === undefined ? ["review", ""] : ["question", next.name];
  }

  /** From the review to one page of questions and back.
   * @param {string} name */
  edit(name) {
    [this.step, this.at, this.editing] = ["question", name, true];
  }

  /** One step back; false if this is the first. */
  back() {
    const pages = this.pages;
    if (this.step === "question" && this.editing) [this.step, this.at, this.editing] = ["review", "", false];
    else if (this.step === "question" && this.number > 1) this.at = pages[this.number - 2]?.name ?? "";
    else if (this.step === "question") [this.step, this.at] = [this.before.at(-1) ?? "study", ""];
    else if (this.step === "review") [this.step, this.at] = ["question", pages.at(-1)?.name ?? ""];
    else if (this.step === "study") return false;
    else this.step = this.before[this.before.indexOf(this.step) - 1] ?? "study";
    return true;
  }
}

/** A form's message as a sentence below a field.
 * @param {string} words */
export function sentence(words) {
  const first = words.slice(0, 1).toUpperCase() + words.slice(1);
  return /[.!?।؟]$/.test(first) ? first : `${first}.`;
}
