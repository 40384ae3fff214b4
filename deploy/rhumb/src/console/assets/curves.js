/**
 * The curves: one chart for each that the program names.
 * In: the history, then the point of each view. Out: uPlot charts of the last 15 minutes or of the whole crawl.
 */
import { find, make } from "./dom.js";
import { bytes, clock, short } from "./format.js";
import * as points from "./points.js";
import * as view from "./view.js";

const HEIGHT = 150;
const COLOURS = 8;
const dark = matchMedia("(prefers-color-scheme: dark)");
let charts = [];
let plots = [];
let shownRun = "recent";
let inSight = true;

/** Begins to watch the crawl, the switch, the colour scheme and the width of the page. Loads uPlot. */
export function start() {
  view.watch(({ point }) => addPoint(point));
  find("span").addEventListener("change", changeRun);
  dark.addEventListener("change", build);
  new ResizeObserver(resize).observe(find("curves"));
  document.head.append(
    make("link", { rel: "stylesheet", href: "vendor/uPlot.min.css" }),
    make("script", { src: "vendor/uPlot.iife.min.js", load: build }));
  new IntersectionObserver(look).observe(find("curves"));
}

/** Takes the history: what charts there are, and their points so far. A view may have come after it. */
export function takeHistory(history) {
  points.reset(history);
  if (view.now()?.point) points.append(view.now().point);
  charts = history.charts;
  build();
}

function addPoint(point) {
  if (!point) return;
  points.append(point);
  if (inSight) showPoints();
}

/** Curves out of sight are not drawn. */
function look(entries) {
  inSight = entries.at(-1).isIntersecting;
  if (inSight) showPoints();
}

function changeRun(event) {
  shownRun = event.target.value;
  showPoints();
}

const dataOf = (chart) => points.columns(shownRun, chart.series.map((one) => one.key));

function showPoints() {
  plots.forEach((plot, i) => plot.setData(dataOf(charts[i])));
}

/** Makes all charts, once both the history and uPlot are there. */
function build() {
  if (!window.uPlot) return;
  for (const plot of plots) plot.destroy();
  const frames = charts.map(makeFrame);
  find("curves").replaceChildren(...frames);
  plots = charts.map((chart, i) => new uPlot(options(chart, frames[i]), dataOf(chart), frames[i]));
}

function makeFrame(chart) {
  return make("figure", { "data-test": `curve-${chart.name}` }, make("figcaption", {}, chart.title));
}

function resize() {
  for (const plot of plots) plot.setSize({ width: plot.root.parentNode.clientWidth, height: HEIGHT });
}

function options(chart, frame) {
  const format = chart.unit.startsWith("B") ? bytes : short;
  return {
    width: frame.clientWidth,
    height: HEIGHT,
    cursor: { drag: { setScale: false }, points: { size: 6 } },
    scales: { y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.1 : 1] } },
    axes: [
      axis({ values: times, space: 70, size: 24 }),
      axis({ values: (_plot, ticks) => ticks.map(format), size: 58 }),
    ],
    series: [
      { label: "time", value: (_plot, t) => (t === null ? "now" : clock(t * 1000)) },
      ...chart.series.map((one, i) => line(one, i, format)),
    ],
  };
}

/** Times of day, with seconds only where ticks are less than a minute apart. */
function times(_plot, ticks) {
  const length = ticks.length > 1 && ticks[1] - ticks[0] < 60 ? 8 : 5;
  return ticks.map((t) => clock(t * 1000).slice(0, length));
}

function axis(more) {
  return {
    stroke: colour("--quiet"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    gap: 4,
    ...more,
  };
}

/** Later series are dashed as well, so that they differ by more than colour. */
function line({ label }, i, format) {
  return {
    label,
    stroke: colour(`--curve-${i % COLOURS}`),
    width: 1.5,
    dash: i < 4 ? undefined : [6, 2 + i - 4],
    points: { show: false },
    value: (plot, value, series, at) => format(at === null ? latest(plot.data[series]) : value),
  };
}

/** The last number of a series: the legend shows it while the pointer is elsewhere. */
const latest = (column) => column.findLast((value) => value !== null);

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
