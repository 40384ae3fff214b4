/**
 * One message of the tap.
 * In: a `message` event. Out: a list item with one line in short, its URLs, and all of it as JSON when it is opened.
 */
import { make } from "./dom.js";
import { clock, many, plain } from "./format.js";
import { urlButton } from "./table.js";

const MOST_URLS = 5;

/** Makes the item. */
export function makeMessage(message) {
  const opener = make("button", { class: "opener", "aria-expanded": "false", "data-test": "tap-open" },
    make("time", {}, clock(message.at_ms)),
    make("span", { class: "subject" }, plain(message.subject)),
    make("span", { class: "in-short" }, plain(message.short)));
  const item = make("li", { "data-test": "tap-message" }, opener, urls(message.urls ?? []));
  opener.addEventListener("click", () => toggle(item, opener, message));
  return item;
}

function urls(all) {
  if (!all.length) return null;
  const more = all.length - MOST_URLS;
  return make("div", { class: "urls" }, all.slice(0, MOST_URLS).map(urlButton),
    more > 0 && make("span", { class: "quiet" }, `and ${many(more, "more URL")} in the message`));
}

function toggle(item, opener, message) {
  const open = item.querySelector("pre");
  opener.setAttribute("aria-expanded", String(!open));
  if (open) open.remove();
  else item.append(make("pre", { tabindex: 0, "data-test": "tap-json" }, pretty(message.message)));
}

/** JSON on many lines, without signs that are not seen. Its own line ends stay. */
const pretty = (value) => JSON.stringify(value, null, 2).split("\n").map(plain).join("\n");
