// The page: from its link to the first view, and from every change of the guide to the next.

import { DeviceError, Link, parseStudy, supported, toHex, Unreachable } from "../device/index.js";
import { catalogue, Catalogue, direction, loadAll } from "./catalogue.js";
import { append, h } from "./dom.js";
import { Guide } from "./guide.js";
import { Keeper } from "./keeper.js";
import { PageError } from "./problem.js";
import { readReceiptFragment } from "../device/receipt.js";
import { openStore } from "./store.js";
import { discardView, forgetView, leaveView, leftView, problemView, receiptView, sendingView, withdrawView } from "./views/after.js";
import { questionView, reviewView } from "./views/answer.js";
import { consentView, eligibilityView, studyView } from "./views/join.js";

/** `above`: what stands over the heading, which is read first all the same.
 * @typedef {{title: string, titleInForm?: boolean, above?: any[], body: import("./dom.js").Child[] | any[]}} View */

/** @type {Record<import("./guide.js").Screen, (guide: Guide) => View>} */
const VIEWS = {
  starting: (guide) => ({ title: guide.say("app"), body: [h("p", { class: "status" }, guide.say("starting"))] }),
  study: studyView,
  consent: consentView,
  eligibility: eligibilityView,
  question: questionView,
  review: reviewView,
  sending: sendingView,
  discard: discardView,
  forget: forgetView,
  receipt: receiptView,
  withdraw: withdrawView,
  leave: leaveView,
  left: leftView,
  problem: problemView,
};
const TICK_MS = 15_000;

let shown = "";
let shownIn = "";

/** @param {Guide} guide */
function show(guide) {
  const root = /** @type {HTMLElement} */ (document.getElementById("page"));
  const view = VIEWS[guide.screen](guide);
  const language = guide.words.language;
  const place = guide.maybePart ? `${guide.screen} ${guide.part.at}` : guide.screen;
  const focused = place === shown ? focusIn(root) : () => null;
  const form = h("form", { novalidate: true, onsubmit: (/** @type {Event} */ event) => event.preventDefault() });
  append(form, view.body.flat(Infinity));
  const before = shown === "" ? null : document.querySelector("main");
  const languages = `${language} ${guide.formLanguage}`;
  if (before !== null && place === shown && languages === shownIn && before.querySelector("h1")?.textContent === view.title) {
    // Only what changed is made anew: who listens at the heading is left there.
    before.querySelector("form")?.replaceWith(form);
    guide.tellUnkept(guide.unkept);
  } else {
    document.documentElement.lang = language;
    document.documentElement.dir = direction(language);
    document.title = guide.maybeOpened ? `${view.title} · ${guide.title}` : view.title;
    const above = view.above ? h("div", { id: "above" }, view.above.flat(Infinity)) : null;
    const described = above && { "aria-describedby": "above" };
    const heading = h("h1", { id: "title", tabindex: -1, ...(view.titleInForm ? guide.inForm : {}), ...described }, view.title);
    const main = h("main", { id: "main", class: guide.screen, tabindex: -1 }, above, heading,
      h("p", { class: "error", id: "unkept", role: "alert", hidden: !guide.unkept }, guide.say("unkept")), form);
    root.replaceChildren(h("a", { class: "skip", href: "#main", onclick: skip }, guide.say("skip")), top(guide), main);
    if (shown !== "" && !focused()) heading.focus();
  }
  focused()?.focus();
  // Read out where it changes: a region that is made anew with its words is not.
  const status = form.querySelector(".status")?.textContent ?? "";
  if (live.textContent !== status) live.textContent = status;
  if (place !== shown) window.scrollTo(0, 0);
  [shown, shownIn] = [place, languages];
  // The browser's own button leads one page back, as the page's does: there is an entry to go back to.
  if (guide.canGoBack && !history.state?.inside) history.pushState({ inside: true }, "");
}

/** The browser's own way back. From where the page has none, it leads out of it. @param {Guide} guide */
function wentBack(guide) {
  if (history.state?.inside || location.href !== opened) return; // forward, or another link
  if (guide.canGoBack) guide.goBack();
  else history.back();
}

/** Finds what has the focus again after the view is made anew: by its id, or else by its place. @param {HTMLElement} root */
function focusIn(root) {
  const all = () => /** @type {HTMLElement[]} */ ([...root.querySelectorAll("a, button, input, select, summary, form [tabindex]")]);
  const found = /** @type {HTMLElement | null} */ (document.activeElement);
  const before = all();
  const place = found === null ? -1 : before.indexOf(found);
  return () => {
    if (found?.id) return document.getElementById(found.id);
    const after = all();
    return place >= 0 && after[place]?.tagName === before[place]?.tagName ? (after[place] ?? null) : null;
  };
}

/** The fragment is the invitation: a skip link must not replace it. @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** @param {Guide} guide */
function top(guide) {
  const languages = guide.screen === "study" ? guide.part.form.languages : []; // chosen once, at the beginning
  const choice = h("select", { id: "language", onchange: (/** @type {any} */ event) => guide.chooseLanguage(event.target.value) },
    languages.map((language) => h("option", { value: language, lang: language }, Catalogue.nameOf(language))));
  if (guide.maybePart) choice.value = guide.part.language;
  const asking = guide.maybePart && ["study", "consent", "eligibility", "question", "review"].includes(guide.screen);
  return h("header", {},
    guide.screen === "study" ? null : h("p", guide.inForm, guide.title), // its heading says it
    languages.length > 1 ? h("label", {}, guide.say("language"), choice) : null,
    asking ? h("progress", { max: 1, value: guide.part.progress, "aria-label": guide.say("progress") }) : null);
}

/** From the link to the study. @param {Guide} guide @param {Promise<Uint8Array>} [early] the study's file, asked for before */
async function start(guide, early) {
  guide.go("starting");
  try {
    const receipt = readReceiptFragment(location.hash.slice(1));
    const { studyId, invitation } = receipt ? { studyId: receipt.studyId, invitation: null } : Link.parse(location.href);
    if (!(await supported())) throw new PageError("browser");
    const { store, key, lasting } = await openStore();
    guide.unkept = !lasting;
    const keeper = new Keeper(store, key);
    const checked = (await keeper.known(toHex(studyId))) ?? (await parseStudy(await (early ?? fetched("study.json")), { expectedId: studyId }));
    await guide.open(keeper, await keeper.join(checked, invitation, location.origin));
    if (receipt) await guide.importReceipt(receipt.toJson());
  } catch (error) {
    guide.failed(error, error instanceof Unreachable || !(error instanceof DeviceError) ? () => start(guide) : null);
  }
}

/** A file beside the page. @param {string} name */
async function fetched(name) {
  try {
    const response = await fetch(new URL(name, document.baseURI), { credentials: "omit", referrerPolicy: "no-referrer" });
    if (response.ok) return new Uint8Array(await response.arrayBuffer());
  } catch {
    // told below, like an answer that is none
  }
  throw new Unreachable("the study could not be fetched", name);
}

const opened = location.href;
const live = h("p", { class: "unseen", role: "status" });
document.body.append(live);
const wanted = navigator.language || "en";
const early = fetched("study.json"); // beside the words, not after them
early.catch(() => undefined);
const guide = new Guide(await catalogue(wanted), wanted, () => show(guide));
window.addEventListener("hashchange", () => location.reload());
window.addEventListener("popstate", () => wentBack(guide));
window.addEventListener("online", () => { if (guide.entry) void guide.tryNow(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) void guide.tick(); });
setInterval(() => void guide.tick(), TICK_MS);
await start(guide, early);
await loadAll(guide.maybePart?.form.languages ?? []).catch(() => undefined);
