// A page of questions: one, or a grid; before it the headings of a section that begins.

import { button, h, paragraphs } from "../dom.js";
import { questionBlock } from "./fields.js";

/** @typedef {import("../guide.js").Guide} Guide */

/** @param {Guide} guide */
export function questionView(guide) {
  const part = guide.part;
  const page = part.page;
  const language = part.language;
  const grid = page.grid;
  return {
    title: guide.say("question.title", { number: guide.words.number(part.number), of: guide.words.number(part.pages.length) }),
    body: [
      page.headings.map((heading) => [
        h("h2", guide.inForm, heading.label[language]),
        heading.help ? paragraphs(heading.help[language] ?? "", { class: "help", ...guide.inForm }) : null,
      ].flat()).flat(),
      grid && h("h2", guide.inForm, grid.label[language]),
      grid?.help ? paragraphs(grid.help[language] ?? "", { class: "help", ...guide.inForm }) : null,
      h("div", { class: grid ? "grid" : "single" }, page.questions.map((question) => questionBlock(guide, question))),
      h("div", { class: "row" },
        button(guide.say("next"), () => guide.next(), { class: "main", type: "submit" }),
        button(guide.say("back"), () => guide.back())),
    ],
  };
}
