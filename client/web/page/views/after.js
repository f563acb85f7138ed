// After answering: how far sending has come, the receipt, taking answers back; and where the way ends.

import { button, drawing, h, paragraphs } from "../dom.js";
import { qrModules } from "../qr.js";

/** @typedef {import("../guide.js").Guide} Guide */

/** How far sending has come, institution by institution. @param {Guide} guide */
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

/** The receipt, to keep as a file or a code. @param {Guide} guide */
export function receiptView(guide) {
  const entry = guide.shown;
  const { state } = entry;
  const values = {
    gone: guide.words.number(entry.withdrawnBy.length), of: guide.words.number(entry.providers), when: guide.due(entry),
  };
  const unsent = state === "withdrawn" && entry.withdrawnBy.length === 0;
  const key = unsent ? "receipt.unsent.page" : ["sent", "withdrawing"].includes(state) ? `receipt.${state}.page` : `receipt.${state}.text`;
  const texts = paragraphs(guide.say(key, values), state === "withdrawing" ? { class: "status" } : {});
  return {
    title: guide.say(`receipt.${state}`),
    body: [
      texts,
      entry.receipt ? h("ul", { class: "parties" }, entry.receipt.providers.map((item) => h("li", {},
        h("span", {}, guide.partyName(item.role)),
        h("span", { class: "soft" }, entry.withdrawnBy.includes(item.role)
          ? guide.say("receipt.erased") : guide.say("receipt.signed", { when: guide.words.when(item.receiveTimeMs) }))))) : null,
      h("p", { class: "soft hash" }, `${guide.say("receipt.number")}: ${entry.submissionId}`),
      entry.consent ? h("p", { class: "soft" }, guide.say("receipt.consent", {
        version: entry.consent.version, name: entry.consent.name, when: guide.words.when(entry.consent.signed_ms) })) : null,
      state === "sent" || state === "too_late" ? keep(guide) : null,
      h("div", { class: "row" },
        state !== "withdrawing" && [true, false].map((another) => button(guide.say(another ? "leave.other" : "leave.remove"), () => {
          guide.another = another;
          guide.go("leave");
        })),
        state === "sent" && button(guide.say("receipt.withdraw"), () => guide.go("withdraw"), { class: "warn" }),
        state === "withdrawn" && guide.opened.study.admission === "open" && button(guide.say("study.begin"), () => guide.startAnew()),
        state === "withdrawing" && button(guide.say("sending.retry"), () => guide.tryNow(), { class: "main", "aria-disabled": guide.busy ? "true" : null })),
    ],
  };
}

/** @param {Guide} guide */
function keep(guide) {
  const link = guide.receiptLink;
  return [
    h("h2", {}, guide.say("receipt.keep")),
    h("p", {}, guide.say("receipt.keep.text")),
    h("div", { class: "row" },
      button(guide.say("receipt.save"), () => guide.saveReceipt(), { class: "main" }),
      link !== "" && button(guide.say("receipt.print"), () => window.print())),
    link === "" ? null : h("details", {},
      h("summary", {}, guide.say("receipt.code")),
      h("p", {}, guide.say("receipt.code.text")),
      code(link, guide.say("receipt.code"))),
    link === "" ? null : h("section", { class: "paper" },
      h("p", { class: "section", ...guide.inForm }, guide.title),
      h("p", {}, guide.say("receipt.paper", { when: guide.words.when(guide.sentMs), page: location.origin + location.pathname })),
      code(link, guide.say("receipt.code")),
      h("p", { class: "hash" }, `${guide.say("receipt.number")}: ${guide.shown.submissionId}`),
      h("p", {}, guide.say("study.contact", { contact: guide.opened.study.contact }))),
  ].flat();
}

/** @param {string} text @param {string} label */
function code(text, label) {
  const modules = qrModules(text);
  let path = "";
  modules.forEach((line, row) => line.forEach((dark, column) => {
    if (dark) path += `M${column},${row}h1v1h-1z`;
  }));
  return drawing(path, `-4 -4 ${modules.length + 8} ${modules.length + 8}`,
    { class: "code", role: "img", "aria-label": label, "shape-rendering": "crispEdges" });
}

/** A page that asks, or says what is so: paragraphs, and what can be done. @param {Guide} guide @param {string} title @param {string[]} told keys of texts @param {...any} buttons */
const asking = (guide, title, told, ...buttons) => ({
  title: guide.say(title),
  body: [told.map((key) => h("p", {}, guide.say(key))), buttons.some(Boolean) && h("div", { class: "row" }, buttons)],
});

/** Asked before anything is deleted. @param {Guide} guide */
export const discardView = (guide) => asking(guide, "discard.title", ["discard.text"],
  button(guide.say("discard.confirm"), () => guide.discard(), { class: "warn" }),
  button(guide.say("back"), () => guide.showEntry(), { class: "main" }));

/** The same for a draft. @param {Guide} guide */
export const forgetView = (guide) => asking(guide, "forget.title", ["forget.text"],
  button(guide.say("discard.confirm"), () => guide.startAnew(), { class: "warn" }),
  button(guide.say("back"), () => guide.go(guide.part.step), { class: "main" }));

/** Before the receipt leaves this browser: what that means. @param {Guide} guide */
export const leaveView = (guide) => asking(guide, "leave.title", ["leave.text"],
  guide.shown.receipt !== null && button(guide.say("receipt.save"), () => guide.saveReceipt(), { class: "main" }),
  button(guide.say("discard.confirm"), () => guide.leave(guide.another), { class: "warn" }),
  button(guide.say("back"), () => guide.showEntry()));

/** Nothing is left. @param {Guide} guide */
export function leftView(guide) {
  const open = guide.opened.study.admission === "open";
  return asking(guide, "leave.done", open ? ["leave.done.text"] : ["leave.done.text", "leave.done.invited"],
    open && button(guide.say("leave.other"), () => location.reload()));
}

/** What withdrawing can do, and what nobody can. @param {Guide} guide */
export function withdrawView(guide) {
  const held = { "aria-disabled": guide.busy ? "true" : null };
  const { title, body: [told, row] } = asking(guide, "withdraw.heading", ["withdraw.can", "withdraw.cannot", "withdraw.again"],
    button(guide.say("withdraw.confirm"), () => guide.withdraw(), { class: "warn", ...held }),
    button(guide.say("withdraw.keep"), () => { if (!guide.busy) guide.showEntry(); }, { class: "main", ...held }));
  return { title, body: [told, guide.busy ? h("p", { class: "status" }, guide.say("withdraw.busy")) : null, row] };
}

/** Where the way ends: what happened, what it means, what can be done. @param {Guide} guide */
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
function contact(guide) {
  const text = guide.maybeOpened?.study.contact ?? "";
  if (!text) return null;
  const href = /^[^\s@:/?#]+@[^\s@:/?#]+$/.test(text) ? `mailto:${text}` : /^https:\/\/\S+$/.test(text) ? text : null;
  const [before = "", after = ""] = guide.say("study.contact", { contact: "\n" }).split("\n");
  return h("p", {}, before, href === null ? text : h("a", { href, rel: "noreferrer" }, text), after);
}
