/**
 * An event stream, read with fetch, because only fetch can send the token.
 * In: a path, a query and listeners. Out: calls of on.event(name, data); on.lost(words) when the stream ends or fails,
 * after which it is tried again every second; on.refused(words) when trying again is no use.
 */
import { Refusal, send } from "./api.js";

const PAUSE_MS = 1000;
const NO_USE = [400, 401, 403];

/** Follows a stream until the function it returns is called. */
export function follow(path, query, on) {
  const stop = new AbortController();
  keepOn(path, query, on, stop.signal);
  return () => stop.abort();
}

async function keepOn(path, query, on, signal) {
  while (!signal.aborted) {
    try {
      await readAll(path, query, on, signal);
      if (!signal.aborted) on.lost("the stream ended");
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal && NO_USE.includes(error.status)) return on.refused(error.message);
      on.lost(error instanceof Refusal ? error.message : "the console does not answer");
    }
    await new Promise((done) => setTimeout(done, PAUSE_MS));
  }
}

async function readAll(path, query, on, signal) {
  const answer = await send(path, query, { signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const blocks = (rest + part.value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) if (!signal.aborted) deliver(block, on);
  }
}

function deliver(block, on) {
  let name = "message";
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    if (line.startsWith("data:")) data.push(line.slice(5));
  }
  if (data.length) on.event(name, JSON.parse(data.join("\n")));
}
