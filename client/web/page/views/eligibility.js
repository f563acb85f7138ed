// Who can take part: answers that never leave the device.

import { button, h } from "../dom.js";
import { questionBlock } from "./fields.js";

/** @typedef {import("../guide.js").Guide} Guide */

/** @param {Guide} guide */
export function eligibilityView(guide) {
  return {
    title: guide.say("eligibility.title"),
    body: [
      h("p", {}, guide.say("eligibility.text")),
      guide.part.form.eligibility.map((item) => questionBlock(guide, item.asked)),
      h("div", { class: "row" },
        button(guide.say("next"), () => guide.next(), { class: "main", type: "submit" }),
        button(guide.say("back"), () => guide.back())),
    ],
  };
}
