// Opens pages of an archive in Chromium, through pywb, and says what of their site is missing.
//
// Usage: node main.mjs CHROMIUM TOOLS PYWB SITE
//   TOOLS: folder of playwright-core; PYWB: where pywb is, with the collections `with` and `without`; SITE: what was crawled.

import { createRequire } from "node:module";
import path from "node:path";

const [executablePath, tools, pywb, site] = process.argv.slice(2);
const { chromium } = createRequire(path.join(tools, "package.json"))("playwright-core");
// As root it has no sandbox; the others keep it from looking for the network.
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
// Without the search: what a script asks for by itself (its glossary.json) no crawler finds that runs none.
const PAGES = ["/extras/index.html", "/index.html", "/contents.html", "/genindex-A.html", "/howto/logging.html",
  "/library/asyncio.html", "/library/os.html", "/library/turtle.html", "/reference/grammar.html", "/glossary.html",
  "/tutorial/index.html", "/whatsnew/3.11.html"];
// What the first page loads by itself, in a browser that sees one screen of one density.
const EXTRAS = ["base/attribute.png", "base/body.png", "base/deep.png", "base/drawn.png", "base/embed.png",
  "base/img.png", "base/inline.css", "base/inline.png", "base/input.png", "base/linked.png", "base/object.png",
  "base/picture.png", "base/poster.png", "base/style.png", "base/used.svg", "base/video.png", "base/wide.png",
  "base/written.png", "css/import.css", "css/main.css", "css/nested/last.css", "css/nested/last.png", "font/x.woff2",
  "frame.html", "image/custom.png", "image/frame.png", "image/import.png", "image/preloaded.png", "image/set.png", "module.js",
  "script.js"];

/** Opens pages of a collection. Gives what of the site was loaded, and what was not there. */
async function open(browser, collection, pages) {
  const loaded = new Set();
  const missing = new Set();
  const context = await browser.newContext();
  const page = await context.newPage();
  const ofSite = (url) => (url.startsWith(pywb) && url.includes(`/${site}/`) ? url.slice(url.indexOf(`/${site}/`) + 1) : null);
  page.on("response", (response) => {
    const url = ofSite(response.url());
    if (url) (response.status() >= 400 ? missing : loaded).add(url);
  });
  page.on("requestfailed", (request) => {
    const url = ofSite(request.url());
    // What a page begins to play, or leaves, it gives up by itself.
    if (url && request.failure()?.errorText !== "net::ERR_ABORTED") missing.add(`${url} (${request.failure()?.errorText})`);
  });
  page.on("request", (request) => {
    if (request.url().startsWith(site)) missing.add(`${request.url()} (asked of the site)`);
  });
  for (const name of pages) {
    await page.goto(`${pywb}/${collection}/${site}${name}`, { waitUntil: "load", timeout: 30_000 });
    await page.waitForLoadState("networkidle", { timeout: 10_000 }).catch(() => {});
  }
  await context.close();
  return { loaded, missing };
}

for (let tries = 0; ; tries += 1) {
  const is = await fetch(`${pywb}/with/`).then((response) => response.ok, () => false);
  if (is) break;
  if (tries === 300) throw new Error("pywb does not answer");
  await new Promise((done) => setTimeout(done, 100));
}
const browser = await chromium.launch({ executablePath, args });
const failures = [];
try {
  const whole = await open(browser, "with", PAGES);
  const lacking = await open(browser, "without", PAGES.slice(0, 2));
  console.log(`${PAGES.length} pages: ${whole.loaded.size} resources loaded, ${whole.missing.size} missing; ` +
    `without stages.parser.embedded two pages lack ${lacking.missing.size}`);
  for (const url of whole.missing) failures.push(`missing: ${url}`);
  for (const name of EXTRAS) if (!whole.loaded.has(`${site}/extras/${name}`)) failures.push(`not loaded: ${name}`);
  for (const name of PAGES) if (!whole.loaded.has(`${site}${name}`)) failures.push(`not opened: ${name}`);
  if (lacking.missing.size < 10) failures.push("a crawl of pages alone seems to be whole");
} finally {
  await browser.close();
}
for (const failure of failures) console.log(failure);
console.log(failures.length === 0 ? "1 passed, 0 failed" : "0 passed, 1 failed");
process.exit(failures.length === 0 ? 0 : 1);
