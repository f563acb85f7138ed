// A page of questions, and what was answered.

import { button, h, paragraphs } from "../dom.js";
import { questionBlock } from "./fields.js";
import { answerBy, onward } from "./join.js";

/** @typedef {import("../guide.js").Guide} Guide */

/** One question, which is the page's heading, or a grid's rows below its own; above them a section that begins. @param {Guide} guide */
export function questionView(guide) {
  const { part } = guide;
  const { language, page } = part;
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
      onward(guide),
    ],
  };
}

/** Every answer as it was understood, before anything is sealed. @param {Guide} guide */
export function reviewView(guide) {
  const part = guide.part;
  const lines = part.pages.flatMap((page) => page.questions.map((question) => {
    const label = page.grid ? `${page.grid.label[part.language]}: ${question.label[part.language]}` : question.label[part.language];
    const wrong = part.problem(question);
    const shown = part.understood(question);
    return h("div", {},
      h("dt", guide.inForm, label),
      wrong ? h("dd", { class: "error" }, wrong) : h("dd", shown ? guide.inForm : { class: "soft" }, shown || guide.say("review.none")),
      h("dd", {}, button(guide.say("review.edit"), () => guide.edit(page.name), { class: "plain", "aria-label": `${guide.say("review.edit")}: ${label}` })));
  }));
  return {
    title: guide.say("review.title"),
    body: [
      h("p", {}, guide.say("review.text")),
      answerBy(guide),
      h("dl", { class: "review" }, lines),
      onward(guide, button(guide.say("review.send"), () => guide.send(), { class: "main", type: "submit", disabled: guide.busy })),
    ],
  };
}
