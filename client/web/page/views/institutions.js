// Who of a study's institutions is known to this browser, and the way to make some known.

import { toHex } from "../../device/index.js";
import { button, h } from "../dom.js";

/** @typedef {import("../guide.js").Guide} Guide */
/** @typedef {import("../acquaintance.js").Standing} Standing */

/** What a study's page says of it. @param {Guide} guide */
export function standings(guide) {
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
  const file = h("input", { type: "file", id: "directory-file", accept: "application/json,.json",
    onchange: async () => { const [chosen] = file.files ?? []; if (chosen) await guide.readDirectory(await chosen.text()); } });
  const read = guide.directory;
  return h("details", { open: read !== null || guide.directoryProblem },
    h("summary", {}, guide.say("institutions.title")),
    h("p", {}, guide.say("institutions.text")),
    directories.length
      ? h("ul", {}, directories.map(({ keeper, institutions }) => h("li", {}, guide.say("institutions.known", { keeper, count: institutions.length }))))
      : h("p", {}, guide.say("institutions.none")),
    h("p", { class: "soft" }, guide.say("institutions.worth")),
    h("label", { class: "asked", for: "directory-file" }, guide.say("institutions.file")), h("div", { class: "field" }, file),
    guide.directoryProblem ? h("p", { class: "error", role: "alert" }, guide.say("institutions.wrong")) : null,
    read === null ? null : [
      h("p", { class: "status" }, guide.say("institutions.compare", {
        keeper: read.keeper, count: read.institutions.length, key: (toHex(read.keeperKey).match(/.{4}/g) ?? []).join(" ") })),
      button(guide.say("institutions.add"), () => guide.addDirectory(), { id: "directory-add" }),
    ]);
}
