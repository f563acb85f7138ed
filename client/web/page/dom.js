// Elements made from data, never from markup: nothing a study says can become part of the page's program.

/** @typedef {string | number | Node | null | undefined | false} Child */

/** @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag @param {Record<string, any>} [settings] `on...` are listeners, `true` and `false` switch an attribute
 * @param {...(Child | Child[])} children @returns {HTMLElementTagNameMap[K]} */
export function h(tag, settings = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(settings)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") Object.assign(element, { [name]: value });
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/** @param {Element} element @param {(Child | Child[])[]} children */
export function append(element, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
}

/** Paragraphs of a text: a line left empty begins a new one.
 * @param {string} text @param {Record<string, any>} [settings] */
export const paragraphs = (text, settings = {}) => text.split(/\n\s*\n/).map((part) => h("p", settings, part));

/** A button.
 * @param {string} text @param {() => void} press @param {Record<string, any>} [settings] */
export function button(text, press, settings = {}) {
  // A submit button only so that Enter in a field presses it; nothing is submitted.
  const onclick = (/** @type {Event} */ event) => {
    event.preventDefault();
    press();
  };
  return h("button", { type: "button", onclick, ...settings }, text);
}

/** One path of an SVG, for codes and signs.
 * @param {string} path @param {string} box @param {Record<string, string>} [settings] */
export function drawing(path, box, settings = {}) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("d", path);
  for (const [name, value] of Object.entries({ viewBox: box, ...settings })) svg.setAttribute(name, value);
  svg.append(line);
  return svg;
}
