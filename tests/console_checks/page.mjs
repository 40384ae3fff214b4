// The page of the console in the browser, as a person uses it.

import assert from "node:assert/strict";
import path from "node:path";
import { until } from "./processes.mjs";

/** The element that carries this name for tests. */
export const named = (name) => `[data-test="${name}"]`;

/** An opened page. What the browser says about it is kept. */
export class Page {
  static async open(world, address, { width = 1280, height = 900, scheme = "light" } = {}) {
    const context = await world.browser.newContext({ viewport: { width, height }, colorScheme: scheme });
    const page = new Page(world, await context.newPage());
    page.tab.on("console", (message) => page.said.push(message.text()));
    page.tab.on("pageerror", (error) => page.said.push(error.stack));
    page.tab.on("dialog", (dialog) => { page.said.push(`a dialog opened: ${dialog.message()}`); dialog.dismiss(); });
    world.pages.add(page);
    await page.tab.goto(address);
    return page;
  }

  /** Waits until all parts of the page hear. */
  hears() {
    return this.tab.waitForSelector("[role=tab][aria-selected=true]");
  }

  constructor(world, tab) {
    this.world = world;
    this.tab = tab;
    this.said = [];
  }

  close() {
    this.world.pages.delete(this);
    return this.tab.context().close();
  }

  /** The number that a figure shows. */
  async figure(name) {
    return Number(await this.tab.getAttribute(named(name), "data-value"));
  }

  text(name) {
    return this.tab.textContent(named(name));
  }

  click(name) {
    return this.tab.click(named(name));
  }

  /** Waits until an element shows words. */
  shows(name, words, ms) {
    return until(`${name} shows "${words}"`, async () => (await this.text(name))?.includes(words), ms);
  }

  /** Leaves a picture of what the window shows. */
  picture(name) {
    return this.tab.screenshot({ path: path.join(this.world.pictures, `${name}.png`) });
  }

  /** What axe-core finds that is serious. */
  async isAccessible(what) {
    const devtools = await this.tab.context().newCDPSession(this.tab);
    await devtools.send("Runtime.evaluate", { expression: this.world.axe });
    const { violations } = await this.tab.evaluate(() => window.axe.run());
    const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
    const told = serious.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ target }) => target).join(" | ")}`);
    assert.deepEqual(told, [], `axe-core finds in ${what}`);
  }

  /** No markup was run, and the browser had nothing to say. Answers that a check asked for are left out. */
  async isClean(expected = /^$/) {
    assert.equal(await this.tab.evaluate(() => window.pwned), undefined, "markup of the web was run");
    assert.deepEqual(this.said.filter((line) => !expected.test(line)), [], "the browser says");
  }
}
