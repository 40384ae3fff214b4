/**
 * The banner: says what is wrong with the link between this page and the crawl.
 * In: troubles, each under the name of the one who has it. Out: one line of text, none when all is well.
 */
import { find, write } from "./dom.js";
import { plain } from "./format.js";

const troubles = new Map();

/** Says a trouble. */
export function say(who, words) {
  troubles.set(who, plain(words));
  show();
}

/** Takes a trouble back. */
export function clear(who) {
  if (troubles.delete(who)) show();
}

function show() {
  write(find("banner"), [...troubles.values()].join(" "));
}
