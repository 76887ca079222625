/** How fast the page is on made-up answers: medians of `node speed.tool.mjs [ROUNDS]` loads, in milliseconds. */

import { launch, settled, tab } from "./browser";
import { PageServer } from "./server";

const VIEWS = {
  overview: "#/settings/overview",
  "a pair": "#/settings/tables?attributes=age,theme",
  "4,096 labels": "#/wide/tables?attributes=word",
  "1,000 windows, 6 labels": "#/thousand/time?attributes=region&windows=last:1000",
  "2,016 pairs": "#/many/associations",
};

const rounds = Number(process.argv[2] ?? 5);
const server = await PageServer.start();
const browser = await launch();
for (const [name, address] of Object.entries(VIEWS)) {
  const paints: number[] = [];
  const ends: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const { page, context } = await tab(browser, server.address);
    await page.goto(`${server.address}/${address}`);
    await settled(page);
    ends.push(await page.evaluate(() => performance.now()));
    paints.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]!.startTime));
    await context.close();
  }
  console.log(`${name}: first paint ${median(paints)}, everything shown ${median(ends)}`);
}
await browser.close();
await server.close();

function median(values: readonly number[]): string {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!.toFixed(0);
}
