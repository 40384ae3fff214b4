/**
 * The view: the latest state of the crawl.
 * In: the `view` events. Out: each of them to all who watch.
 */
const watchers = [];
let latest = null;

/** The latest view, or null before the first. */
export const now = () => latest;

/** Calls back for each view, and at once if there is one. */
export function watch(watcher) {
  watchers.push(watcher);
  if (latest) watcher(latest);
}

/** Takes a new view. */
export function take(view) {
  latest = view;
  for (const watcher of watchers) watcher(view);
}

/** Finds a stage by its name. */
export const stage = (name) => latest?.stages.find((one) => one.name === name);

/** Finds an edge by its name. */
export const edge = (name) => latest?.edges.find((one) => one.name === name);
