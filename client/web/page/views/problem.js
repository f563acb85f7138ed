// Where the way ends: what happened, what it means, what can be done.

import { button, h } from "../dom.js";

/** @typedef {import("../guide.js").Guide} Guide */

/** @param {Guide} guide */
export function problemView(guide) {
  const { kind, detail, again, values } = guide.problem;
  return {
    title: guide.say(`problem.${kind}.title`),
    body: [
      h("p", { role: "alert" }, guide.say(`problem.${kind}.text`, values)),
      h("p", {}, guide.say(`problem.${kind}.advice`, values)),
      contact(guide),
      detail ? h("p", { class: "soft hash" }, guide.say("problem.detail", { detail })) : null,
      h("div", { class: "row" },
        again && button(guide.say("problem.again"), () => guide.again(), { class: "main" }),
        !again && guide.hasAnswers && button(guide.say("sending.return"), () => guide.go(guide.part.step), { class: "main" })),
    ],
  };
}

/** Of the study, where it is known; an e-mail address or a web address is a link. @param {Guide} guide */
export function contact(guide) {
  const text = guide.maybeOpened?.study.contact ?? "";
  if (!text) return null;
  const href = /^[^\s@:/?#]+@[^\s@:/?#]+$/.test(text) ? `mailto:${text}` : /^https:\/\/\S+$/.test(text) ? text : null;
  const [before = "", after = ""] = guide.say("study.contact", { contact: "\n" }).split("\n");
  return h("p", {}, before, href === null ? text : h("a", { href, rel: "noreferrer" }, text), after);
}
