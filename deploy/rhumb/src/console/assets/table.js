/**
 * Small tables and lists of facts for the panel.
 * In: names and values. Out: elements.
 */
import { make } from "./dom.js";
import { plain } from "./format.js";

/** A list of names and values. Values may be text or nodes; null ones are left out. */
export function facts(pairs) {
  const rows = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return make("dl", { class: "facts" }, rows.map(([name, value, raw]) => make("div", {},
    make("dt", {}, plain(name)),
    make("dd", { "data-value": raw }, value instanceof Node ? value : plain(value)))));
}

/** A titled part of the panel. */
export const part = (title, ...children) => make("section", {}, make("h3", {}, plain(title)), ...children);

/** Buttons that open other things in the panel. */
export const doors = (kind, names) => make("span", { class: "doors" },
  names.map((name) => make("button", { class: "link", "data-open": `${kind}:${name}` }, plain(name))));

/** A URL of the crawl. It is a button that opens its story, never a link. */
export const urlButton = (url) =>
  make("button", { class: "url", "data-open": `story:${url}`, "data-test": "url" }, plain(url));
