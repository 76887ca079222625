/** The example page in Chromium, as a person uses it. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, beforeEach, test } from "node:test";
import type { Page } from "playwright-core";
import { TestGateway } from "../server.js";
import { Operator } from "../support.js";
import { Profile } from "./page.js";

const operator = await Operator.make();
const stranger = await Operator.make();
const now = Math.floor(Date.now() / 1000);
const TIMES = { start: now - 60, window: 3600, expires: now - 60 + 24 * 3600 };
const FILES = { "": "text/html", "page.js": "text/javascript", "style.css": "text/css" };
let profile: Profile;
let server: TestGateway;

before(async () => {
  server = await TestGateway.start();
  for (const [name, type] of Object.entries(FILES)) {
    const body = readFileSync(new URL(`../../dist/example/${name || "index.html"}`, import.meta.url));
    server.files.set(`/${name}`, { type, body });
  }
  const config = JSON.stringify({ gateway: "", roots: [operator.root] });
  server.files.set("/config.json", { type: "application/json", body: Buffer.from(config) });
  await server.offer(await operator.sign({ ...TIMES, name: "colours", purpose: "ordering paint" }, now + 10 ** 6));
  await server.offer(await stranger.sign({ ...TIMES, name: "strangers" }, now + 10 ** 6));
});

beforeEach(() => {
  profile = new Profile();
});

after(() => server.close());

async function opened(): Promise<Page> {
  const page = await profile.tab(server.base);
  page.on("pageerror", (error) => assert.fail(error));
  await page.getByRole("heading", { name: "colours" }).waitFor();
  return page;
}

test("what is asked, a report, what left, and stopping", async () => {
  try {
    const page = await opened();
    const own = page.locator("section", { has: page.getByRole("heading", { name: "colours" }) });
    assert.match((await own.textContent())!, /Example Ltd asks. Purpose: ordering paint/);
    assert.match((await own.textContent())!, /ε = 1: .* at most 2.7 times as likely/);
    assert.match((await own.textContent())!, /may still cost ε = 8/);
    const foreign = page.locator("section", { has: page.getByRole("heading", { name: "strangers" }) });
    assert.match((await foreign.textContent())!, /does not accept the plan/);
    await own.getByLabel("colour").selectOption("green");
    await own.getByRole("button", { name: "Report" }).click();
    await page.getByText("Reported. Below is what left").waitFor();
    const [line] = server.lines;
    const value = await page.locator("#history code").textContent();
    assert.equal(`"report":${value}}`, line!.slice(line!.indexOf('"report"')));
    const said = (await page.locator("#history").textContent())!;
    // Of the bits of its report, chance may set none.
    assert.match(said, /It speaks for (no answer\.|.*, of \d+ possible answers\. By chance your own may be missing)/);
    assert.match((await page.locator("#costs").textContent())!, /at most ε = 8.*ε = 1 of it counts until/);
    assert.equal(await own.getByRole("button", { name: "Report" }).isDisabled(), true);
    assert.match((await own.textContent())!, /may still cost ε = 7/);
    await page.getByRole("button", { name: "Stop all reports" }).click();
    await page.getByText("You stopped all reports.").waitFor();
    await page.reload();
    await page.getByText("You stopped all reports.").waitFor();
    await page.getByRole("button", { name: "Allow reports again" }).click();
    await page.getByText("You have reported. Nothing more is asked now.").waitFor();
  } finally {
    await profile.close();
  }
});

test("it fits a phone, works by keyboard, and asks no other host", async () => {
  try {
    const page = await opened();
    const hosts = new Set<string>();
    page.on("request", (request) => hosts.add(new URL(request.url()).origin));
    await page.setViewportSize({ width: 390, height: 800 });
    await page.reload();
    await page.getByRole("heading", { name: "colours" }).waitFor();
    await page.getByLabel("colour").first().focus();
    for (let press = 0; press < 6; press++) {
      if ((await page.evaluate(() => document.activeElement?.textContent)) === "Report") break;
      await page.keyboard.press("Tab");
    }
    await page.keyboard.press("Enter");
    await page.locator("#history li").waitFor();
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 390, `the page is ${width} pixels wide`);
    assert.deepEqual([...hosts], [server.base]);
    const shot = process.env["SCREENSHOT"];
    if (shot) await page.screenshot({ path: shot, fullPage: true });
  } finally {
    await profile.close();
  }
});
