// A page of questions: one, which is the page's heading, or a grid's rows below its own; above them a section that begins.

import { button, h, paragraphs } from "../dom.js";
import { questionBlock } from "./fields.js";

/** @typedef {import("../guide.js").Guide} Guide */

/** @param {Guide} guide */
export function questionView(guide) {
  const part = guide.part;
  const page = part.page;
  const language = part.language;
  const { grid, questions } = page;
  return {
    title: (grid ?? questions[0])?.label[language] ?? "",
    titleInForm: true,
    above: [
      h("p", { class: "soft" }, guide.say("question.title", { number: guide.words.number(part.number), of: guide.words.number(part.pages.length) })),
      page.headings.map((heading) => [
        h("p", { class: "section", ...guide.inForm }, heading.label[language] ?? ""),
        heading.help ? paragraphs(heading.help[language] ?? "", { class: "help", ...guide.inForm }) : null,
      ]),
    ],
    body: [
      grid?.help ? paragraphs(grid.help[language] ?? "", { class: "help", ...guide.inForm }) : null,
      h("div", { class: grid ? "grid" : "single" }, questions.map((question) => questionBlock(guide, question, grid === null))),
      h("div", { class: "row" },
        button(guide.say("next"), () => guide.next(), { class: "main", type: "submit" }),
        button(guide.say("back"), () => guide.back())),
    ],
  };
}
