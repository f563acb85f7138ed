// A study as its page tells it: a first screen of a few sentences, and behind "More" who sees what, promises, exact statements.

import { button, h, paragraphs } from "../dom.js";
import { exactStatement, weightValues } from "../exact.js";
import { plainTruth } from "../truth_words.js";
import { standings } from "./institutions.js";

/** @typedef {import("../guide.js").Guide} Guide */
/** @typedef {import("../../device/index.js").Study} Study */
/** @typedef {ReturnType<typeof plainTruth>} Truth */

/** @param {Guide} guide */
export function studyView(guide) {
  const { study, form, unchecked } = guide.opened;
  const language = guide.part.language;
  const truth = plainTruth(study, guide.words);
  const begun = guide.part.consent !== null || Object.keys(guide.part.responses).length > 0;
  return {
    title: guide.title,
    titleInForm: form.title !== null,
    body: [
      guide.answerBy,
      form.intro ? paragraphs(form.intro[language] ?? "", guide.inForm) : null,
      h("p", form.purpose ? guide.inForm : { lang: "", dir: "auto" }, form.purpose?.[language] ?? study.purpose),
      h("p", {}, guide.say("study.asked", { name: guide.partyName("collector") })),
      h("ul", { class: "first" }, [...truth.first, guide.say("first.host")].map((sentence) => h("li", {}, sentence))),
      h("p", { class: "notice strength" }, truth.strength),
      h("details", { open: guide.moreOpen, ontoggle: (/** @type {any} */ event) => { if (event.target === event.currentTarget) guide.moreOpen = event.target.open; } },
        h("summary", {}, guide.say("study.more")), more(guide, study, truth, unchecked)),
      importing(guide),
      begun && h("div", { class: "row" }, button(guide.say("forget"), () => guide.go("forget"), { class: "warn" })),
      h("div", { class: "row always" }, button(guide.say("study.begin"), () => guide.next(), { class: "main", type: "submit" })),
    ],
  };
}

/** What is one tap away. @param {Guide} guide @param {Study} study @param {Truth} truth @param {string[]} unchecked */
function more(guide, study, truth, unchecked) {
  return [
    h("p", { class: "soft" }, guide.say("study.contact", { contact: study.contact })),
    h("h2", {}, guide.say("study.collude")),
    whoSees(truth),
    notes(guide, study).map((note) => h("p", {}, note)),
    promised(guide, study, truth),
    h("h2", {}, guide.say("study.where")),
    where(guide, study),
    h("p", {}, guide.say("study.signed")),
    standings(guide),
    h("details", {}, h("summary", {}, guide.say("study.exact")),
      guide.words.language === "en" ? null : h("p", { class: "soft" }, guide.say("study.exact.language")),
      exactStatement(study, unchecked).map((text) => h("p", { class: "exact", lang: "en", dir: "ltr" }, text))),
    aboutPage(guide, study),
  ].flat(4);
}

/** @param {Study} study */
const kindOf = (study) => (study.protection.budget !== null ? "budget" : study.protection.sigma ? "people" : "exact");

/** Each promise, the weaker first, on a scale of three steps. @param {Guide} guide @param {Study} study @param {Truth} truth */
function promised(guide, study, truth) {
  const people = guide.words.number(study.releaseRows);
  return [
    h("h2", {}, guide.say("study.promised")),
    h("p", {}, guide.say(`${study.suite}.promise.${kindOf(study)}`, { people })),
    truth.promises.map(({ towards, step, word, sentences }) => [
      h("h3", {}, `${towards}: ${word}`),
      h("ul", { class: "scale" }, truth.scale.map(([one, name]) => h("li", { "aria-current": one === step ? "true" : undefined, class: one }, name))),
      sentences.map((sentence) => h("p", {}, sentence)),
    ]),
    truth.note ? h("p", { class: "soft" }, truth.note) : null,
  ];
}

/** @param {Truth} truth */
function whoSees({ seen }) {
  return h("dl", { class: "seen" }, seen.map(([who, what]) => h("div", {}, h("dt", {}, who), h("dd", {}, what))));
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

/** What that counts on. @param {Guide} guide @param {Study} study */
function notes(guide, study) {
  const noise = study.protection.sigma > 0 || study.protection.budget !== null;
  const found = [];
  if (study.suite !== "rows") found.push(guide.say(noise ? "moments.note" : "moments.note.exact"));
  else found.push(guide.say(study.rows.tagHolders.length > 0 ? "rows.note.tagged" : "rows.note"));
  if (study.weight !== null) found.push(guide.say("study.weights", weightValues(study)));
  return found;
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
