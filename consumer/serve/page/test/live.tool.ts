/**
 * A page of a real server: `node live.tool.mjs ADDRESS WINDOW`. Opens the table of the newest window, which is WINDOW,
 * prints `ready`, waits until the next window is shown, and prints the time in milliseconds since the epoch.
 */

import { launch, settled, tab } from "./browser";

const TIMEOUT = 120_000;
const [address, window] = [process.argv[2]!, Number(process.argv[3])];
const browser = await launch();
try {
  const { page, wrongs } = await tab(browser, new URL(address).origin);
  await page.goto(address);
  await settled(page);
  await page.getByText(`Window ${window} (`).waitFor({ timeout: TIMEOUT });
  await page.locator(".live.on", { hasText: `window ${window}` }).waitFor({ timeout: TIMEOUT });
  for (const view of ["overview", "time", "associations", "changes", "tables"]) {
    await page.evaluate((to) => (location.hash = location.hash.replace(/(#\/[^/]+\/)[a-z]+/, `$1${to}`)), view);
    await settled(page);
    const refusals = await page.locator(".state").allTextContents();
    if (refusals.length) throw new Error(`${view}: ${refusals}`);
  }
  console.log("ready");
  await page.getByText(`Window ${window + 1} (`).waitFor({ timeout: TIMEOUT });
  console.log(Date.now());
  if (wrongs.length) throw new Error(wrongs.join("\n"));
} finally {
  await browser.close();
}
