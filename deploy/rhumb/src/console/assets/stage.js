/**
 * One stage in the panel: all its numbers, and those of each instance.
 * In: the name of a stage, and the latest view. Out: the body of the panel.
 */
import { bytes, count, millis, percent, plainNumber, span } from "./format.js";
import { doors, facts, part } from "./table.js";
import * as view from "./view.js";

export const EVERY = 1;

/** The title of the panel. */
export const title = (name) => `Stage ${name}`;

/** The body of the panel. */
export function draw(name) {
  const stage = view.stage(name);
  if (!stage) throw new Error("There is no stage of this name.");
  return [part("Now", facts(overview(stage))), ...stage.instances.map(drawInstance)];
}

function overview(stage) {
  return [
    ["says", stage.says],
    ["state", stage.state],
    ["instances", count(stage.instances.length), stage.instances.length],
    ["CPU", percent(stage.cpu), stage.cpu],
    ["CPU a page", millis(stage.cpu_ms_per_page), stage.cpu_ms_per_page],
    ["memory", bytes(stage.rss_bytes), stage.rss_bytes],
    ...shares(stage.shares),
    ["takes from", edgeDoors((edge) => edge.to.includes(stage.name))],
    ["gives to", edgeDoors((edge) => edge.from.includes(stage.name))],
  ];
}

const edgeDoors = (wanted) => doors("edge", view.now().edges.filter(wanted).map((edge) => edge.name));

function shares(all) {
  if (!all) return [];
  const held = Object.entries(all.held_back ?? {});
  return [
    ["busy", percent(all.busy), all.busy],
    ["waiting", percent(all.waiting), all.waiting],
    ...held.map(([edge, share]) => [`held back by ${edge}`, percent(share), share]),
  ];
}

function drawInstance(one) {
  return part(`Instance ${one.instance}`, facts([
    ["ready", one.ready ? "yes" : `no: ${one.reason || "no reason is known"}`],
    ["host", one.host],
    ["process", one.pid],
    ["listens on", one.listen],
    ["CPU", percent(one.cpu), one.cpu],
    ["CPU so far", span(one.cpu_s), one.cpu_s],
    ["memory", bytes(one.rss_bytes), one.rss_bytes],
    ...shares(one.shares),
    ...Object.entries(one.numbers ?? {}).map(([name, value]) => [name.replaceAll("_", " "), plainNumber(value), value]),
  ]));
}
