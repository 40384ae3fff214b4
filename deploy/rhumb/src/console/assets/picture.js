/**
 * The picture of the dataflow: boxes for stages, arrows for edges.
 * In: views. Out: an SVG, laid out from the stages and edges alone. It is laid out anew only when their names, or the
 * width of the page, change. Between that, each view changes texts, bars and colours.
 */
import { makeArrow, showArrow } from "./arrow.js";
import { makeBox, showBox } from "./box.js";
import { layColumn } from "./column.js";
import { draw, find, set } from "./dom.js";
import { layRow } from "./row.js";
import * as view from "./view.js";

const NARROW = 760;
const pen = document.createElement("canvas").getContext("2d");
let family = "";
let width = 0;
let layoutKey = "";
let boxes = new Map();
let arrows = new Map();

/** Begins to watch the crawl and the width of the page. */
export function start() {
  view.watch(show);
  find("picture").addEventListener("keydown", press);
  new ResizeObserver(resize).observe(find("picture"));
}

/** The observer tells the width after each layout. To ask for it would make the browser lay out the page for that. */
function resize(entries) {
  width = Math.floor(entries.at(-1).contentRect.width);
  if (view.now()) show(view.now());
}

function show(now) {
  if (!width) return;
  const key = keyOf(now);
  if (key !== layoutKey) build(now);
  layoutKey = key;
  for (const stage of now.stages) showBox(boxes.get(stage.name), stage, now.short?.stage === stage.name);
  for (const edge of now.edges) showArrow(arrows.get(edge.name), edge, holdsBack(now.stages, edge));
}

/** What the layout depends on. */
const keyOf = ({ stages, edges }) =>
  JSON.stringify([width, stages.map(({ name }) => name), edges.map(({ name, from, to }) => [name, from, to])]);

const holdsBack = (stages, edge) => stages.some((stage) => stage.shares?.held_back?.[edge.name] > 0.05);

function build({ stages, edges }) {
  family = getComputedStyle(document.body).fontFamily;
  const layout = width < NARROW ? layColumn(stages, edges, width) : layRow(stages, edges, width, measure);
  boxes = new Map(layout.boxes.map((box) => [box.name, makeBox(box, shorten)]));
  arrows = new Map(layout.arrows.map((arrow) => [arrow.edge.name, makeArrow(arrow, shorten)]));
  const size = { width: layout.width, height: layout.height };
  find("picture").replaceChildren(draw("svg", { ...size, role: "group", "aria-label": "Stages and edges" },
    hatch(), layout.pills.map(makePill), inOrder(stages, edges)));
}

/** Each stage is followed by the edges that leave it, so that the Tab key walks along the flow. */
function inOrder(stages, edges) {
  const rest = new Set(edges);
  const take = (wanted) => [...rest].filter((edge) => wanted(edge) && rest.delete(edge))
    .map((edge) => arrows.get(edge.name).node);
  const nodes = stages.flatMap(({ name }) => [boxes.get(name).node, ...take((edge) => edge.from.includes(name))]);
  return [...nodes, ...take(() => true)];
}

function makePill({ name, x, y, w, h }) {
  return draw("g", { class: "pill" },
    draw("rect", { x, y, width: w, height: h, rx: h / 2 }),
    draw("text", { x: x + w / 2, y: y + h / 2 + 4, "text-anchor": "middle" }, name));
}

/** The pattern of what is held back. */
function hatch() {
  const size = { width: 5, height: 5 };
  const pattern = { id: "hatch", ...size, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  return draw("defs", {}, draw("pattern", pattern,
    draw("rect", { class: "hatch-ground", ...size }),
    draw("rect", { class: "hatch-line", ...size, width: 2.5 })));
}

function measure(text, strong) {
  pen.font = `${strong ? "600 12.5px" : "500 11.5px"} ${family}`;
  return pen.measureText(text).width;
}

/** Cuts a text that is wider than its room. */
function shorten(text, room, strong) {
  if (measure(text, strong) <= room) return text;
  let kept = text.length;
  while (kept > 1 && measure(`${text.slice(0, kept)}…`, strong) > room) kept--;
  return `${text.slice(0, kept)}…`;
}

/** Presses what has the focus when Enter or Space is hit: SVG parts do not do that by themselves. */
function press(event) {
  const target = event.target.closest("[role=button]");
  if (!target || !["Enter", " "].includes(event.key)) return;
  event.preventDefault();
  target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
}
