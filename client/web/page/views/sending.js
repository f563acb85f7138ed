// How far sending has come, institution by institution.

import { button, h } from "../dom.js";
import { contact } from "./problem.js";

/** @typedef {import("../guide.js").Guide} Guide */

/** @param {Guide} guide */
export function sendingView(guide) {
  const entry = guide.entry;
  if (entry === null) return { title: guide.say("sending.title"), body: [h("p", { class: "status" }, guide.say("sending.mask.text"))] };
  const parties = guide.providers.map(({ name, state, why }) => h("li", {}, h("span", {}, name),
    h("span", { class: state === "done" ? "done" : "soft" }, why ? capital(why) : guide.say(`sending.party.${state}`))));
  const got = guide.providers.filter((one) => one.state === "done").length;
  const values = { got: guide.words.number(got), of: guide.words.number(guide.providers.length), why: guide.why, when: guide.due(entry) };
  const waiting = entry.state === "waiting";
  const told = entry.told;
  return {
    title: guide.say("sending.title"),
    body: [
      h("p", { class: "status" }, guide.busy ? guide.say("sending.now") : guide.say(waiting ? "sending.waiting.page" : `sending.${entry.state}`, values)),
      !waiting && told ? h("div", { class: "notice weak" }, h("p", {}, h("strong", {}, guide.say(`problem.${told}.title`))),
        h("p", {}, guide.say(`problem.${told}.text`)), h("p", {}, guide.say(`problem.${told}.advice`))) : null,
      h("ul", { class: "parties" }, parties),
      guide.detail && !guide.busy ? h("p", { class: "soft hash" }, guide.say("problem.detail", { detail: guide.detail })) : null,
      waiting ? h("p", { class: "soft" }, guide.say("sending.leave.page")) : null,
      guide.canReturn ? h("p", {}, guide.say("sending.return.text")) : null,
      waiting ? null : contact(guide),
      h("div", { class: "row" },
        waiting && button(guide.say("sending.retry"), () => guide.tryNow(), { class: "main", "aria-disabled": guide.busy ? "true" : null }),
        waiting && button(guide.say("receipt.withdraw"), () => { if (!guide.busy) guide.go("withdraw"); }, { "aria-disabled": guide.busy ? "true" : null }),
        !waiting && guide.canReturn && button(guide.say("sending.return"), () => guide.discard(), { class: "main" }),
        !waiting && !guide.canReturn && button(guide.say("sending.discard"), () => guide.go("discard"), { class: "warn" })),
    ],
  };
}

/** @param {string} words */
const capital = (words) => words.slice(0, 1).toUpperCase() + words.slice(1);

/** Asked before anything is deleted.
 * @param {Guide} guide */
export function discardView(guide) {
  return {
    title: guide.say("discard.title"),
    body: [
      h("p", {}, guide.say("discard.text")),
      h("div", { class: "row" },
        button(guide.say("discard.confirm"), () => guide.discard(), { class: "warn" }),
        button(guide.say("back"), () => guide.showEntry(), { class: "main" })),
    ],
  };
}

/** The same for a draft.
 * @param {Guide} guide */
export function forgetView(guide) {
  return {
    title: guide.say("forget.title"),
    body: [
      h("p", {}, guide.say("forget.text")),
      h("div", { class: "row" },
        button(guide.say("discard.confirm"), () => guide.startAnew(), { class: "warn" }),
        button(guide.say("back"), () => guide.go(guide.part.step), { class: "main" })),
    ],
  };
}
