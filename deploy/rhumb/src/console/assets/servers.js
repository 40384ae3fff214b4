/**
 * The list of servers.
 * In: an order and a part of a name from the form, and the answer to `servers`. Out: a table that scrolls; a row opens
 * one server in the panel.
 */
import { get } from "./api.js";
import { find, make, set, write } from "./dom.js";
import { clock, count, millis, plain, span } from "./format.js";
import * as place from "./place.js";
import { hostOf, missingWords } from "./server.js";
import * as view from "./view.js";
import { makeWindow } from "./window.js";

const MOST = 2000;
const ROW = 30;
const LONGEST = 160;
const STEPS = { ArrowDown: 1, ArrowUp: -1 };
const COLUMNS = [
  { title: "server", of: (one) => one.server },
  { title: "waiting", number: true, of: (one) => count(one.waiting) },
  { title: "in flight", number: true, of: (one) => count(one.in_flight) },
  { title: "failures", number: true, of: (one) => count(one.failures) },
  { title: "waits since", number: true, of: (one) => span(one.age_s) },
  { title: "response", number: true, of: (one) => millis(one.estimates?.response_ms) },
  { title: "why it is not fetched now", of: (one) => one.why ?? "" },
];

let servers = [];
let askedAt = 0;
let loaded = false;
let showRows = null;

/** Begins to listen. The list is asked for when its tab is first shown. */
export function start() {
  const form = find("servers-form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    load();
  });
  form.addEventListener("change", (event) => event.target.name === "by" && load());
  find("servers-part").addEventListener("input", show);
  makeTable(find("servers-table"));
  place.watch(loadOnce);
  view.watch(loadOnce);
}

function makeTable(table) {
  const names = COLUMNS.map(({ title, number }) =>
    make("span", { role: "columnheader", class: number && "number" }, title));
  const titles = make("div", { role: "row", class: "row", "aria-rowindex": 1 }, names);
  table.append(make("div", { role: "rowgroup", class: "titles" }, titles));
  showRows = makeWindow(table, ROW, makeRow, fillRow);
  table.addEventListener("keydown", step);
}

function loadOnce() {
  if (loaded || place.now().tab !== "servers" || !view.now()) return;
  loaded = true;
  load();
}

async function load() {
  const by = find("servers-form").elements.by.value;
  write(find("servers-words"), "Asking…");
  write(find("servers-error"), "");
  try {
    const answer = await get("servers", { by, n: MOST });
    servers = answer.servers;
    askedAt = Date.now();
    show();
    write(find("servers-error"), missingWords(answer).join(" "));
  } catch (error) {
    write(find("servers-words"), "");
    write(find("servers-error"), plain(error.message));
  }
}

function show() {
  const letters = find("servers-part").value.toLowerCase();
  const chosen = servers.filter((one) => one.server.toLowerCase().includes(letters));
  set(find("servers-table"), "aria-rowcount", chosen.length + 1);
  showRows(chosen);
  const part = `${count(chosen.length)} of ${count(servers.length)} servers`;
  write(find("servers-words"), `${part}${known()}, asked at ${clock(askedAt)}.`);
}

/** How many servers there are, where the list does not have all. */
function known() {
  const stages = view.now()?.stages ?? [];
  const all = stages.flatMap(({ instances }) => instances).reduce((sum, { numbers }) => sum + (numbers?.servers ?? 0), 0);
  return all > servers.length ? `; ${count(all)} are known` : "";
}

function makeRow() {
  const cells = COLUMNS.map(({ number }, i) =>
    make("span", { role: "cell", class: number && "number" }, i ? null : make("button", { class: "link" })));
  return make("div", { role: "row", class: "row", "data-test": "servers-row" }, cells);
}

function fillRow(row, server) {
  const open = `server:${hostOf(server.server)}`;
  set(row, "data-open", open);
  set(row, "data-value", server.server);
  COLUMNS.forEach(({ of, number }, i) => {
    const cell = i ? row.children[i] : row.children[i].firstChild;
    const text = number ? of(server) : plain(of(server).slice(0, LONGEST));
    write(cell, text);
    if (!number) set(cell, "title", text);
  });
}

/** The arrow keys walk from row to row. */
function step(event) {
  const row = event.target.closest("[role=row]");
  const way = STEPS[event.key];
  if (!row || !way) return;
  event.preventDefault();
  const wanted = Number(row.getAttribute("aria-rowindex")) + way;
  const next = row.parentNode.querySelector(`[aria-rowindex="${wanted}"]`);
  next?.querySelector("button").focus();
}
