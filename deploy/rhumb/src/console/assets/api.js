/**
 * The requests of this page.
 * In: paths, queries and bodies. Out: JSON, or a Refusal that carries the status and the words of the program.
 * Adds the token and the name of the crawl to every request.
 */
import * as place from "./place.js";

/** An answer other than 200. */
export class Refusal extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

const token = place.token();
let crawl = null;
let denied = () => {};

/** Chooses the crawl that all later requests name. */
export function choose(name) {
  crawl = name;
}

/** Sets who is told when the token is missing or wrong. */
export function onDenied(listener) {
  denied = listener;
}

/** Sends one request and gives the answer if it is a good one. */
export async function send(path, query = {}, options = {}) {
  const answer = await fetch(address(path, query), { cache: "no-store", ...options, headers: headers(options) });
  if (answer.ok) return answer;
  if (answer.status === 401 && path === "events") denied();
  throw new Refusal(answer.status, await wordsOf(answer));
}

/** Gets JSON. */
export const get = async (path, query, signal) => (await send(path, query, { signal })).json();

/** Posts an act. With ask it only tells what it would do. */
export async function act(name, body, ask) {
  const options = { method: "POST", body: JSON.stringify(body) };
  return (await send(`act/${name}`, ask ? { ask: 1 } : {}, options)).json();
}

function address(path, query) {
  const all = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...query, crawl })) {
    if (value !== null && value !== undefined && value !== "") all.set(key, value);
  }
  const text = all.toString();
  return text ? `${path}?${text}` : path;
}

function headers(options) {
  const all = {};
  if (token) all.authorization = `Bearer ${token}`;
  if (options.body) all["content-type"] = "application/json";
  return all;
}

async function wordsOf(answer) {
  try {
    return (await answer.json()).error ?? answer.statusText;
  } catch {
    return `the console answered ${answer.status}`;
  }
}
