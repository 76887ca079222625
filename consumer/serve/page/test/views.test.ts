/** Every view in both sizes, light and dark: axe finds nothing, nothing is wider than the screen, the console is clean. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { launch, settled, tab } from "./browser";
import { PageServer } from "./server";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const VIEWS = {
  overview: "#/settings/overview",
  "one attribute": "#/settings/tables?attributes=language",
  pair: "#/settings/tables?attributes=age,theme",
  "within each value": "#/settings/tables?attributes=age,theme&given=age",
  "three attributes": "#/settings/tables?attributes=age,theme,start&given=age",
  cells: "#/settings/tables?attributes=age,theme&as=table",
  "a number": "#/numbers/tables?attributes=latency",
  "a number on a grid": "#/numbers/tables?attributes=age",
  "a number within each value": "#/numbers/tables?attributes=latency,region&given=region",
  "a number and a category": "#/numbers/tables?attributes=latency,region",
  "two numbers": "#/numbers/tables?attributes=latency,age",
  "uneven bins": "#/numbers/tables?attributes=price",
  "ordered labels": "#/numbers/tables?attributes=satisfaction",
  "an option and a category": "#/numbers/tables?attributes=apps=mail,region",
  "a difference of numbers": "#/numbers/tables?attributes=latency&windows=3&minus=1",
  "a difference": "#/settings/tables?attributes=age&windows=47&minus=3",
  "no question": "#/settings/tables",
  time: "#/settings/time?attributes=theme",
  associations: "#/settings/associations",
  "tests of change": "#/settings/changes",
  "changes before windows without reports": "#/silent/changes",
  "two attributes": "#/two/overview",
  "one pair": "#/two/associations",
  "14 attributes": "#/fourteen/overview",
  "91 pairs": "#/fourteen/associations",
  "no window is over": "#/empty/overview",
  "no window, no table": "#/empty/tables?attributes=age",
  "windows without reports": "#/silent/overview",
  "a window without reports": "#/silent/tables?attributes=age&windows=latest",
  "time without reports": "#/silent/time?attributes=age",
  noise: "#/noise/tables?attributes=language&windows=latest",
  "noise over time": "#/noise/time?attributes=theme",
  suspicious: "#/forged/tables?attributes=region&windows=latest",
  "suspicious over time": "#/forged/time?attributes=region",
  "suspicious windows": "#/forged/overview",
  "4,096 labels": "#/wide/tables?attributes=word",
  "a pair of many labels": "#/wide/tables?attributes=country,theme",
  "64 attributes": "#/many/overview",
  "2,016 pairs": "#/many/associations",
  "1,000 windows": "#/thousand/time?attributes=region&windows=last:1000",
  "names of all kinds": "#/names/overview",
  "unknown plan": "#/nowhere/overview",
  "unknown attribute": "#/settings/tables?attributes=nothing",
};

let server: PageServer;
let browser: Browser;
before(async () => {
  server = await PageServer.start();
  browser = await launch();
});
after(async () => {
  await browser.close();
  await server.close();
});

/** `1/3` is the first of three shares of the views; without it, all of them. */
const [share, shares] = (process.env["CALMSTREAM_PAGE_SHARE"] ?? "1/1").split("/").map(Number) as [number, number];

for (const [name, address] of Object.entries(VIEWS).filter((_, place) => place % shares === share - 1)) {
  test(name, async () => {
    for (const width of [1440, 390]) {
      const { page, wrongs, context } = await tab(browser, server.address, { width });
      await page.goto(`${server.address}/${address}`);
      await settled(page);
      assert.equal(await overflow(page), 0, `wider than ${width}`);
      assert.deepEqual(await violations(page), [], `${width}, light`);
      await page.emulateMedia({ colorScheme: "dark" });
      assert.deepEqual(await violations(page), [], `${width}, dark`);
      assert.deepEqual(wrongs, []);
      await context.close();
    }
  });
}

function overflow(page: Page): Promise<number> {
  return page.evaluate(() => Math.max(0, document.documentElement.scrollWidth - innerWidth));
}

/** What axe finds: rules and the first places that break them. */
async function violations(page: Page): Promise<string[]> {
  // The policy forbids scripts in the page; the debugger's connection may add one.
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const axe = (
      globalThis as unknown as {
        axe: {
          run: (
            where: Document,
          ) => Promise<{ violations: { id: string; nodes: { target: string[]; failureSummary: string }[] }[] }>;
        };
      }
    ).axe;
    const { violations } = await axe.run(document);
    return violations.map(
      (v) => `${v.id}: ${v.nodes.length} at ${v.nodes[0]!.target.join(" ")}: ${v.nodes[0]!.failureSummary}`,
    );
  });
}
