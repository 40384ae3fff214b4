/**
 * The dialogs before an act.
 * In: the words of what will happen, or a command. Out: whether to do it.
 */
import { find, write } from "./dom.js";

/** Asks whether to do what the words say. */
export function confirm(will) {
  const dialog = find("confirm");
  write(find("will"), will);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((answer) => {
    dialog.addEventListener("close", () => answer(dialog.returnValue === "do it"), { once: true });
  });
}

/** Shows a command to copy. */
export function showCommand(command) {
  find("command-text").value = command;
  find("command").showModal();
  find("command-text").select();
}

async function copy() {
  const text = find("command-text");
  text.select();
  await navigator.clipboard?.writeText(text.value);
  write(find("command-copy"), "Copied");
}

/** Begins to listen to the buttons. */
export function start() {
  find("do-it").addEventListener("click", () => find("confirm").close("do it"));
  find("leave-it").addEventListener("click", () => find("confirm").close());
  find("command-copy").addEventListener("click", copy);
  find("command-close").addEventListener("click", () => find("command").close());
  find("command").addEventListener("close", () => write(find("command-copy"), "Copy"));
}
