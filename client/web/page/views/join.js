// Before the questions: a study as its page tells it, and the institutions that are known; consent; who can take part.

import { toHex } from "../../device/index.js";
import { button, h, paragraphs } from "../dom.js";
import { exactStatement, weightValues } from "../exact.js";
import { plainTruth } from "../plain_truth.js";
import { questionBlock } from "./fields.js";

/** @typedef {import("../guide.js").Guide} Guide */
/** @typedef {import("../keeper.js").Standing} Standing */
/** @typedef {import("../../device/index.js").Study} Study */
/** @typedef {ReturnType<typeof plainTruth>} Truth */

/** A first screen of a few sentences, and behind "More" who sees what, promises, exact statements. @param {Guide} guide */
export function studyView(guide) {
  const { study, form, unchecked } = guide.opened;
  const language = guide.part.language;
  const truth = plainTruth(study, guide.words);
  const begun = guide.part.consent !== null || Object.keys(guide.part.responses).length > 0;
  return {
    title: guide.title,
    titleInForm: form.title !== null,
    body: [
      answerBy(guide),
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
  return h("details", {}, h("summary", {}, guide.say("study.import")),
    h("p", {}, guide.say("study.import.text")),
    jsonFile("receipt-file", guide.say("study.import.file"), (text) => guide.importReceipt(text)));
}

/** A field for a file, whose text is taken. @param {string} id @param {string} label @param {(text: string) => Promise<void>} take */
function jsonFile(id, label, take) {
  const file = h("input", { type: "file", id, accept: "application/json,.json",
    onchange: async () => { const [chosen] = file.files ?? []; if (chosen) await take(await chosen.text()); } });
  return [h("label", { class: "asked", for: id }, label), h("div", { class: "field" }, file)];
}

/** What a study's page says of it. @param {Guide} guide */
function standings(guide) {
  const parties = guide.keeper.acquaintance.parties(guide.opened.study);
  const unknown = [...new Set(parties.filter(({ knownAs }) => knownAs === null).map(({ organisation }) => organisation))];
  const keepers = [...new Set(parties.filter(({ knownAs }) => knownAs !== null).map(({ keeper }) => keeper))];
  return [
    keepers.map((keeper) => h("p", {}, guide.say("study.known", { keeper, names: guide.words.list(namesBy(parties, keeper)) }))),
    unknown.length ? h("p", { class: "notice" }, guide.say("study.unknown", { names: guide.words.list(unknown) })) : null,
    adding(guide),
  ];
}

/** As the keeper calls them; beside it the study's own name where that is another. @param {Standing[]} parties @param {string} keeper */
const namesBy = (parties, keeper) => [...new Set(parties.filter((party) => party.keeper === keeper && party.knownAs !== null)
  .map(({ knownAs, organisation }) => (knownAs === organisation ? String(knownAs) : `${knownAs} (${organisation})`)))];

/** @param {Guide} guide */
function adding(guide) {
  const { directories } = guide.keeper.acquaintance;
  const read = guide.directory;
  return h("details", { open: read !== null || guide.directoryProblem },
    h("summary", {}, guide.say("institutions.title")),
    h("p", {}, guide.say("institutions.text")),
    directories.length
      ? h("ul", {}, directories.map(({ keeper, institutions }) => h("li", {}, guide.say("institutions.known", { keeper, count: institutions.length }))))
      : h("p", {}, guide.say("institutions.none")),
    h("p", { class: "soft" }, guide.say("institutions.worth")),
    jsonFile("directory-file", guide.say("institutions.file"), (text) => guide.readDirectory(text)),
    guide.directoryProblem ? h("p", { class: "error", role: "alert" }, guide.say("institutions.wrong")) : null,
    read === null ? null : [
      h("p", { class: "status" }, guide.say("institutions.compare", {
        keeper: read.keeper, count: read.institutions.length, key: (toHex(read.keeperKey).match(/.{4}/g) ?? []).join(" ") })),
      button(guide.say("institutions.add"), () => guide.addDirectory(), { id: "directory-add" }),
    ]);
}

/** What a person agrees to, a tick, and a name under it, which stays here. @param {Guide} guide */
export function consentView(guide) {
  const part = guide.part;
  const text = guide.consentText;
  const missing = h("p", { class: "error", role: "alert" });
  const name = h("input", {
    id: "signature", type: "text", maxlength: 200, autocomplete: "name", value: part.name, dir: "auto", "aria-describedby": "signature-stays",
    oninput: () => changed(),
  });
  const agreed = h("input", { type: "checkbox", id: "agreed", checked: part.agreed, onchange: () => changed() });
  const changed = () => {
    [part.agreed, part.name] = [agreed.checked, name.value];
    if (missing.textContent) tell();
    guide.save();
  };
  const tell = () => {
    const what = guide.words.list(part.unsigned.map((one) => guide.say(`consent.missing.${one}`)));
    missing.textContent = what ? guide.say("consent.missing", { what }) : "";
  };
  const sign = button(guide.say("consent.sign"), () => {
    changed(); // also what a browser filled in without saying so
    tell();
    if (part.unsigned.length === 0) void guide.next();
    else (part.agreed ? name : agreed).focus();
  }, { class: "main", type: "submit" });
  return {
    title: guide.say("consent.title"),
    body: [
      h("div", { class: "consent-text", tabindex: 0, role: "region", "aria-label": guide.say("consent.title"), ...guide.inForm }, text.text),
      h("p", { class: "soft hash" }, guide.say("consent.version", { version: text.version, hash: guide.consentHash.slice(0, 12) })),
      h("label", { class: "choice" }, agreed, h("span", {}, guide.say("consent.agree"))),
      h("label", { class: "asked", for: "signature" }, guide.say("consent.name")),
      h("div", { class: "field" }, name),
      h("p", { class: "help", id: "signature-stays" }, guide.say("consent.stays")),
      missing,
      onward(guide, sign),
    ],
  };
}

/** Who can take part: answers that never leave the device. @param {Guide} guide */
export function eligibilityView(guide) {
  return {
    title: guide.say("eligibility.title"),
    body: [
      h("p", {}, guide.say("eligibility.text")),
      guide.part.form.eligibility.map((item) => questionBlock(guide, item.asked)),
      onward(guide),
    ],
  };
}

/** The way on and back, below what is asked. @param {Guide} guide @param {HTMLElement} [main] the button that leads on */
export const onward = (guide, main = button(guide.say("next"), () => guide.next(), { class: "main", type: "submit" })) =>
  h("div", { class: "row" }, main, button(guide.say("back"), () => guide.back()));

/** Until when an answer can be given; nothing where that is not known. @param {Guide} guide */
export function answerBy(guide) {
  const ends = guide.opened.expiresMs;
  return ends === null ? null : h("p", { class: "notice" }, guide.say("study.by", { when: guide.words.when(ends) }));
}
