/**
 * One edge in the panel: all its numbers, and a button that taps it.
 * In: the name of an edge, and the latest view. Out: the body of the panel.
 */
import { isBehind } from "./arrow.js";
import { make } from "./dom.js";
import { bytes, count, percent, rate, span } from "./format.js";
import { doors, facts, part } from "./table.js";
import * as view from "./view.js";

export const EVERY = 1;

/** The title of the panel. */
export const title = (name) => `Edge ${name}`;

/** The body of the panel. */
export function draw(name) {
  const edge = view.edge(name);
  if (!edge) throw new Error("There is no edge of this name.");
  const tap = make("button", { class: "primary", "data-tap": name, "data-test": "tap-this" }, "Tap this edge");
  return [
    make("p", { class: "buttons" }, tap),
    part("Now", facts(overview(edge))),
    part("Held back by it", heldBack(name)),
  ];
}

function overview(edge) {
  return [
    ["kind", edge.kind === "core" ? "core: messages are not kept" : edge.kind],
    ["one for each", edge.per],
    ["message", edge.message],
    ["from", parties(edge.from)],
    ["to", parties(edge.to)],
    ["rate", number(edge.rate, rate), edge.rate],
    ["backlog", number(edge.backlog, count), edge.backlog],
    ["not acknowledged", number(edge.unacked, count), edge.unacked],
    ["oldest", number(edge.oldest_s, span), edge.oldest_s],
    ["size", sizeWords(edge), edge.bytes],
    ["state", isBehind(edge) ? "stays behind" : "keeps up"],
  ];
}

const number = (value, format) => (value === null || value === undefined ? null : format(value));

function sizeWords({ bytes: size, bytes_max: most }) {
  if (size === null || size === undefined) return null;
  return most ? `${bytes(size)} of ${bytes(most)}, ${percent(size / most)}` : bytes(size);
}

/** Stages become buttons; other parties stay words. */
function parties(names) {
  return make("span", { class: "doors" }, names.map((name) => (view.stage(name) ? doors("stage", [name]) : name)));
}

function heldBack(name) {
  const held = view.now().stages.filter((stage) => stage.shares?.held_back?.[name] > 0);
  if (!held.length) return make("p", { class: "quiet" }, "No stage.");
  return facts(held.map((stage) => [stage.name, percent(stage.shares.held_back[name])]));
}
