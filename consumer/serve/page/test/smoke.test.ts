/** The page loads, shows its plan, and asks nobody else. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { launch, settled, tab } from "./browser";
import { PageServer } from "./server";

test("the page loads and shows the plan", async () => {
  const server = await PageServer.start();
  const browser = await launch();
  try {
    const { page, wrongs } = await tab(browser, server.address);
    await page.goto(server.address);
    await settled(page);
    assert.equal(await page.getByRole("heading", { level: 1 }).textContent(), "settings");
    assert.equal(await page.locator(".glance").count(), 8);
    await page.locator(".live.live", { hasText: "Live" }).waitFor();
    assert.deepEqual(wrongs, []);
    const ready = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
    console.log(`# first contentful paint after ${ready?.toFixed(0)} ms`);
  } finally {
    await browser.close();
    await server.close();
  }
});
