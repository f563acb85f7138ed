// The receipt, to keep as a file or a code; and taking answers back.

import { button, drawing, h, paragraphs } from "../dom.js";
import { qrModules } from "../qr.js";

/** @typedef {import("../guide.js").Guide} Guide */

/** @param {Guide} guide */
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
      guide.consentKept,
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

/** Before the receipt leaves this browser: what that means. @param {Guide} guide */
export function leaveView(guide) {
  return {
    title: guide.say("leave.title"),
    body: [
      h("p", {}, guide.say("leave.text")),
      h("div", { class: "row" },
        guide.shown.receipt !== null && button(guide.say("receipt.save"), () => guide.saveReceipt(), { class: "main" }),
        button(guide.say("discard.confirm"), () => guide.leave(guide.another), { class: "warn" }),
        button(guide.say("back"), () => guide.showEntry())),
    ],
  };
}

/** Nothing is left. @param {Guide} guide */
export function leftView(guide) {
  const open = guide.opened.study.admission === "open";
  return {
    title: guide.say("leave.done"),
    body: [
      h("p", {}, guide.say("leave.done.text")),
      open ? h("div", { class: "row" }, button(guide.say("leave.other"), () => location.reload())) : h("p", {}, guide.say("leave.done.invited")),
    ],
  };
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

/** What withdrawing can do, and what nobody can.
 * @param {Guide} guide */
export function withdrawView(guide) {
  return {
    title: guide.say("withdraw.heading"),
    body: [
      h("p", {}, guide.say("withdraw.can")),
      h("p", {}, guide.say("withdraw.cannot")),
      h("p", {}, guide.say("withdraw.again")),
      guide.busy ? h("p", { class: "status" }, guide.say("withdraw.busy")) : null,
      h("div", { class: "row" },
        button(guide.say("withdraw.confirm"), () => guide.withdraw(), { class: "warn", "aria-disabled": guide.busy ? "true" : null }),
        button(guide.say("withdraw.keep"), () => { if (!guide.busy) guide.showEntry(); }, { class: "main", "aria-disabled": guide.busy ? "true" : null })),
    ],
  };
}
