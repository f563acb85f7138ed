// What a person agrees to, a tick, and a name under it, which stays here.

import { button, h } from "../dom.js";

/** @typedef {import("../guide.js").Guide} Guide */

/** @param {Guide} guide */
export function consentView(guide) {
  const part = guide.part;
  const text = guide.consentText;
  const sign = button(guide.say("consent.sign"), () => guide.next(), { class: "main", type: "submit", disabled: !part.readyToSign });
  const changed = () => {
    sign.disabled = !part.readyToSign;
    guide.save();
  };
  return {
    title: guide.say("consent.title"),
    body: [
      h("div", { class: "consent-text", tabindex: 0, role: "region", "aria-label": guide.say("consent.title"), ...guide.inForm }, text.text),
      h("p", { class: "soft hash" }, guide.say("consent.version", { version: text.version, hash: guide.consentHash.slice(0, 12) })),
      h("label", { class: "choice" },
        h("input", { type: "checkbox", checked: part.agreed, onchange: (/** @type {any} */ event) => { part.agreed = event.target.checked; changed(); } }),
        h("span", {}, guide.say("consent.agree"))),
      h("label", { class: "asked", for: "signature" }, guide.say("consent.name")),
      h("div", { class: "field" }, h("input", {
        id: "signature", type: "text", maxlength: 200, autocomplete: "name", value: part.name, dir: "auto", "aria-describedby": "signature-stays",
        oninput: (/** @type {any} */ event) => { part.name = event.target.value; changed(); },
      })),
      h("p", { class: "help", id: "signature-stays" }, guide.say("consent.stays")),
      h("div", { class: "row" }, sign, button(guide.say("back"), () => guide.back())),
    ],
  };
}
