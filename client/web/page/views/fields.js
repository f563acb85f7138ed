// The controls that questions are answered with: the browser's own, so that keyboards, screen readers and phones know them.

import { dateOrder, dateParts, monthNames, showNumber } from "../../form/parse_input.js";
import { button, h } from "../dom.js";
import { HALF } from "../guide.js";

/** @typedef {import("../guide.js").Guide} Guide */
/** @typedef {import("../../form/question.js").Question} Question */

/** One question: what it says, its control, and the place for what is wrong. `titled`: the page's heading says it.
 * @param {Guide} guide @param {Question} question @param {boolean} [titled] @returns {HTMLElement} */
export function questionBlock(guide, question, titled = false) {
  const part = guide.part;
  const id = `q-${question.name}`;
  const language = part.language;
  const help = question.help?.[language];
  const error = h("p", { class: "error", id: `${id}-error`, role: "alert" }, guide.problems[question.name] ?? "");
  const notes = [
    help ? h("p", { class: "help", id: `${id}-help`, ...guide.inForm }, help) : null,
    question.required ? null : h("p", { class: "help", id: `${id}-optional` }, guide.say("question.optional")),
    question.rules.several ? h("p", { class: "help", id: `${id}-several` }, guide.say("question.several")) : null,
  ];
  const described = [...notes.filter((note) => note !== null).map((note) => note.id), error.id].join(" ");
  const told = {
    "aria-describedby": described, "aria-invalid": guide.problems[question.name] ? "true" : undefined,
    "aria-labelledby": titled ? "title" : undefined,
  };
  /** @param {unknown} value */
  const answer = (value) => {
    guide.answer(question, value);
    error.textContent = guide.problems[question.name] ?? "";
    for (const control of block.querySelectorAll("input, select")) {
      if (error.textContent) control.setAttribute("aria-invalid", "true");
      else control.removeAttribute("aria-invalid");
    }
  };
  const block = question.rules.control === "choices"
    ? choices(guide, question, id, notes, told, answer)
    : h("div", { class: "block" },
        titled ? null : h("label", { class: "asked", for: id, id: `${id}-label`, ...guide.inForm }, question.label[language]), notes,
        control(guide, question, id, told, answer));
  block.append(error);
  return block;
}

/** @param {Guide} guide @param {Question} question @param {string} id @param {(HTMLElement | null)[]} notes
 * @param {Record<string, any>} told @param {(value: unknown) => void} answer */
function choices(guide, question, id, notes, told, answer) {
  const given = guide.part.givenTo(question);
  const several = question.rules.several;
  const chosen = () => (Array.isArray(given[question.name]) ? given[question.name] : []);
  const inputs = question.offered(guide.part.language).map(([value, label], place) => {
    const input = h("input", {
      type: several ? "checkbox" : "radio", name: id, id: place === 0 ? id : `${id}-${place}`, value,
      checked: several ? chosen().includes(value) : given[question.name] === value,
      onchange: () => {
        answer(several ? question.toggled(chosen(), value) : value);
        if (several) for (const one of inputs) one.input.checked = chosen().includes(one.input.value);
        if (clear) clear.hidden = false;
      },
    });
    return { input, line: h("label", { class: "choice" }, input, h("span", guide.inForm, label)) };
  });
  const clear = several || question.required ? null : button(guide.say("question.clear"), () => {
    answer(null);
    for (const one of inputs) one.input.checked = false;
    inputs[0]?.input.focus();
  }, { class: "plain", hidden: given[question.name] === undefined });
  const { "aria-invalid": _, ...described } = told;
  return h("fieldset", { class: "block", ...described, role: several ? undefined : "radiogroup" },
    described["aria-labelledby"] ? null : h("legend", guide.inForm, question.label[guide.part.language]), notes,
    h("div", { class: "choices" }, inputs.map((one) => one.line)), clear);
}

/** @param {Guide} guide @param {Question} question @param {string} id @param {Record<string, any>} told
 * @param {(value: unknown) => void} answer */
function control(guide, question, id, told, answer) {
  const value = guide.part.givenTo(question)[question.name];
  const unit = question.unit?.[guide.part.language];
  const kind = question.rules.control;
  if (kind === "slider") return slider(guide, question, id, told, answer);
  const after = unit ? h("span", { id: `${id}-unit`, ...guide.inForm }, unit) : null;
  const describe = unit ? { ...told, "aria-describedby": `${id}-unit ${told["aria-describedby"]}` } : told;
  if (kind === "date") return date(guide, question, id, told, answer);
  if (kind === "time") {
    const input = h("input", {
      id, type: kind, value: value === HALF ? "" : (value ?? ""), ...describe,
      oninput: () => answer(input.validity.badInput ? HALF : input.value),
    });
    return h("div", { class: "field" }, input, after);
  }
  // Text, not type=number: browsers read "1.000" there in their own ways and do not say which.
  return h("div", { class: "field" },
    h("input", {
      id, type: "text", inputmode: question.rules.whole && (question.minimum ?? -1) >= 0 ? "numeric" : "decimal",
      autocomplete: "off", size: 12, value: value ?? "", dir: "auto", ...describe,
      oninput: (/** @type {any} */ event) => answer(event.target.value),
    }), after, range(guide, question));
}

/** @param {Guide} guide @param {Question} question */
function range(guide, question) {
  const [low, high] = [question.minimum, question.maximum];
  if (low === null || high === null) return null;
  const shown = { low: showNumber(low, guide.part.language), high: showNumber(high, guide.part.language) };
  return h("span", { class: "soft" }, guide.say("question.range", shown));
}

/** Day, month by name and year, in the language's order. What stands there is year-month-day, as far as it goes.
 * @param {Guide} guide @param {Question} question @param {string} id @param {Record<string, any>} told
 * @param {(value: unknown) => void} answer */
function date(guide, question, id, told, answer) {
  const { "aria-invalid": invalid, ...described } = told;
  const language = guide.part.language;
  const given = dateParts(guide.part.givenTo(question)[question.name]);
  const typed = () => {
    const text = [given.year, given.month, given.day].join("-");
    answer(text === "--" ? null : text);
  };
  const parts = dateOrder(language).map((part, place) => {
    const settings = { id: place === 0 ? id : `${id}-${part}`, value: given[part], "aria-invalid": invalid, "data-part": part };
    const changed = (/** @type {any} */ event) => {
      given[part] = event.target.value.trim();
      typed();
    };
    const months = () => [h("option", { value: "" }, ""), ...monthNames(language).map((name, month) => h("option", { value: month + 1 }, name))];
    const field = part === "month"
      ? h("select", { ...settings, value: undefined, onchange: changed, ...guide.inForm }, months())
      : h("input", { ...settings, type: "text", inputmode: "numeric", autocomplete: "off", size: part === "day" ? 3 : 5, oninput: changed });
    if (part === "month") field.value = given.month;
    return h("label", {}, h("span", { class: "soft" }, guide.say(`date.${part}`)), field);
  });
  const named = described["aria-labelledby"] ? described : { ...described, "aria-labelledby": `${id}-label` };
  return h("div", { class: "field date", role: "group", ...named }, parts);
}

/** @param {Guide} guide @param {Question} question @param {string} id @param {Record<string, any>} told
 * @param {(value: unknown) => void} answer */
function slider(guide, question, id, told, answer) {
  const language = guide.part.language;
  const given = guide.part.givenTo(question);
  const [low, high, step] = [question.minimum ?? 0, question.maximum ?? 1, question.step ?? 1];
  const steps = Math.round((high - low) / step);
  const show = (/** @type {number} */ value) => `${showNumber(value, language)} ${question.unit?.[language] ?? ""}`.trim();
  const at = () => Math.min(low + Number(input.value) * step, high);
  const output = h("output", { for: id, ...guide.inForm });
  const say = () => {
    const known = typeof given[question.name] === "number";
    output.textContent = known ? show(given[question.name]) : guide.say("question.unanswered");
    input.classList.toggle("unset", !known); // nothing stands in the middle as if it had been chosen
    input.setAttribute("aria-valuetext", output.textContent);
    if (clear) clear.hidden = !known;
  };
  const take = () => {
    answer(at());
    say();
  };
  const first = typeof given[question.name] === "number" ? Math.round((given[question.name] - low) / step) : Math.round(steps / 2);
  // Counted in steps, so that the browser's own rounding never meets the study's.
  const input = h("input", { id, type: "range", min: 0, max: steps, step: 1, ...told, oninput: take, onpointerup: take,
    onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === " ") { event.preventDefault(); take(); } } });
  input.value = String(first);
  const clear = question.required ? null : button(guide.say("question.clear"), () => {
    answer(null);
    input.value = String(Math.round(steps / 2));
    say();
    input.focus();
  }, { class: "plain" });
  say();
  return h("div", {}, h("p", {}, output), input, h("div", { class: "ends", "aria-hidden": "true" }, h("span", {}, show(low)), h("span", {}, show(high))), clear);
}
