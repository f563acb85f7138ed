// A study as its page tells it: who asks, what for, where the answers go, what is promised, who would have to collude.

import { explain } from "../../device/index.js";
import { button, h, paragraphs } from "../dom.js";
import { exactStatement } from "../exact.js";

/** @typedef {import("../guide.js").Guide} Guide */
/** @typedef {import("../../device/index.js").Study} Study */

/** @param {Guide} guide */
export function studyView(guide) {
  const { study, form, unchecked } = guide.opened;
  const language = guide.part.language;
  const begun = guide.part.consent !== null || Object.keys(guide.part.responses).length > 0;
  return {
    title: guide.title,
    titleInForm: form.title !== null,
    body: [
      guide.answerBy,
      form.intro ? paragraphs(form.intro[language] ?? "", guide.inForm) : null,
      h("h2", {}, guide.say("study.who")),
      h("p", {}, guide.partyName("collector")),
      h("p", { class: "soft" }, guide.say("study.contact", { contact: study.contact })),
      h("h2", {}, guide.say("study.why")),
      h("p", form.purpose ? guide.inForm : { lang: "", dir: "auto" }, form.purpose?.[language] ?? study.purpose),
      promised(guide, study),
      h("h2", {}, guide.say("study.where")),
      where(guide, study),
      h("h2", {}, guide.say("study.collude")),
      collude(guide, study),
      h("p", {}, guide.say("study.signed")),
      h("details", {}, h("summary", {}, guide.say("study.exact")),
        guide.words.language === "en" ? null : h("p", { class: "soft" }, guide.say("study.exact.language")),
        exactStatement(study, unchecked).map((text) => h("p", { class: "exact", lang: "en", dir: "ltr" }, text))),
      aboutPage(guide, study),
      importing(guide),
      h("div", { class: "row" },
        button(guide.say("study.begin"), () => guide.next(), { class: "main", type: "submit" }),
        begun && button(guide.say("forget"), () => guide.go("forget"), { class: "warn" })),
    ],
  };
}

/** @param {Study} study */
const kindOf = (study) => (study.protection.budget !== null ? "budget" : study.protection.sigma ? "people" : "exact");

/** @param {Guide} guide @param {Study} study */
function promised(guide, study) {
  const people = guide.words.number(study.releaseRows);
  return [
    h("h2", {}, guide.say("study.promised")),
    h("p", {}, guide.say(`${study.suite}.promise.${kindOf(study)}`, { people })),
  ];
}

/** @param {Guide} guide @param {Study} study */
function where(guide, study) {
  const names = (/** @type {number} */ count, /** @type {string} */ letter) =>
    Array.from({ length: count }, (_, place) => guide.partyName(`${letter}${place + 1}`));
  const rows = study.suite === "rows";
  const way = rows ? (study.protection.sigma ? "rows.way.noise" : "rows.way.plain") : "moments.way";
  const people = guide.words.number(study.releaseRows);
  const noise = study.protection.sigma || study.protection.budget !== null;
  return [
    h("p", {}, guide.say(way, { parts: guide.words.number(study.right.length) })),
    h("ol", {},
      h("li", {}, h("ul", {}, names(study.right.length, "R").map((name) => h("li", {}, name)))),
      h("li", {}, rows ? guide.say("rows.picture.mixed", { names: guide.words.list(names(study.left.length, "L")) }) : guide.say("moments.picture.mixed")),
      h("li", {}, rows ? guide.say("rows.picture.result", { people }) : guide.say(`moments.picture.result.${noise ? "noise" : "exact"}`))),
  ];
}

/** @param {Guide} guide @param {Study} study */
function collude(guide, study) {
  const { coalitions, honestProviders, altered } = explain(study);
  const smallest = Math.min(...coalitions.map(({ parties }) => parties.length));
  const groups = coalitions.filter(({ parties }) => parties.length === smallest);
  const larger = coalitions.length - groups.length;
  const noise = study.protection.sigma > 0 || study.protection.budget !== null;
  const number = guide.words.number(smallest);
  const rows = study.suite === "rows";
  const notes = rows
    ? [guide.say(altered ? "rows.note.tagged" : "rows.note")]
    : [...(noise ? [guide.words.count("moments.noise", honestProviders ?? 1)] : []), guide.say(noise ? "moments.note" : "moments.note.exact")];
  return [
    h("p", {}, rows ? guide.say("rows.collusion", { number }) : guide.say(noise ? "moments.collusion" : "moments.collusion.exact", { number })),
    h("ul", {},
      groups.map(({ parties }) => h("li", {}, guide.words.list(parties.map((role) => guide.partyName(role))))),
      larger > 0 ? h("li", {}, guide.words.count("study.larger", larger)) : null),
    notes.map((note) => h("p", {}, note)),
  ];
}

/** Where the page is, where it may be, and what that check is worth. @param {Guide} guide @param {Study} study */
function aboutPage(guide, study) {
  const { hosts, pageSha256 } = study.web ?? { hosts: [], pageSha256: "" };
  return h("details", {}, h("summary", {}, guide.say("study.page")),
    h("p", {}, guide.say("study.page.text", { host: location.origin, hosts: hosts.join(", ") })),
    h("p", { class: "hash" }, guide.say("study.page.hash", { hash: pageSha256 })),
    h("p", {}, guide.say("study.page.worth")));
}

/** @param {Guide} guide */
function importing(guide) {
  const file = h("input", { type: "file", id: "receipt-file", accept: "application/json,.json",
    onchange: async () => { const [chosen] = file.files ?? []; if (chosen) await guide.importReceipt(await chosen.text()); } });
  return h("details", {}, h("summary", {}, guide.say("study.import")),
    h("p", {}, guide.say("study.import.text")),
    h("label", { class: "asked", for: "receipt-file" }, guide.say("study.import.file")), h("div", { class: "field" }, file));
}
