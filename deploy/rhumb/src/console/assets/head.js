/**
 * The head: name and state of the crawl, its key figures, its outcomes, and what it waits for.
 * In: views. Out: text at the top of the page.
 */
import { find, make, morph, offer, write } from "./dom.js";
import { count, figure, many, plain, short } from "./format.js";
import * as view from "./view.js";

/** Begins to watch the crawl. */
export function start() {
  view.watch(showState);
  view.watch((now) => update("tiles", tiles(now)));
  view.watch(({ summary }) => update("outcomes", Object.entries(summary.outcomes).map(outcome)));
  view.watch((now) => update("notes", notes(now)));
  view.watch(showShort);
  view.watch(offerNames);
}

function update(test, children) {
  const old = find(test);
  const fresh = old.cloneNode(false);
  fresh.append(...children);
  morph(old, fresh);
}

function showState({ crawl, state, words }) {
  write(find("crawl"), plain(crawl));
  write(find("state"), plain(words));
  find("state").setAttribute("data-value", state);
  write(document.querySelector("title"), `${plain(crawl)}: ${state} – rhumb console`);
}

function tiles({ summary, point, stages }) {
  return [
    tile("pages", "pages", summary.pages, figure),
    tile("pages-s", "pages a second", point?.v?.pages_s, short),
    tile("found", "URLs found", summary.urls_found, figure),
    tile("new", "new", summary.urls_new, figure),
    tile("waiting", "waiting", summary.waiting, figure),
    tile("in-flight", "in flight", summary.in_flight, figure),
    ...serverTiles(stages),
    tile("restarts", "restarts", summary.restarts, figure),
    ...(summary.dead > 0 ? [tile("dead", "⚠ dead letters", summary.dead, figure)] : []),
    ...(summary.lost > 0 ? [tile("lost", "⚠ lost", summary.lost, figure)] : []),
  ];
}

function tile(test, label, value, format) {
  return make("div", { class: `tile tile-${test}` },
    make("dt", {}, label),
    make("dd", { "data-test": test, "data-value": value ?? "" }, format(value)));
}

function serverTiles(stages) {
  return [["ready", "servers_ready"], ["connected", "connections_in_use"]]
    .map(([word, number]) => [word, sumOfNumbers(stages, number)])
    .filter(([, sum]) => sum !== null)
    .map(([word, sum]) => tile(`servers-${word}`, `servers ${word}`, sum, figure));
}

/** Adds up a number over all instances that have it. */
function sumOfNumbers(stages, number) {
  const found = stages.flatMap((stage) => stage.instances)
    .flatMap((instance) => Object.entries(instance.numbers ?? {}))
    .filter(([name]) => name === number)
    .map(([, value]) => value);
  return found.length ? found.reduce((sum, value) => sum + value, 0) : null;
}

function outcome([name, value]) {
  return make("div", {},
    make("dt", {}, plain(name)),
    make("dd", { "data-test": `outcome-${name}`, "data-value": value }, count(value)));
}

function notes({ summary, notes: orders }) {
  return [
    summary.waiting_over_budget > 0 && `${count(summary.waiting_over_budget)} wait over their budget`,
    summary.waiting_trapped > 0 && `${count(summary.waiting_trapped)} are kept back in traps`,
    summary.waiting_paused > 0 && `${count(summary.waiting_paused)} wait because they are paused`,
    summary.walls > 0 && `${many(summary.walls, "wall")} in the place of a page`,
    summary.refetched > 0 && `${many(summary.refetched, "page")} fetched again`,
    ...orders.map(plain),
  ].filter(Boolean).map((words) => make("li", {}, words));
}

function showShort({ short: lack }) {
  update("short", lack ? lackWords(lack) : ["No stage is short."]);
}

function lackWords({ stage, reason, remedy }) {
  return [
    make("button", { class: "link", "data-open": `stage:${stage}` }, stage),
    ` is what the crawl waits for: ${plain(reason)}.`,
    ...(remedy ? [" Remedy: ", make("code", {}, plain(remedy))] : []),
  ];
}

function offerNames({ summary }) {
  offer(document.getElementById("known-outcomes"), Object.keys(summary.outcomes));
  offer(document.getElementById("known-topics"), Object.keys(summary.topics ?? {}));
}
