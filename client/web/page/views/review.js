// Every answer as it was understood, before anything is sealed.

import { button, h } from "../dom.js";

/** @typedef {import("../guide.js").Guide} Guide */

/** @param {Guide} guide */
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
      guide.answerBy,
      h("dl", { class: "review" }, lines),
      h("div", { class: "row" },
        button(guide.say("review.send"), () => guide.send(), { class: "main", type: "submit", disabled: guide.busy }),
        button(guide.say("back"), () => guide.back())),
    ],
  };
}
