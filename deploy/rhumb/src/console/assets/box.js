/**
 * The box of one stage in the picture.
 * In: where it stands, and the stage of each view. Out: an SVG group that can be pressed.
 */
import { draw, seen, set, write } from "./dom.js";
import { bytes, many, percent } from "./format.js";

const MARKS = { busy: "●", waiting: "○", held: "◐", idle: "–", down: "✕" };
const WIDE = 200;

/** Makes the box. */
export function makeBox({ name, x, y, w, h }, shorten) {
  const wide = w > WIDE;
  const { texts, bar } = wide ? wideParts(w) : slimParts(w);
  const node = draw("g", { role: "button", tabindex: 0, transform: `translate(${x} ${y})` },
    draw("rect", { class: "face", width: w, height: h, rx: 6 }),
    Object.entries(texts).flatMap(([part, [tx, ty, anchor]]) =>
      [draw("text", { class: `part-${part}`, x: tx, y: ty, "text-anchor": anchor ?? "start" }), " "]),
    ["waiting", "busy", "held"].map((part) => draw("rect", { class: `share-${part}`, ...bar, rx: 2 })));
  set(node, "data-test", `stage-${name}`);
  set(node, "data-open", `stage:${name}`);
  write(node.querySelector(".part-name"), shorten(name, w - 13, true));
  return { node, bar, wide };
}

function slimParts(w) {
  const end = w - 7;
  return {
    texts: {
      name: [7, 19], state: [7, 37], instances: [end, 37, "end"], "cpu-word": [7, 56], cpu: [end, 56, "end"],
      "memory-word": [7, 71], memory: [end, 71, "end"], busy: [7, 104], held: [7, 118],
    },
    bar: { x: 7, y: 81, width: w - 14, height: 8 },
  };
}

function wideParts(w) {
  const end = w - 12;
  return {
    texts: {
      name: [12, 21], state: [12, 40], instances: [end, 21, "end"],
      "cpu-word": [w * 0.36, 40], cpu: [w * 0.62, 40, "end"],
      "memory-word": [w * 0.68, 40], memory: [end, 40, "end"], busy: [12, 77], held: [end, 77, "end"],
    },
    bar: { x: 12, y: 52, width: w - 24, height: 8 },
  };
}

/** Brings the box up to date. */
export function showBox({ node, bar, wide }, stage, isShort) {
  const held = heldBack(stage);
  const part = (name, text) => write(node.querySelector(`.part-${name}`), text);
  set(node, "class", `stage is-${stage.state}${isShort ? " is-short" : ""}`);
  set(node, "data-value", stage.state);
  part("state", `${MARKS[stage.state] ?? "?"} ${stage.state}`);
  part("instances", wide ? many(stage.instances.length, "instance") : `×${stage.instances.length}`);
  part("cpu-word", "CPU");
  part("cpu", percent(stage.cpu));
  part("memory-word", "mem");
  part("memory", bytes(stage.rss_bytes));
  part("busy", `${percent(stage.shares?.busy)} busy`);
  part("held", held > 0.005 ? `${percent(held)} held back` : "");
  showBar(node, bar, stage.shares?.busy ?? 0, held);
  set(node, "aria-label", `Stage ${seen(node)}${isShort ? ", the crawl waits for it" : ""}`);
}

/** The part of its time that edges hold a stage back. */
export const heldBack = (stage) => Object.values(stage.shares?.held_back ?? {}).reduce((sum, part) => sum + part, 0);

function showBar(node, bar, busy, held) {
  const [busyWidth, heldWidth] = [busy, held].map((share) => Math.max(0, Math.min(1, share)) * bar.width);
  set(node.querySelector(".share-busy"), "width", busyWidth.toFixed(1));
  set(node.querySelector(".share-held"), "width", Math.min(heldWidth, bar.width - busyWidth).toFixed(1));
  set(node.querySelector(".share-held"), "x", (bar.x + busyWidth).toFixed(1));
}
