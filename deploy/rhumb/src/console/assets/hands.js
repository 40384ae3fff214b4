/**
 * The hands: acts on the crawl.
 * In: forms. Out: a question to the program of what would happen, a dialog, and then the act itself.
 */
import { act } from "./api.js";
import { confirm, showCommand, start as startDialogs } from "./confirm.js";
import { find, offer, write } from "./dom.js";
import { plain } from "./format.js";
import * as view from "./view.js";

/** The body of each act, made from its form. */
const bodies = {
  scale: (form) => ({ stage: form.get("stage"), instances: Number(form.get("instances")) }),
  pause: whatOf,
  unpause: whatOf,
  drop: (form) => ({ ...whatOf(form), ...(form.has("later") ? { later: true } : {}) }),
  inject: (form) => ({ urls: linesOf(form.get("urls")), topic: form.get("topic"), again: form.has("again") }),
};

function whatOf(form) {
  const what = form.get("what");
  return what === "all" ? { all: true } : { [what]: form.get("value").trim() };
}

const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

/** Begins to listen. */
export function start() {
  startDialogs();
  for (const form of find("hands").querySelectorAll("form")) form.addEventListener("submit", submit);
  find("hands-pause").elements.what.addEventListener("change", nameNeeded);
  view.watch(showHands);
}

function showHands({ allow_actions: allowed, stages }) {
  find("hands").hidden = !allowed;
  find("no-hands").hidden = allowed;
  offer(find("scale-stage"), stages.map((stage) => stage.name));
}

/** The whole crawl has no name to give. */
function nameNeeded(event) {
  find("hands-pause").elements.value.disabled = event.target.value === "all";
}

async function submit(event) {
  event.preventDefault();
  const form = event.target;
  const name = event.submitter?.value || form.getAttribute("data-act");
  tell("", "");
  try {
    await ask(name, bodies[name](new FormData(form)));
  } catch (error) {
    tell("", error.message);
  }
}

async function ask(name, body) {
  const { will, command } = await act(name, body, true);
  if (command) return showCommand(command);
  if (!(await confirm(plain(will)))) return tell("Left as it was.", "");
  const { done } = await act(name, body, false);
  tell(done, "");
}

function tell(done, error) {
  write(find("hands-done"), plain(done));
  write(find("hands-error"), plain(error));
}
