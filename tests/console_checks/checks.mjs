// What must hold of the console, in the order in which a crawl goes by.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { firstViews } from "./first_view.mjs";
import { MARKUP } from "./hostile.mjs";
import { Page, named } from "./page.mjs";
import { begin, end, peakBytes, rest, rhumb, status, until } from "./processes.mjs";

/** Bytes that a console may need. */
const CONSOLE_BYTES_MAX = 60e6;
/** Milliseconds within which the first view comes, on a machine that has other work, too. */
const FIRST_VIEW_MS_MAX = 600;
/** Rows of the longest list of servers. */
const ROWS = 2000;

const log = (world, name) => path.join(world.dir, `${name}.log`);

function beginRhumb(world, name, ...args) {
  return begin(path.join(world.programs, "rhumb"), args, log(world, name));
}

/** The address that a console prints. */
function addressOf(console) {
  return until("a console prints its address", () => console.text.match(/console\s+(http\S+)/)?.[1]);
}

async function a_page_waits_for_a_crawl_that_has_not_begun(world) {
  world.data = path.join(world.dir, "crawl");
  world.console = beginRhumb(world, "console", "console", "--listen", "127.0.0.1:0", "--allow-actions", "--data", world.data);
  world.address = await addressOf(world.console);
  assert.match(world.address, /#token=[0-9a-f]{32}$/);
  world.page = await Page.open(world, world.address);
  await world.page.shows("banner", "no crawl runs in");
  assert.ok(!world.page.tab.url().includes("token"), "the token stays in the address bar");
}

async function a_crawl_appears_by_itself_when_it_begins(world) {
  const [web, dns] = [18_000, 18_053].map((port) => port + (process.pid % 1000));
  begin(path.join(world.programs, "synthetic-web"),
    ["--port", web, "--dns-port", dns, "--for", 400, "--hosts", 40, "--pages", 400, "--latency", 20].map(String), log(world, "web"));
  await rest(1000);
  world.summary = path.join(world.dir, "summary.json");
  world.crawl = beginRhumb(world, "crawl", "crawl", `http://h0000.web.test:${web}/`, world.hostile, "--scope", "any",
    "--data", world.data, "--summary", world.summary, "--set", "politeness.delay=100ms",
    "--set", "network.allow_private_addresses=true", "--set", `network.nameservers=["127.0.0.1:${dns}"]`);
  await until("pages are shown", async () => (await world.page.figure("pages")) > 50);
  await until("the banner goes", async () => !(await world.page.tab.isVisible(named("banner"))));
  for (const stage of ["host-splitter", "dedup", "resolver", "scheduler", "fetcher", "parser"]) {
    assert.ok(await world.page.tab.isVisible(named(`stage-${stage}`)), `${stage} is in the picture`);
  }
  await rest(8000);
  await world.page.picture("dataflow");
}

async function the_figures_are_those_of_rhumb_status(world) {
  await rhumb(world, "pause");
  const still = await until("nothing moves", async () => {
    const before = await status(world);
    await rest(300);
    const after = await status(world);
    const is = ({ urls_found, waiting, in_flight }) => JSON.stringify([urls_found, waiting, in_flight]);
    return before.in_flight === 0 && is(before) === is(after) && after;
  });
  const figures = { pages: still.pages, found: still.urls_found, new: still.urls_new, waiting: still.waiting, "in-flight": 0 };
  for (const [outcome, urls] of Object.entries(still.outcomes)) if (urls > 0) figures[`outcome-${outcome}`] = urls;
  await until("the page has the same figures", async () => {
    for (const [name, value] of Object.entries(figures)) assert.equal(await world.page.figure(name), value, name);
    return true;
  }, 4000);
  assert.equal(await world.page.text("state"), "paused by an operator");
  const watch = beginRhumb(world, "watch", "status", "--watch", "--data", world.data);
  await until("a terminal shows the dataflow", () => /urls\.found ->.*host-splitter x1[^]*fetcher x1/.test(watch.text));
  await end(watch);
  assert.ok(watch.text.includes(`${still.pages} pages, 0.0 a second`), watch.text);
  await rhumb(world, "unpause");
  const began = Date.now();
  await world.page.shows("state", "running", 4000);
  console.log(`    a change is on the page ${Date.now() - began} ms after the command has ended`);
}

async function a_tap_shows_a_url_and_the_url_its_story(world) {
  const { page } = world;
  await page.tab.focus(named("edge-urls.found"));
  await page.tab.keyboard.press("Enter");
  await page.click("tap-this");
  await until("messages pass", async () => (await page.tab.locator(named("tap-message")).count()) > 5);
  await page.click("tap-pause");
  await page.tab.locator(named("tap-open")).first().click();
  await until("a message opens in full", () => page.tab.isVisible(named("tap-json")));
  await page.tab.locator(named("look")).scrollIntoViewIfNeeded();
  await page.picture("tap");
  const url = page.tab.locator(`${named("tap-messages")} ${named("url")}`).first();
  const text = await url.textContent();
  await url.click();
  await page.shows("story-url", text.slice(0, 30));
  await until("dedup has seen it", async () => /dedup 0.*seen/s.test(await page.text("story")));
  await page.click("panel-close");
  // Filters: by host alone, and an expression that is none.
  await page.tab.fill(`${named("tap-form")} [name=host]`, "127.0.0.1");
  await page.click("tap-clear");
  await page.click("tap-start");
  await until("messages of that host pass", async () => (await page.tab.locator(named("tap-message")).count()) > 2);
  const shown = await page.tab.locator(`${named("tap-messages")} ${named("url")}`).allTextContents();
  assert.ok(shown.some((url) => url.startsWith("http://127.0.0.1")), `URLs of the host: ${shown}`);
  await page.tab.fill(`${named("tap-form")} [name=expression]`, "(");
  await page.click("tap-start");
  await page.shows("tap-error", "no regular expression");
  await page.tab.fill(`${named("tap-form")} [name=expression]`, "");
}

async function markup_of_a_hostile_web_stays_text(world) {
  const { page } = world;
  await page.click("tab-servers");
  await page.tab.fill(named("servers-part"), "127.0.0.1");
  await until("the hostile server is listed", async () => {
    await page.click("servers-refresh");
    return (await page.tab.locator(named("servers-row")).count()) > 0;
  });
  await page.tab.locator(`${named("servers-row")} button`).first().click();
  // Rules and URLs are escaped where they come in.
  await page.shows("server", "/%3Cb%3Eno%3C/b%3E");
  assert.ok((await page.text("server")).includes("window.pwned"), "its URLs are shown");
  await page.tab.locator(`${named("server")} ${named("url")}`).first().click();
  await page.shows("story-url", "script");
  await page.picture("server");
  await page.click("panel-close");
  // A page of it, with its headers and its title, in a tap.
  await page.click("tab-tap");
  await page.tab.selectOption(named("tap-edge"), "pages");
  await page.click("tap-clear");
  await page.click("tap-start");
  await until("one of its pages passes", async () => {
    await page.tab.locator(named("tap-open")).first().click({ timeout: 1000 });
    return (await page.text("tap-messages")).includes("x-markup");
  });
  await page.isClean(/status of 400/);
  await markup_in_every_answer_stays_text(world);
}

/** What the program would not let through is put into its answers on their way to the page. */
async function markup_in_every_answer_stays_text(world) {
  const page = await Page.open(world, world.address);
  await page.tab.route(/\/(server|servers|story)\?/, async (route) => {
    const text = await (await route.fetch()).text();
    const fill = (value) => {
      if (typeof value === "string") return `${value}${MARKUP}`;
      if (Array.isArray(value)) return value.map(fill);
      return value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, fill(v)])) : value;
    };
    await route.fulfill({ json: fill(JSON.parse(text)) });
  });
  await page.hears();
  await page.click("tab-servers");
  await until("servers are listed", async () => (await page.tab.locator(named("servers-row")).count()) > 5);
  assert.ok((await page.text("servers-table")).includes("<script>"));
  await page.tab.locator(`${named("servers-row")} button`).first().click();
  await page.shows("server", "<script>");
  await page.tab.locator(`${named("server")} ${named("url")}`).first().click();
  await page.shows("story", "<script>");
  await page.isClean(/status of 400/);
  await page.close();
}

async function a_stage_is_scaled_by_a_button(world) {
  const { page } = world;
  await page.click("tab-hands");
  await page.tab.selectOption(named("scale-stage"), "fetcher");
  await page.tab.fill(`${named("hands-scale")} [name=instances]`, "2");
  await page.tab.click(`${named("hands-scale")} button`);
  await page.shows("will", "fetcher gets 2 instances (rhumb scale fetcher=2)");
  await page.picture("confirm");
  await page.click("leave-it");
  const fetchers = async () => (await status(world)).processes.filter(({ stage }) => stage === "fetcher").length;
  assert.equal(await fetchers(), 1, "nothing is done before it is confirmed");
  await page.tab.click(`${named("hands-scale")} button`);
  await page.click("do-it");
  await until("there are two fetchers", async () => (await fetchers()) === 2);
  await page.tab.fill(`${named("hands-pause")} [name=value]`, "http://no host/");
  await page.tab.click(`${named("hands-pause")} button >> nth=0`);
  await page.click("do-it");
  await page.shows("hands-error", "this is no name or address of a host");
}

async function nothing_is_done_without_the_token_or_from_another_site(world) {
  const [address, token] = world.address.split("#token=");
  const act = (headers, to = address) => fetch(`${to}act/pause`, {
    method: "POST", body: '{"all":true}', headers: { "content-type": "application/json", ...headers },
  });
  const bearer = { authorization: `Bearer ${token}` };
  assert.equal((await act({})).status, 401);
  assert.equal((await act({ authorization: "Bearer wrong" })).status, 401);
  assert.equal((await act({ ...bearer, origin: "http://evil.example" })).status, 403);
  assert.equal((await act({ ...bearer, "sec-fetch-site": "cross-site" })).status, 403);
  const simple = await fetch(`${address}act/pause`, { method: "POST", body: '{"all":true}', headers: bearer });
  assert.equal(simple.status, 400, "what a form could send is no act");
  const looks = beginRhumb(world, "looks", "console", "--listen", "127.0.0.1:0", "--data", world.data);
  const where = await addressOf(looks);
  assert.ok(!where.includes("token"));
  assert.equal((await act(bearer, where)).status, 403, "a console that only looks");
  const { headers } = await fetch(where);
  assert.match(headers.get("content-security-policy"), /default-src 'none'; script-src 'self'/);
  await end(looks);
  assert.deepEqual((await status(world)).paused, [], "nothing was paused");
}

/** The figure that is promised is 300 ms, on a machine at rest. Other work only adds to it, so the fastest counts. */
async function the_first_view_comes_soon(world) {
  const openings = async (beside) => {
    const rounds = [];
    for (let round = 0; round < 5; round += 1) rounds.push(await firstViews(world));
    const [first, later] = [0, 1].map((window) => rounds.map((times) => times[window]).sort((a, b) => a - b));
    console.log(`    first view ${beside}: after ${first[2]} ms in a browser's first window (${first.join(", ")} ms), ` +
      `after ${later[2]} ms in a later one (${later.join(", ")} ms)`);
    return first[0];
  };
  await openings("beside the crawl");
  await rhumb(world, "pause");
  const fastest = await openings("while the crawl is paused");
  await rhumb(world, "unpause");
  assert.ok(fastest < FIRST_VIEW_MS_MAX, `the fastest first view comes after ${fastest} ms`);
}

async function two_thousand_servers_scroll(world) {
  const page = await Page.open(world, world.address);
  const server = (number) => ({ server: `http://h${number}.test`, why: "delay for 0.4 s more", waiting: number, in_flight: 0,
    failures: 0, age_s: null, next_s: 0, addresses: [], addresses_for_s: 0, robots: {}, estimates: {}, urls: [] });
  const servers = Array.from({ length: ROWS }, (_, number) => server(number));
  await page.tab.route("**/servers?*", (route) => route.fulfill({ json: { servers, silent: [], errors: [] } }));
  await page.hears();
  await page.click("tab-servers");
  await page.shows("servers-words", "2,000 of 2,000 servers");
  const tasks = await page.tab.evaluate(async () => {
    const long = [];
    new PerformanceObserver((list) => long.push(...list.getEntries().map(({ duration }) => duration)))
      .observe({ type: "longtask" });
    const table = document.querySelector("[data-test=servers-table]");
    for (let step = 0; step < 120; step += 1) {
      table.scrollTop += step < 60 ? 700 : -700;
      await new Promise(requestAnimationFrame);
    }
    return long;
  });
  console.log(`    while 2,000 servers scroll, ${tasks.length} tasks take more than 50 ms (${tasks.map(Math.round)})`);
  assert.ok(tasks.every((ms) => ms < 300), `tasks of ${tasks} ms`);
  await page.close();
}

async function the_page_is_accessible_in_both_schemes_and_on_a_phone(world) {
  for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["light", 360]]) {
    const page = await Page.open(world, world.address, { scheme, width });
    await page.tab.waitForSelector(named("stage-fetcher"));
    await page.hears();
    await rest(1500);
    await page.isAccessible(`the page, ${scheme}, ${width} px`);
    await page.picture(`page-${scheme}-${width}`);
    await page.tab.focus(named("stage-scheduler"));
    await page.tab.keyboard.press("Enter");
    await until("a panel opens", () => page.tab.isVisible(named("panel")));
    await page.isAccessible(`a panel, ${scheme}, ${width} px`);
    await page.tab.keyboard.press("Escape");
    for (const tab of ["tab-servers", "tab-hands"]) {
      await page.click(tab);
      await rest(500);
      await page.isAccessible(`${tab}, ${scheme}, ${width} px`);
    }
    const isNarrow = await page.tab.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth);
    assert.ok(isNarrow, `the page scrolls sideways at ${width} px`);
    await page.isClean();
    await page.close();
  }
}

async function a_page_comes_back_by_itself_after_the_broker_was_away(world) {
  const broker = (await status(world)).processes.find(({ stage }) => stage === "broker").pid;
  process.kill(broker, "SIGSTOP");
  try {
    await world.page.shows("banner", "do not answer", 40_000);
  } finally {
    process.kill(broker, "SIGCONT");
  }
  await until("the banner goes", async () => !(await world.page.tab.isVisible(named("banner"))), 40_000);
}

async function of_two_crawls_on_one_broker_one_is_chosen(world) {
  const { broker } = JSON.parse(fs.readFileSync(path.join(world.data, "control.json"), "utf8"));
  const other = beginRhumb(world, "other", "up", "--data", path.join(world.dir, "other"), "--set", "crawl=second",
    "--set", `broker.url=${broker}`, "--set", "network.allow_private_addresses=true");
  const console = beginRhumb(world, "several", "console", "--listen", "127.0.0.1:0", "--set", `broker.url=${broker}`);
  const page = await until("both are offered", async () => {
    const page = await Page.open(world, await addressOf(console));
    await rest(1500);
    if ((await page.text("crawls")).includes("second")) return page;
    await page.close();
    return null;
  });
  await page.tab.getByRole("button", { name: "second" }).click();
  await page.shows("crawl", "second");
  await page.close();
  await end(console);
  await end(other);
}

async function a_crawl_that_ends_leaves_its_last_numbers(world) {
  await end(world.crawl);
  await world.page.shows("banner", "the crawl has ended", 20_000);
  const summary = JSON.parse(fs.readFileSync(world.summary, "utf8"));
  const shown = await world.page.figure("pages");
  assert.ok(shown > 0 && shown <= summary.pages, `${shown} pages are shown, ${summary.pages} were fetched`);
  await world.page.picture("ended");
  await world.page.isClean(/status of (400|409|503)/);
  const bytes = peakBytes(world.console.pid);
  console.log(`    the console needed ${(bytes / 1e6).toFixed(0)} MB`);
  assert.ok(bytes <= CONSOLE_BYTES_MAX, `${bytes} bytes`);
}

async function the_report_of_the_crawl_is_a_page_with_its_numbers(world) {
  const summary = JSON.parse(fs.readFileSync(world.summary, "utf8"));
  for (const [scheme, width] of [["light", 1280], ["dark", 360]]) {
    const page = await Page.open(world, `file://${path.join(world.data, "report.html")}`, { scheme, width });
    const text = await page.tab.textContent("body");
    for (const [what, number] of Object.entries({ pages: summary.pages, found: summary.urls_found, new: summary.urls_new })) {
      assert.ok(text.replace(/[\s,]/g, "").includes(String(number)), `${what} ${number} is in the report`);
    }
    assert.ok(text.includes("127.0.0.1") && text.includes("h0000.web.test"), "hosts are in the report");
    assert.equal(await page.tab.locator("script, a[href^=http], img").count(), 0);
    await page.isAccessible(`the report, ${scheme}, ${width} px`);
    await page.picture(`report-${scheme}-${width}`);
    await page.isClean();
    await page.close();
  }
}

export const checks = [
  a_page_waits_for_a_crawl_that_has_not_begun,
  a_crawl_appears_by_itself_when_it_begins,
  the_figures_are_those_of_rhumb_status,
  a_tap_shows_a_url_and_the_url_its_story,
  markup_of_a_hostile_web_stays_text,
  a_stage_is_scaled_by_a_button,
  nothing_is_done_without_the_token_or_from_another_site,
  the_first_view_comes_soon,
  two_thousand_servers_scroll,
  the_page_is_accessible_in_both_schemes_and_on_a_phone,
  a_page_comes_back_by_itself_after_the_broker_was_away,
  of_two_crawls_on_one_broker_one_is_chosen,
  a_crawl_that_ends_leaves_its_last_numbers,
  the_report_of_the_crawl_is_a_page_with_its_numbers,
];
