// Runs the checks of the console, one after the other, on one crawl.
//
// Usage: node main.mjs PROGRAMS CHROMIUM TOOLS
//   PROGRAMS: folder of rhumb and synthetic-web; CHROMIUM: the browser; TOOLS: folder of playwright-core and axe-core, where
//   the pictures are left, too.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { checks } from "./checks.mjs";
import { beginHostileServer } from "./hostile.mjs";
import { endAll } from "./processes.mjs";

const LAUNCHES_MAX = 3;

const [programs, executablePath, tools] = process.argv.slice(2);
const { chromium } = createRequire(path.join(tools, "package.json"))("playwright-core");
// As root it has no sandbox; the others keep it from looking for the network.
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

let passed = 0;
let failed = 0;
let world = { pages: new Set() };
const dir = fs.mkdtempSync(path.join(tools, "run-"));
const browser = await launch();
try {
  world = {
    programs, dir, launch, browser, pages: new Set(),
    pictures: path.join(tools, "pictures"),
    axe: fs.readFileSync(path.join(tools, "node_modules/axe-core/axe.min.js"), "utf8"),
    hostile: await beginHostileServer(),
  };
  for (const check of checks) {
    const began = Date.now();
    await check(world);
    passed += 1;
    console.log(`ok  ${check.name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
  }
} catch (error) {
  failed = 1;
  console.error(error);
  for (const [number, page] of [...world.pages].entries()) {
    console.error(`page ${number}`, page.said);
    await page.picture(`failed-${number}`).catch(() => {});
  }
} finally {
  await browser.close();
  await endAll();
  fs.rmSync(dir, { recursive: true, force: true });
}
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed);

/** Begins a browser. Chromium itself dies now and then at its start, before it has seen a page. */
async function launch() {
  for (let launches = 1; ; launches += 1) {
    try {
      return await chromium.launch({ executablePath, args });
    } catch (error) {
      if (launches === LAUNCHES_MAX) throw error;
      console.error(`the browser died at its start, launch ${launches} of ${LAUNCHES_MAX}: ${error.message.split("\n")[0]}`);
    }
  }
}
