/**
 * The lanes above and below the row of boxes, in which all arrows run that do not lead straight to the next box.
 * In: buses {ends: [{party, box, role}], need}. A role is "out" or "in", a box is missing for parties that are no
 * stage, and need is the width of the label. Out: the same buses with paths, heads, dots, pills and a label's spot.
 *
 * A bus is one arrow with all its ends. Short buses get the lanes next to the boxes. The order of the ports keeps
 * buses that run side by side from crossing. A label takes the widest part of its lane that no other arrow crosses.
 */
const PITCH = 36;
const FIRST = 25;
const LAST = 24;
const NONE = 12;
const RADIUS = 7;
const HEAD = 7;
const PILL = { height: 22, gap: 10, room: 120 };

/** Gives each bus of one side a lane, the short ones next to the boxes. Gives the height that all lanes need. */
export function setLanes(buses) {
  buses.forEach(measure);
  const lanes = fill([...buses].sort((a, b) => a.right - a.left - (b.right - b.left)));
  return lanes ? FIRST + (lanes - 1) * PITCH + LAST : NONE;
}

/** Routes all buses of one side, once the boxes stand. The sign is 1 below the boxes and -1 above them. */
export function route(buses, sign, pillWidth) {
  setPorts(buses, pillWidth);
  for (const bus of buses) place(bus, buses, sign, pillWidth);
  for (const bus of buses) bus.spot = spotOf(bus, buses);
}

const centre = (box) => box.x + box.w / 2;
const outside = (bus, role) => bus.ends.some((end) => !end.box && end.role === role);
const pillOf = (bus, role) => bus.pills.find((pill) => pill.role === role);

/** Estimates from where to where a bus runs, with its pills and its label. */
function measure(bus) {
  const centres = bus.ends.filter((end) => end.box).map((end) => centre(end.box));
  bus.left = Math.min(...centres);
  bus.right = Math.max(...centres);
  bus.isShort = bus.left === bus.right;
  const [giver, taker] = [outside(bus, "out"), outside(bus, "in")];
  if (bus.isShort && !taker) bus.left -= bus.need;
  if (bus.isShort && taker) bus.right += bus.need;
  if (giver) bus.left -= PILL.room;
  if (taker) bus.right += PILL.room;
}

/** Gives each bus the nearest lane that is free. Gives the number of lanes. */
function fill(buses) {
  const lanes = [];
  for (const bus of buses) {
    const free = lanes.findIndex((lane) => lane.every((other) => other.right <= bus.left || bus.right <= other.left));
    bus.lane = free < 0 ? lanes.push([]) - 1 : free;
    lanes[bus.lane].push(bus);
  }
  return lanes.length;
}

/** Orders the ports of each box: from the left near to far, those that pass, to the right far to near. */
function setPorts(buses, pillWidth) {
  const byBox = Map.groupBy(buses.flatMap(portsOf), (port) => port.end.box);
  for (const [box, ports] of byBox) {
    ports.sort((a, b) => a.way - b.way || a.rank - b.rank);
    const left = box.x + Math.max(0, ...ports.map((port) => roomForPill(port, pillWidth)));
    const step = (box.x + box.w - left) / (ports.length + 1);
    ports.forEach((port, i) => (port.end.x = left + step * (i + 1)));
  }
}

/** How far the ports of the first box move to the right, so that a pill fits beside them. */
function roomForPill({ bus, end }, pillWidth) {
  const giver = bus.ends.find((one) => !one.box && one.role === "out");
  return giver ? Math.min(end.box.w / 2, pillWidth(giver.party) + PILL.gap * 2 - end.box.x) : 0;
}

function portsOf(bus) {
  return bus.ends.filter((end) => end.box).map((end) => {
    const way = wayOf(bus, end);
    return { bus, end, way, rank: way > 0 ? -bus.lane : bus.lane };
  });
}

/** -1 if the bus runs to the left from this end, 1 if to the right, 0 if both or neither. */
function wayOf(bus, end) {
  const others = bus.ends.filter((other) => other !== end);
  const left = others.some((other) => (other.box ? other.box.x < end.box.x : other.role === "out"));
  const right = others.some((other) => (other.box ? other.box.x > end.box.x : other.role === "in"));
  return right - left;
}

function place(bus, buses, sign, pillWidth) {
  const ports = bus.ends.filter((end) => end.box).sort((a, b) => a.x - b.x);
  const edgeOf = (box) => (sign > 0 ? box.y + box.h : box.y);
  bus.y = edgeOf(ports[0].box) + sign * (FIRST + bus.lane * PITCH);
  for (const port of ports) port.y = edgeOf(port.box);
  bus.from = ports[0].x;
  bus.to = ports.at(-1).x;
  bus.pills = pillsOf(bus, wallsOf(bus, buses), pillWidth);
  bus.paths = [trunk(bus, ports, sign), ...ports.slice(1, -1).map((port) => `M${port.x} ${port.y}V${bus.y}`)];
  bus.dots = dotsOf(bus, ports);
  bus.heads = headsOf(bus, ports, sign);
}

/** Parties that are no stage: givers stand at the left end of the lane, takers at the right end. */
function pillsOf(bus, walls, width) {
  const label = bus.isShort ? bus.need : 0;
  return bus.ends.filter((end) => !end.box).map(({ party, role }) => {
    const w = width(party);
    const right = clear(bus.to + label + PILL.gap * 2, w, walls, 1);
    const left = clear(bus.from - (outside(bus, "in") ? 0 : label) - w - PILL.gap * 2, w, walls, -1);
    const x = role === "in" ? right : Math.max(1, left);
    return { name: party, role, x, y: bus.y - PILL.height / 2, w, h: PILL.height };
  });
}

/** Moves a pill one way until no wall stands in it. */
function clear(x, w, walls, way) {
  const wall = walls.find((one) => one > x - PILL.gap && one < x + w + PILL.gap);
  if (wall === undefined) return x;
  return clear(way > 0 ? wall + PILL.gap : wall - w - PILL.gap, w, walls.filter((one) => one !== wall), way);
}

/** Where the vertical parts of other buses cross the lane of a bus. */
const wallsOf = (bus, buses) => buses.filter((other) => other.lane > bus.lane).flatMap(portsAt);
const portsAt = (bus) => bus.ends.filter((end) => end.box).map((end) => end.x);

function trunk(bus, ports, sign) {
  const [first, last] = [ports[0], ports.at(-1)];
  const [giver, taker] = [pillOf(bus, "out"), pillOf(bus, "in")];
  const radius = Math.min(RADIUS, first === last ? RADIUS : (last.x - first.x) / 2);
  const bend = bus.y - sign * radius;
  const rise = `M${first.x} ${first.y}V${bend}Q${first.x} ${bus.y} ${first.x + radius} ${bus.y}`;
  const fall = `H${last.x - radius}Q${last.x} ${bus.y} ${last.x} ${bend}V${last.y}`;
  const start = giver ? `M${giver.x + giver.w} ${bus.y}` : "";
  const end = taker ? `H${taker.x - 2}` : "";
  if (first === last) return (giver ? start + fall : "") + (taker ? rise + end : "");
  return rise + fall + (giver ? `${start}H${first.x + radius}` : "") +
    (taker ? `M${last.x - radius} ${bus.y}${end}` : "");
}

function dotsOf(bus, ports) {
  const joints = ports.slice(1, -1).map((port) => port.x);
  if (ports.length > 1 && pillOf(bus, "out")) joints.push(bus.from + RADIUS);
  if (ports.length > 1 && pillOf(bus, "in")) joints.push(bus.to - RADIUS);
  return joints.map((x) => ({ x, y: bus.y }));
}

function headsOf(bus, ports, sign) {
  const heads = ports.filter((port) => port.role === "in").map((port) => head(port.x, port.y, 0, -sign));
  for (const pill of bus.pills) if (pill.role === "in") heads.push(head(pill.x, bus.y, 1, 0));
  return heads;
}

/** The path of an arrow head whose tip is at x, y and which points along dx, dy. */
export function head(x, y, dx, dy) {
  const [bx, by] = [x - dx * HEAD, y - dy * HEAD];
  const half = HEAD / 2;
  return `M${x} ${y}L${bx + dy * half} ${by + dx * half}L${bx - dy * half} ${by - dx * half}Z`;
}

function spotOf(bus, buses) {
  const [giver, taker] = [pillOf(bus, "out"), pillOf(bus, "in")];
  const walls = [...wallsOf(bus, buses), ...portsAt(bus), ...bus.pills.flatMap((pill) => [pill.x, pill.x + pill.w])];
  const inside = widest(giver ? giver.x + giver.w : bus.from, taker ? taker.x - HEAD : bus.to, walls);
  const isWide = inside.to - inside.from >= Math.min(bus.need, 60);
  if (isWide) return { x: (inside.from + inside.to) / 2, anchor: "middle" };
  const left = widest(Math.max(0, bus.from - bus.need), bus.from, walls);
  const right = widest(bus.to, bus.to + bus.need, walls);
  if (left.to - left.from >= right.to - right.from) return { x: left.to - 8, anchor: "end" };
  return { x: right.from + 8, anchor: "start" };
}

/** The widest stretch between two ends that no wall stands in. */
function widest(from, to, walls) {
  const inner = walls.filter((x) => x > from && x < to).sort((a, b) => a - b);
  const stops = [from, ...inner, to];
  const stretches = stops.slice(1).map((stop, i) => ({ from: stops[i], to: stop }));
  return stretches.reduce((best, one) => (one.to - one.from > best.to - best.from ? one : best));
}
