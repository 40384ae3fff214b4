/**
 * One server in the panel: why it is not fetched now, its estimates, robots.txt, addresses and queue.
 * In: the name of a host. Out: the body of the panel, asked for again every few views.
 */
import { get } from "./api.js";
import { make } from "./dom.js";
import { count, many, millis, plain, plainNumber, span, textOf } from "./format.js";
import { facts, part, urlButton } from "./table.js";

export const EVERY = 3;

/** The title of the panel. */
export const title = (host) => `Host ${host}`;

/** The body of the panel. */
export async function draw(host, signal) {
  const answer = await get("server", { host }, signal);
  const servers = answer.servers.map(drawServer);
  return [
    ...(servers.length ? servers : [make("p", { class: "quiet" }, "The crawl does not know this host.")]),
    ...missing(answer),
  ];
}

/** Sentences about instances that gave no answer. */
export function missingWords({ silent, errors }) {
  const words = [];
  if (silent?.length) words.push(`No answer from: ${silent.join(", ")}.`);
  if (errors?.length) words.push(`Errors: ${errors.map(textOf).join("; ")}.`);
  return words.map(plain);
}

/** The same as paragraphs. */
export const missing = (answer) => missingWords(answer).map((words) => make("p", { class: "error" }, words));

/** The host name in the name of a server: without scheme and port. */
export const hostOf = (server) => /^[a-z]+:\/\/(\[[^\]]*\]|[^:/]+)/i.exec(server)?.[1] ?? server;

function drawServer(server) {
  return make("div", { "data-test": "server", "data-value": server.server },
    part(server.server, why(server), facts(overview(server))),
    part("Estimates", facts(estimates(server.estimates ?? {}))),
    part("robots.txt as understood", ...robots(server.robots ?? {})),
    part(`Queue: ${many(server.waiting, "URL")}`, queue(server.urls)));
}

const why = (server) => make("p", { class: "why", "data-test": "server-why" }, plain(server.why ?? "not known"));

function overview(server) {
  return [
    ["waiting", count(server.waiting), server.waiting],
    ["in flight", count(server.in_flight), server.in_flight],
    ["failures in a row", count(server.failures), server.failures],
    ["waits since", span(server.age_s), server.age_s],
    ["addresses", (server.addresses ?? []).join(", ") || "not known"],
    ["addresses hold for", span(server.addresses_for_s), server.addresses_for_s],
  ];
}

function estimates(all) {
  return [
    ["rank", plainNumber(all.rank), all.rank],
    ["connect", millis(all.connect_ms), all.connect_ms],
    ["response", millis(all.response_ms), all.response_ms],
    ["requests on a connection", plainNumber(all.requests), all.requests],
    ["overlap", plainNumber(all.overlap), all.overlap],
  ];
}

function robots(all) {
  const rules = all.rules ?? [];
  return [
    facts([
      ["is", all.is],
      ["holds for", span(all.for_s), all.for_s],
      ["crawl delay", span(all.crawl_delay_s), all.crawl_delay_s],
    ]),
    rules.length > 0 && make("ol", { class: "rules", tabindex: 0, "aria-label": "Rules" }, rules.map(rule)),
    all.more_rules > 0 && make("p", { class: "quiet" }, `and ${many(all.more_rules, "more rule")}`),
  ];
}

function rule(text) {
  const words = { "+": "allow", "-": "disallow" }[text[0]];
  return make("li", {}, words && make("b", {}, words), " ", make("code", {}, plain(words ? text.slice(1) : text)));
}

function queue(urls) {
  if (!urls?.length) return make("p", { class: "quiet" }, "Empty, or not told.");
  return make("ol", { class: "queue" }, urls.map((one) =>
    make("li", {}, urlButton(one.url), make("span", { class: "quiet" }, queueWords(one)))));
}

function queueWords({ in_s: soon, attempts, depth, quality, why }) {
  return [
    soon === null ? null : soon <= 0 ? "may go now" : `in ${span(soon)}`,
    `depth ${count(depth)}`,
    `quality ${plainNumber(quality)}`,
    attempts > 0 && many(attempts, "attempt"),
    why && plain(why),
  ].filter(Boolean).join(", ");
}
