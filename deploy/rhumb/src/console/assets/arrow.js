/**
 * The arrow of one edge in the picture.
 * In: its paths and text slots, and the edge of each view. Out: an SVG group that can be pressed.
 */
import { draw, seen, set, write } from "./dom.js";
import { rate, short, span, tight } from "./format.js";

const OLD_S = 1;

/** The texts an arrow can show. */
const TEXTS = {
  name: (edge) => edge.name,
  takers: (edge) => `→ ${edge.to.join(", ")}`,
  rate: (edge) => (edge.rate === null && edge.kind === "core" ? "" : rate(edge.rate)),
  backlog: (edge) => (edge.backlog > 0 ? `backlog ${tight(short(edge.backlog))}` : ""),
  oldest: (edge) => (edge.oldest_s > OLD_S ? `oldest ${tight(span(edge.oldest_s))}` : ""),
};

/** Whether work on an edge stays behind: it is older than a second, or more than a second can bring. */
export const isBehind = (edge) => edge.oldest_s > OLD_S || edge.backlog > Math.max(10, edge.rate ?? 0);

/** Makes the arrow. */
export function makeArrow({ edge, paths, heads, dots, slots }, shorten) {
  const node = draw("g", { role: "button", tabindex: 0 },
    paths.map((d) => draw("path", { class: "reach", d })),
    paths.map((d) => draw("path", { class: "line", d })),
    heads.map((d) => draw("path", { class: "tip", d })),
    dots.map(({ x, y }) => draw("circle", { class: "dot", cx: x, cy: y, r: 3 })),
    slots.map(makeSlot));
  set(node, "data-test", `edge-${edge.name}`);
  set(node, "data-open", `edge:${edge.name}`);
  return { node, name: (room) => shorten(edge.name, room) };
}

function makeSlot({ x, y, anchor, parts, room }) {
  const spans = parts.map((part) =>
    draw("tspan", { class: `part-${part}`, "data-part": part, "data-room": room }));
  return draw("text", { x, y, "text-anchor": anchor }, spans.flatMap((one) => [one, " "]));
}

/** Brings the arrow up to date. */
export function showArrow({ node, name }, edge, holds) {
  const behind = isBehind(edge);
  set(node, "class", `edge is-${edge.kind}${behind ? " is-behind" : ""}${holds ? " is-holding" : ""}`);
  set(node, "data-value", edge.backlog);
  node.style.setProperty("--thick", `${thickness(edge.rate).toFixed(2)}px`);
  for (const part of node.querySelectorAll("tspan")) {
    const kind = part.getAttribute("data-part");
    const room = Number(part.getAttribute("data-room"));
    write(part, kind === "name" && room ? name(room) : TEXTS[kind](edge));
  }
  set(node, "aria-label", label(seen(node), edge, behind, holds));
}

/** Busy edges are thicker. */
const thickness = (perSecond) => 1.25 + 0.45 * Math.log10(1 + (perSecond ?? 0));

function label(words, edge, behind, holds) {
  return [
    `Edge ${words}`, !words.includes(edge.name) && edge.name, edge.kind,
    `from ${edge.from.join(", ")} to ${edge.to.join(", ")}`, behind && "stays behind", holds && "holds stages back",
  ].filter(Boolean).join(", ");
}
