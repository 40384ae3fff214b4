/**
 * The start of the page: opens the stream of events and hands it to the parts.
 * In: `history`, `view`, `gone` and `choose` events. Out: calls to the parts of the page.
 * The request goes out first. Head and picture are loaded while it is on its way, the other parts after them.
 */
import * as api from "./api.js";
import * as banner from "./banner.js";
import { find, make } from "./dom.js";
import { plain } from "./format.js";
import * as place from "./place.js";
import { follow } from "./stream.js";
import * as view from "./view.js";

const LINK = "events";
const FIRST = ["./head.js", "./picture.js"];
const LATER = ["./tabs.js", "./curves.js", "./panel.js", "./tap.js", "./servers.js", "./story.js", "./hands.js"];
const takers = { history: takeHistory, view: takeView, gone: takeGone, choose: takeChoose };
let close = open();
const first = load(FIRST);
const later = first.then(() => load(LATER));
place.start();
api.onDenied(() => showOnly("denied"));

/** Loads parts of the page and starts them. */
async function load(paths) {
  const parts = await Promise.all(paths.map((path) => import(path)));
  for (const part of parts) part.start();
  return parts;
}

function open() {
  return follow("events", {}, {
    event: (name, data) => takers[name]?.(data),
    lost: (words) => banner.say(LINK, `No link to the console: ${words}. Trying again every second.`),
    refused: (words) => banner.say(LINK, `The console refuses: ${words}.`),
  });
}

async function takeHistory(data) {
  for (const part of await later) part.takeHistory?.(data);
}

async function takeView(data) {
  await first;
  banner.clear(LINK);
  find("ended").hidden = true;
  showOnly("page");
  view.take(data);
}

function takeGone({ reason, ended }) {
  banner.say(LINK, `No news from the crawl: ${reason}`);
  find("ended").hidden = !ended;
}

function takeChoose({ crawls }) {
  close();
  banner.clear(LINK);
  find("crawls").replaceChildren(...crawls.map(choice));
  showOnly("choose");
}

const choice = (name) => make("li", {}, make("button", { "data-value": name, click: () => choose(name) }, plain(name)));

function choose(name) {
  api.choose(name);
  close = open();
}

function showOnly(name) {
  for (const main of document.querySelectorAll("main")) main.hidden = main.getAttribute("data-test") !== name;
}
