/**
 * The tabs below the curves: tap, servers, story, hands.
 * In: the place, presses and arrow keys. Out: one pane that is shown.
 */
import { find } from "./dom.js";
import * as place from "./place.js";
import * as view from "./view.js";

const FIRST = "tap";
const STEPS = { ArrowRight: 1, ArrowLeft: -1 };
const tabs = [...document.querySelectorAll("[role=tab]")];
const nameOf = (tab) => tab.id.replace("tab-", "");

/** Begins to listen. */
export function start() {
  for (const tab of tabs) tab.addEventListener("click", () => place.go({ tab: nameOf(tab) }));
  document.querySelector("[role=tablist]").addEventListener("keydown", step);
  place.watch(({ tab }) => show(tab ?? FIRST));
  if (place.now().tab) scrollOnce();
}

function show(name) {
  for (const tab of tabs) {
    const on = nameOf(tab) === name;
    tab.setAttribute("aria-selected", on);
    tab.tabIndex = on ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !on;
  }
}

function step(event) {
  const way = STEPS[event.key];
  if (!way) return;
  const at = tabs.indexOf(document.activeElement);
  const next = tabs[(at + way + tabs.length) % tabs.length];
  place.go({ tab: nameOf(next) });
  next.focus();
}

/** A page that is opened at a tab shows that tab, as soon as there is something above it. */
function scrollOnce() {
  let done = false;
  view.watch(() => {
    if (!done) requestAnimationFrame(() => find("look").scrollIntoView());
    done = true;
  });
}
