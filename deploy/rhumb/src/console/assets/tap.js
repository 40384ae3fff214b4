/**
 * The tap: shows the messages that pass on one edge.
 * In: an edge and filters from the form, "Tap this edge" buttons, and the stream of the tap. Out: a list, newest
 * on top.
 * The tap opens only when asked to. Messages are shown in batches, so that many of them do not slow the page.
 */
import * as banner from "./banner.js";
import { find, offer, write } from "./dom.js";
import { count, plain } from "./format.js";
import { makeMessage } from "./message.js";
import * as place from "./place.js";
import { follow } from "./stream.js";
import * as view from "./view.js";

const MOST = 500;
const BATCH_MS = 200;
const LINK = "tap";

let close = null;
let batch = [];
let timer = null;

/** Begins to listen. */
export function start() {
  find("tap-form").addEventListener("submit", (event) => {
    event.preventDefault();
    open();
  });
  find("tap-form").addEventListener("change", () => close && open());
  find("tap-pause").addEventListener("click", () => pause("Paused. Start goes on."));
  find("tap-clear").addEventListener("click", clear);
  document.addEventListener("click", tapEdge);
  view.watch(({ edges }) => offer(find("tap-edge"), edges.map((edge) => edge.name)));
}

function tapEdge(event) {
  const name = event.target.closest?.("[data-tap]")?.getAttribute("data-tap");
  if (!name) return;
  find("tap-edge").value = name;
  place.go({ tab: "tap", kind: null, name: null });
  find("look").scrollIntoView();
  find("tap-start").focus();
  open();
}

function open() {
  close?.();
  write(find("tap-error"), "");
  banner.clear(LINK);
  setOpen(true, `Tapping ${find("tap-edge").value}.`);
  close = follow("tap", query(), { event: take, lost, refused });
}

function query() {
  const { expression, ...rest } = Object.fromEntries(new FormData(find("tap-form")));
  return { ...rest, matches: expression };
}

function pause(words) {
  close?.();
  close = null;
  banner.clear(LINK);
  setOpen(false, words);
}

function setOpen(isOpen, words) {
  write(find("tap-start"), isOpen ? "Start again" : "Start");
  find("tap-pause").disabled = !isOpen;
  write(find("tap-rate"), words);
}

function clear() {
  batch = [];
  find("tap-messages").replaceChildren();
}

function take(name, data) {
  banner.clear(LINK);
  if (name === "message") add(data);
  if (name === "rate") showRate(data);
  if (name === "error") refused(data.error);
}

function lost(words) {
  banner.say(LINK, `No link to the tap: ${words}. Trying again every second.`);
}

function refused(words) {
  pause("The tap is closed.");
  write(find("tap-error"), plain(words));
}

function showRate({ seen, shown, every }) {
  const part = every > 1 ? `, one in ${count(every)}` : "";
  const words = `showing ${count(shown)} of ${count(seen)} messages${part}`;
  write(find("tap-rate"), `Tapping ${find("tap-edge").value}: ${words}.`);
}

function add(message) {
  batch.push(message);
  if (batch.length > MOST) batch.shift();
  timer ??= setTimeout(showBatch, BATCH_MS);
}

function showBatch() {
  const list = find("tap-messages");
  timer = null;
  list.prepend(...batch.reverse().map(makeMessage));
  batch = [];
  while (list.children.length > MOST) list.lastChild.remove();
}
