// The first view: the time from the opening of a page until it shows the picture of the crawl.

import { named } from "./page.mjs";

/** Opens the page in the first window of a new browser, and in a later one. Gives the milliseconds of both. */
export async function firstViews(world) {
  const browser = await world.launch();
  try {
    return [await firstView(world, browser), await firstView(world, browser)];
  } finally {
    await browser.close();
  }
}

async function firstView(world, browser) {
  const tab = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await tab.addInitScript(noteWhenDrawn, named("stage-fetcher"));
  await tab.goto(world.address);
  await tab.waitForFunction(() => window.drawnAt, null, { polling: 100 });
  const drawnAt = await tab.evaluate(() => Math.round(window.drawnAt));
  await tab.close();
  return drawnAt;
}

/** Runs in the page: notes when the frame is done that shows an element. */
function noteWhenDrawn(selector) {
  const watcher = new MutationObserver(() => {
    if (!document.querySelector(selector)) return;
    watcher.disconnect();
    requestAnimationFrame(() => setTimeout(() => (window.drawnAt = performance.now())));
  });
  watcher.observe(document, { childList: true, subtree: true });
}
