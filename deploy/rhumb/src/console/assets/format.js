/**
 * Words for numbers and for hostile text.
 * In: raw numbers and strings of the crawl. Out: short strings to show.
 */
const NONE = "–";
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const DECIMAL = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const known = (n) => typeof n === "number" && Number.isFinite(n);

/** A whole number with separators: 1,234,567. */
export const count = (n) => (known(n) ? WHOLE.format(n) : NONE);

/** A key figure: whole as long as it has room. */
export const figure = (n) => (known(n) && n >= 1e7 ? `${DECIMAL.format(n / 1e6)} M` : count(n));

/** A number of three digits and a suffix: 1.2 k, 34 M. */
export const short = (n) => (known(n) ? scaled(n, ["", " k", " M", " G", " T"]) : NONE);

/** The same without a space, for places where room is scarce: 1.2k. */
export const tight = (text) => text.replace(" ", "");

/** A number of bytes: 38 MB. */
export const bytes = (n) => (known(n) ? scaled(n, [" B", " KB", " MB", " GB", " TB"]) : NONE);

function scaled(n, suffixes) {
  let i = 0;
  while (Math.abs(n) >= 999.5 && i < suffixes.length - 1) {
    n /= 1000;
    i++;
  }
  return digits(n) + suffixes[i];
}

function digits(n) {
  const size = Math.abs(n);
  if (size >= 99.5 || Number.isInteger(n)) return n.toFixed(0);
  return n.toFixed(size >= 9.95 ? 1 : size >= 0.995 ? 1 : 2);
}

/** How many of something happen in a second: 97/s. */
export const rate = (n) => (known(n) ? `${short(n)}/s` : NONE);

/** A part of one in percent. Of a CPU it may be more than a hundred. */
export const percent = (part) => (known(part) ? `${Math.round(part * 100)} %` : NONE);

/** A number with at most two decimals. */
export const plainNumber = (n) => (known(n) ? DECIMAL.format(n) : NONE);

/** A time span: 40 ms, 4.2 s, 3 min, 2 h, 5 d. */
export function span(s) {
  if (!known(s)) return NONE;
  if (s > 0 && s < 0.095) return `${digits(s * 1000)} ms`;
  if (s < 120) return `${digits(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
}

/** Milliseconds as a time span. */
export const millis = (ms) => (known(ms) ? span(ms / 1000) : NONE);

/** The time of day of an instant in milliseconds. */
export function clock(ms) {
  if (!known(ms)) return NONE;
  const time = new Date(ms);
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}

/** A number and its noun: 1 instance, 2 instances. */
export const many = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

/** Text stays as it is, anything else becomes JSON. */
export const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value));

// Controls, and marks that turn the direction of text or have no width.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Hostile text made harmless to the eye: signs that are not seen or that turn the text become escapes. */
export function plain(text) {
  return String(text).replace(UNSEEN, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
