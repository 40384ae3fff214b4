/**
 * The narrow layout of the picture: parties one under the other, each with the edges that leave it.
 * In: stages, edges and the width there is. Out: the same shapes as those of the wide layout.
 */
import { head } from "./lanes.js";

const BOX = 92;
const PILL = { width: 90, height: 24 };
const LINE = 38;
const STEP = 14;
const MARGIN = 2;

/** Lays the picture out in a column. */
export function layColumn(stages, edges, width) {
  const parties = partiesOf(stages, edges);
  const layout = { width, height: 0, boxes: [], pills: [], arrows: edges.map(blank) };
  let y = MARGIN;
  parties.forEach((party, i) => {
    const shape = party.stage ? { h: BOX, w: width - 2 * MARGIN } : { h: PILL.height, w: PILL.width };
    (party.stage ? layout.boxes : layout.pills).push({ name: party.name, x: MARGIN, y, ...shape });
    y = hang(layout.arrows, party.name, parties[i + 1]?.name, y + shape.h);
  });
  return { ...layout, height: y };
}

const blank = (edge) => ({ edge, paths: [], heads: [], dots: [], slots: [] });

/** Givers that are no stage come first, then the stages. */
function partiesOf(stages, edges) {
  const names = new Set(stages.map((stage) => stage.name));
  const others = new Set(edges.flatMap((edge) => edge.from).filter((name) => !names.has(name)));
  return [...[...others].map((name) => ({ name })), ...stages.map(({ name }) => ({ name, stage: true }))];
}

/** Hangs all edges that leave a party under it. Gives where the next party begins. */
function hang(arrows, party, next, top) {
  const leaving = arrows.filter((arrow) => arrow.edge.from.includes(party));
  leaving.sort((a, b) => a.edge.to.includes(next) - b.edge.to.includes(next));
  const bottom = top + leaving.length * LINE + 10;
  const textX = MARGIN + STEP * (leaving.length + 1) + 12;
  leaving.forEach((arrow, i) => {
    const x = MARGIN + STEP * (leaving.length - i);
    const y = top + i * LINE + 19;
    if (arrow.edge.to.includes(next)) lead(arrow, x, top, bottom);
    else turn(arrow, x, top, y, textX - 8);
    label(arrow, textX, y);
  });
  return bottom;
}

/** An arrow straight down to the next party. */
function lead(arrow, x, top, bottom) {
  arrow.paths.push(`M${x} ${top}V${bottom - 3}`);
  arrow.heads.push(head(x, bottom - 1, 0, 1));
}

/** An arrow that turns to the names of the parties it leads to. */
function turn(arrow, x, top, y, end) {
  arrow.paths.push(`M${x} ${top}V${y - 7}Q${x} ${y} ${x + 7} ${y}H${end - 2}`);
  arrow.heads.push(head(end, y, 1, 0));
}

function label(arrow, x, y) {
  arrow.slots.push({ x, y: y - 3, anchor: "start", parts: ["name", "takers"] });
  arrow.slots.push({ x, y: y + 12, anchor: "start", parts: ["rate", "backlog", "oldest"] });
}
