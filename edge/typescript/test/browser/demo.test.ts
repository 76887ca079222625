/** The demo's page in Chromium, against a real gateway: `tests/integration/typescript` starts it and says where. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Profile } from "./page.js";

const ADDRESS = process.env["CALMSTREAM_DEMO"];
/** Two windows of the demo, and time for a slow machine. */
const MINUTES = 3;

test("the page reports and the tables count every report", { skip: !ADDRESS && "no demo runs" }, async () => {
  const profile = new Profile();
  try {
    const page = await profile.tab(ADDRESS!);
    page.on("pageerror", (error) => assert.fail(error));
    const timeout = MINUTES * 60_000;
    await page.getByText("made-up people have reported").waitFor({ timeout });
    await page.getByRole("button", { name: "Report", exact: true }).click();
    await page.getByText("Reported. Below is what left this device.").waitFor({ timeout });
    await page.getByLabel("Made-up people report too").uncheck();
    // A request that had begun may still add people.
    await page.waitForTimeout(5_000);
    const people = Number((await page.locator("#people").textContent())!.split(" ")[0]);
    assert.ok(people >= 50);
    await page.getByText(`From ${people + 1} reports of all windows`).waitFor({ timeout });
    assert.equal(await page.locator("#tables section").count(), 6);
    assert.ok((await page.locator("#tables .truth").count()) > 20);
    assert.match((await page.locator("#history").textContent())!, /Example Ltd asked/);
  } finally {
    await profile.close();
  }
});
