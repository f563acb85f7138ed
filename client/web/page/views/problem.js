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
      detail ? h("p", { class: "soft hash" }, guide.say("problem.detail", { detail })) : null,
      again ? h("div", { class: "row" }, button(guide.say("problem.again"), () => guide.again(), { class: "main" })) : null,
    ],
  };
}
