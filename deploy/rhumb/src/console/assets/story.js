/**
 * The story of one URL: what each stage knows of it, and the messages about it.
 * In: a URL, from a button or from the form. Out: the body of the panel.
 */
import { get } from "./api.js";
import { find, make } from "./dom.js";
import { clock, plain } from "./format.js";
import * as place from "./place.js";
import { missing } from "./server.js";
import { facts, part } from "./table.js";

export const EVERY = 0;

/** Begins to listen to the form. */
export function start() {
  find("story-form").addEventListener("submit", (event) => {
    event.preventDefault();
    place.go({ kind: "story", name: new FormData(event.target).get("url").trim() });
  });
}

/** The title of the panel. */
export const title = () => "Story of a URL";

/** The body of the panel. */
export async function draw(url, signal) {
  const story = await get("story", { url }, signal);
  return [make("div", { "data-test": "story", "data-value": story.url },
    make("p", { class: "long-text", "data-test": "story-url" }, plain(story.url)),
    facts([["partition", story.partition], ["trace", story.trace]]),
    part("What the stages know", steps(story.steps)),
    part("Messages on streams", messages(story)),
    ...missing(story))];
}

function steps(all) {
  if (!all.length) return make("p", { class: "quiet" }, "No stage knows this URL.");
  return make("ol", { class: "steps" }, all.map((step) => make("li", {},
    make("b", {}, plain(`${step.stage} ${step.instance}`)), make("span", { class: "long-text" }, plain(step.says)))));
}

function messages({ messages: all, cut }) {
  if (!all.length) return make("p", { class: "quiet" }, cut ? "None was found in time." : "None among the oldest of each stream.");
  return make("ol", { class: "steps" }, all.map((one) => make("li", {},
    make("button", { class: "link", "data-open": `edge:${one.edge}`, title: plain(one.subject) }, plain(one.edge)),
    make("span", { class: "long-text" }, plain(one.says)))));
}
