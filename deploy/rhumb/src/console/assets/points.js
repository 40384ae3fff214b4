/**
 * The points of the curves: two runs of them, the last 15 minutes and the whole crawl.
 * In: the history and then one point after the other. Out: columns of numbers, one for the time and one a series.
 */
const RECENT_S = 15 * 60;
const MOST = 1500;

let runs = { recent: [], whole: [] };

/** Takes a new history in place of the old one. */
export function reset({ recent, whole }) {
  runs = { recent: [...recent], whole: [...whole] };
}

/** Appends one point. Old points leave the recent run, and a long whole run is thinned. */
export function append(point) {
  runs.recent = extend(runs.recent, point).filter((one) => one.t > point.t - RECENT_S);
  runs.whole = thin(extend(runs.whole, point));
}

/** A point that is no news, because the history had it already, is left out. */
const extend = (run, point) => (point.t > (run.at(-1)?.t ?? 0) ? [...run, point] : run);

/** A run that is too long keeps every second point, and its last one. */
const thin = (run) => (run.length > MOST ? run.filter((_, i) => i % 2 === 0 || i === run.length - 1) : run);

/** The columns of one run for some keys. A missing number is a gap. */
export function columns(run, keys) {
  const points = runs[run];
  return [points.map((one) => one.t), ...keys.map((key) => points.map((one) => one.v[key] ?? null))];
}
