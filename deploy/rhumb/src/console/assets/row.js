/**
 * The wide layout of the picture: stages in a row, in the order of the flow.
 * In: stages, edges, the width there is, and a function that measures text. Out: {width, height, boxes, pills, arrows},
 * where an arrow has paths, heads, dots and slots, and a slot says which parts of its edge's text stand where.
 *
 * An edge to the next stage is a straight arrow in the gap between the boxes. What leads further ahead runs in lanes
 * above, what leads back runs in lanes below.
 */
import { head, route, setLanes } from "./lanes.js";

const BOX = { least: 100, most: 150, low: 128, high: 156, frame: 15 };
const GAP = { least: 74, most: 124 };
const IN_A_GAP = 2;
const MARGIN = 2;
const LANE_WORDS = 74;

/** Lays the picture out in a row. */
export function layRow(stages, edges, width, measure) {
  const boxes = makeBoxes(stages, width, measure);
  const columns = new Map(boxes.map((box, i) => [box.name, i]));
  const arrows = edges.map((edge) => split(edge, columns));
  limitGaps(arrows, boxes);
  const busesAt = (side) => busesOf(arrows, side, (party) => boxes[columns.get(party)], measure);
  const buses = { above: busesAt("above"), below: busesAt("below") };
  const height = stack(boxes, arrows, buses, (name) => measure(name) + 18);
  return {
    width: boxes.length ? boxes.at(-1).x + boxes.at(-1).w + MARGIN : width,
    height,
    boxes,
    pills: [...buses.above, ...buses.below].flatMap((bus) => bus.pills),
    arrows: arrows.map((arrow) => join(arrow, boxes, buses)),
  };
}

const clamp = (n, least, most) => Math.max(least, Math.min(most, n));

function makeBoxes(stages, width, measure) {
  const n = stages.length;
  const gaps = Math.max(1, n - 1);
  const longest = Math.max(BOX.least, ...stages.map(({ name }) => measure(name, true) + BOX.frame));
  const least = Math.min(longest, BOX.most);
  const w = clamp((width - 2 * MARGIN) / (n + 0.8 * gaps), least, BOX.most);
  const gap = clamp((width - 2 * MARGIN - n * w) / gaps, GAP.least, GAP.most);
  return stages.map((stage, i) => ({ name: stage.name, x: MARGIN + i * (w + gap), y: 0, w, h: BOX.low }));
}

/** Sorts the pairs of giver and taker of an edge by the way their arrow runs. */
function split(edge, columns) {
  const arrow = { edge, direct: [], above: [], below: [] };
  for (const from of edge.from) {
    for (const to of edge.to) arrow[wayOf(columns.get(from), columns.get(to))]?.push({ from, to });
  }
  arrow.direct = arrow.direct.map(({ from }) => ({ column: columns.get(from) }));
  return arrow;
}

function wayOf(from, to) {
  if (from === undefined && to === undefined) return "nowhere";
  if (from === undefined) return "below";
  if (to === undefined || to === from) return "above";
  if (to === from + 1) return "direct";
  return to > from ? "above" : "below";
}

/** Gives the straight arrows of a gap their order. What a gap cannot hold goes above. */
function limitGaps(arrows, boxes) {
  const used = new Map();
  for (const arrow of arrows) {
    for (const one of [...arrow.direct]) {
      one.order = used.get(one.column) ?? 0;
      used.set(one.column, one.order + 1);
      if (one.order >= IN_A_GAP) lift(arrow, one, boxes);
    }
  }
  for (const one of arrows.flatMap((arrow) => arrow.direct)) one.of = Math.min(IN_A_GAP, used.get(one.column));
}

function lift(arrow, one, boxes) {
  arrow.direct.splice(arrow.direct.indexOf(one), 1);
  arrow.above.push({ from: boxes[one.column].name, to: boxes[one.column + 1].name });
}

/** One bus for each arrow that has pairs on this side. */
function busesOf(arrows, side, boxOf, measure) {
  return arrows.filter((arrow) => arrow[side].length).map((arrow) =>
    ({ arrow, ends: endsOf(arrow[side], boxOf), need: measure(arrow.edge.name) + LANE_WORDS }));
}

function endsOf(pairs, boxOf) {
  const end = (party, role) => ({ party, role, box: boxOf(party) });
  const givers = new Set(pairs.map((pair) => pair.from));
  const takers = new Set(pairs.map((pair) => pair.to));
  return [...[...givers].map((party) => end(party, "out")), ...[...takers].map((party) => end(party, "in"))];
}

/** Puts the lanes above, the boxes and the lanes below one under the other. Gives the height of all. */
function stack(boxes, arrows, buses, pillWidth) {
  const crowded = arrows.some((arrow) => arrow.direct.some((one) => one.of > 1));
  const h = crowded ? BOX.high : BOX.low;
  const y = setLanes(buses.above);
  for (const box of boxes) Object.assign(box, { y, h });
  const below = setLanes(buses.below);
  route(buses.above, -1, pillWidth);
  route(buses.below, 1, pillWidth);
  return y + h + below;
}

function join(arrow, boxes, buses) {
  const parts = [
    ...arrow.direct.map((one, i) => straight(one, boxes, i === 0)),
    ...[...buses.above, ...buses.below].filter((bus) => bus.arrow === arrow).map((bus, i) => ({
      paths: bus.paths, heads: bus.heads, dots: bus.dots, slots: laneSlots(bus, arrow.direct.length + i > 0),
    })),
  ];
  const all = (key) => parts.flatMap((part) => part[key]);
  return { edge: arrow.edge, paths: all("paths"), heads: all("heads"), dots: all("dots"), slots: all("slots") };
}

function straight(one, boxes, first) {
  const [left, right] = [boxes[one.column], boxes[one.column + 1]];
  const y = left.y + (one.of === 1 ? left.h * 0.42 : one.order === 0 ? 30 : 102);
  const [from, to] = [left.x + left.w, right.x];
  return {
    paths: [`M${from} ${y}H${to - 3}`],
    heads: [head(to - 1, y, 1, 0)],
    dots: [],
    slots: gapSlots((from + to) / 2 - 2, y, to - from - 8, first),
  };
}

function gapSlots(x, y, room, first) {
  const slot = (dy, ...parts) => ({ x, y: y + dy, anchor: "middle", parts, room });
  if (!first) return [slot(-8, "name")];
  return [slot(-8, "name"), slot(15, "rate"), slot(29, "backlog"), slot(43, "oldest")];
}

function laneSlots({ spot, y }, echo) {
  const slot = (dy, ...parts) => ({ ...spot, y: y + dy, parts });
  return echo ? [slot(-6, "name")] : [slot(-6, "name", "rate"), slot(14, "backlog", "oldest")];
}
