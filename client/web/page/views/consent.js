// What a person agrees to, a tick, and a name under it, which stays here.

import { button, h } from "../dom.js";

/** @typedef {import("../guide.js").Guide} Guide */

/** @param {Guide} guide */
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
      h("label", { class: "choice" },
        agreed,
        h("span", {}, guide.say("consent.agree"))),
      h("label", { class: "asked", for: "signature" }, guide.say("consent.name")),
      h("div", { class: "field" }, name),
      h("p", { class: "help", id: "signature-stays" }, guide.say("consent.stays")),
      missing,
      h("div", { class: "row" }, sign, button(guide.say("back"), () => guide.back())),
    ],
  };
}
