/**
 * The start of the page: opens the stream of events and hands it to the parts.
 * In: `view`, `history`, `gone` and `choose` events. Out: calls to the parts of the page.
 * The request goes out first. Its first answer needs head and picture alone; the other parts are loaded after it.
 */
import * as api from "./api.js";
import * as banner from "./banner.js";
import { find, make } from "./dom.js";
import { plain } from "./format.js";
import * as head from "./head.js";
import * as picture from "./picture.js";
import * as place from "./place.js";
import { follow } from "./stream.js";
import * as view from "./view.js";

const LINK = "events";
const LATER = ["./tabs.js", "./curves.js", "./panel.js", "./tap.js", "./servers.js", "./story.js", "./hands.js"];
/** The browser draws the first answer in this time. */
const DRAWN_MS = 50;
const takers = { history: takeHistory, view: takeView, gone: takeGone, choose: takeChoose };
let answer;
const later = new Promise((done) => (answer = done)).then(loadLater);
let close = open();
head.start();
picture.start();
place.start();
api.onDenied(() => showOnly("denied"));

/** Loads the other parts of the page and starts them. */
async function loadLater() {
  await new Promise((done) => setTimeout(done, DRAWN_MS));
  const parts = await Promise.all(LATER.map((path) => import(path)));
  for (const part of parts) part.start();
  return parts;
}

function open() {
  return follow("events", {}, {
    event: (name, data) => takers[name]?.(data),
    lost: (words) => say(`No link to the console: ${words}. Trying again every second.`),
    refused: (words) => say(`The console refuses: ${words}.`),
  });
}

async function takeHistory(data) {
  for (const part of await later) part.takeHistory?.(data);
}

function takeView(data) {
  banner.clear(LINK);
  find("ended").hidden = true;
  showOnly("page");
  view.take(data);
  answer();
}

function takeGone({ reason, ended }) {
  say(`No news from the crawl: ${reason}`);
  find("ended").hidden = !ended;
}

function takeChoose({ crawls }) {
  close();
  banner.clear(LINK);
  find("crawls").replaceChildren(...crawls.map(choice));
  showOnly("choose");
  answer();
}

function say(words) {
  banner.say(LINK, words);
  answer();
}

const choice = (name) => make("li", {}, make("button", { "data-value": name, click: () => choose(name) }, plain(name)));

function choose(name) {
  api.choose(name);
  close = open();
}

function showOnly(name) {
  for (const main of document.querySelectorAll("main")) main.hidden = main.getAttribute("data-test") !== name;
}
