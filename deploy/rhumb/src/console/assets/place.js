/**
 * The place: where on the page its reader is, kept in the hash of the address.
 * In: a hash such as "#token=abc&servers&server=a.test", and clicks on elements with data-open="kind:name".
 * Out: {tab, kind, name} for all who watch. A token leaves the address at once.
 */
const TABS = ["tap", "servers", "story", "hands"];
const KINDS = ["stage", "edge", "story", "server"];
const TOKEN = "token";

const watchers = [];
let place = read();

/** The place now. */
export const now = () => place;

/** Calls back now and whenever the place changes. */
export function watch(watcher) {
  watchers.push(watcher);
  watcher(place);
}

/** Goes elsewhere: what the change does not name stays. */
export function go(change) {
  const hash = format({ ...place, ...change });
  if (hash !== format(place)) history.pushState(null, "", location.pathname + location.search + hash);
  tell();
}

/** The token this page was opened with, or null. */
export function token() {
  for (const [key, value] of pairs()) if (key === TOKEN && value !== null) keep(value);
  return sessionStorage.getItem(TOKEN);
}

function keep(value) {
  sessionStorage.setItem(TOKEN, value);
  history.replaceState(null, "", location.pathname + location.search + format(place));
}

function pairs() {
  return location.hash.slice(1).split("&").map((part) => {
    const at = part.indexOf("=");
    return at < 0 ? [part, null] : [part.slice(0, at), decode(part.slice(at + 1))];
  });
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function read() {
  const found = { tab: null, kind: null, name: null };
  for (const [key, value] of pairs()) {
    if (value === null && TABS.includes(key)) found.tab = key;
    if (value !== null && KINDS.includes(key)) Object.assign(found, { kind: key, name: value });
  }
  return found;
}

function format({ tab, kind, name }) {
  const parts = [tab, kind && `${kind}=${encodeURIComponent(name)}`].filter(Boolean);
  return parts.length ? `#${parts.join("&")}` : "";
}

function tell() {
  place = read();
  for (const watcher of watchers) watcher(place);
}

function moved() {
  tell();
  if (pairs().some(([key]) => key === TOKEN)) {
    token();
    location.reload();
  }
}

function open(event) {
  const target = event.target.closest?.("[data-open]");
  if (!target) return;
  const [kind, ...name] = target.getAttribute("data-open").split(":");
  go({ kind, name: name.join(":") });
}

/** Begins to listen. */
export function start() {
  window.addEventListener("hashchange", moved);
  document.addEventListener("click", open);
}
