/**
 * The panel at the side: shows one thing in full.
 * In: the place, whose kind and name say what to show. Out: the drawing of that kind, which is kept up to date.
 *
 * Each kind is a module with title(name); with draw(name, signal), which gives the children of the body; and with
 * EVERY, the number of views after which it is drawn again, or 0 for never.
 */
import { find, make, morph, write } from "./dom.js";
import * as edge from "./edge.js";
import { plain } from "./format.js";
import * as place from "./place.js";
import * as server from "./server.js";
import * as stage from "./stage.js";
import * as story from "./story.js";
import * as view from "./view.js";

const kinds = { stage, edge, story, server };
let shown = { kind: null, name: null };
let opener = null;
let asked = new AbortController();
let isAsking = false;
let views = 0;

/** Begins to watch the place and the crawl. */
export function start() {
  find("panel-close").addEventListener("click", close);
  document.addEventListener("keydown", escape);
  place.watch(show);
  view.watch(tick);
}

/** Escape closes the panel, unless a dialog is in front of it. */
function escape(event) {
  if (event.key === "Escape" && shown.kind && !document.querySelector("dialog[open]")) close();
}

function close() {
  place.go({ kind: null, name: null });
  opener?.focus();
  opener = null;
}

function show({ kind, name }) {
  if (kind === shown.kind && name === shown.name) return;
  if (kind && !shown.kind) opener = document.activeElement;
  shown = { kind, name };
  find("panel").hidden = !kind;
  if (kind) open();
}

function open() {
  const title = find("panel").querySelector("h2");
  write(title, kinds[shown.kind].title(plain(shown.name)));
  find("panel-body").replaceChildren(make("p", { class: "quiet" }, "Asking…"));
  find("panel").scrollTop = 0;
  title.focus({ preventScroll: true });
  if (view.now()) refresh();
}

function tick() {
  const every = shown.kind && kinds[shown.kind].EVERY;
  const first = views++ === 0;
  if (shown.kind && !isAsking && (first || (every && views % every === 0))) refresh();
}

async function refresh() {
  asked.abort();
  asked = new AbortController();
  const { signal } = asked;
  isAsking = true;
  try {
    const children = await kinds[shown.kind].draw(shown.name, signal);
    if (!signal.aborted) fill(children);
  } catch (error) {
    if (!signal.aborted) fill([make("p", { class: "error", role: "alert" }, plain(error.message))]);
  }
  if (!signal.aborted) isAsking = false;
}

function fill(children) {
  const body = find("panel-body");
  const fresh = body.cloneNode(false);
  fresh.append(...children.filter(Boolean));
  morph(body, fresh);
}
