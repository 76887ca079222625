/** The page loads, shows its plan, and asks nobody else. */

import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
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
    await page.locator(".live.on", { hasText: "Live" }).waitFor();
    assert.deepEqual(wrongs, []);
    const ready = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
    console.log(`# first contentful paint after ${ready?.toFixed(0)} ms`);
  } finally {
    await browser.close();
    await server.close();
  }
});

test("the page works behind a proxy that serves it below a path", async () => {
  const server = await PageServer.start();
  const proxy = createServer((incoming, outgoing) => {
    const path = incoming.url!.startsWith("/results/") ? incoming.url!.slice("/results".length) : "/outside";
    const { method, headers } = incoming;
    request(server.address + path, { method: method!, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(outgoing);
    }).end();
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const browser = await launch();
  try {
    const { page, wrongs } = await tab(browser, origin);
    await page.goto(`${origin}/results/`);
    await settled(page);
    assert.equal(await page.getByRole("heading", { level: 1 }).textContent(), "settings");
    assert.equal(await page.locator(".glance").count(), 8);
    await page.locator(".live.on", { hasText: "Live" }).waitFor();
    assert.deepEqual(wrongs, []);
  } finally {
    await browser.close();
    proxy.closeAllConnections();
    proxy.close();
    await server.close();
  }
});
