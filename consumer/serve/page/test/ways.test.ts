/** What people do: ask, go by keyboard, open links, give a token; and what happens when something fails. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { launch, settled, shown, tab } from "./browser";
import { HOSTILE } from "./data";
import { PageServer } from "./server";

const TOKEN = "a-token-of-some-length";
let server: PageServer;
let browser: Browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

/** A tab on a server of its own. `prepare` runs before the page loads. */
function way(
  name: string,
  address: string,
  steps: (page: Page, server: PageServer) => Promise<void>,
  prepare: (page: Page) => Promise<unknown> = async () => {},
): void {
  test(name, async () => {
    server = await PageServer.start();
    const { page, wrongs, context } = await tab(browser, server.address);
    try {
      await prepare(page);
      await page.goto(`${server.address}/${address}`);
      await settled(page);
      await steps(page, server);
      assert.deepEqual(wrongs, []);
    } catch (error) {
      console.log(`# ${name}: ${await shown(page)}`);
      throw error;
    } finally {
      await context.close();
      await server.close();
    }
  });
}

way("a question is a link, and the link asks it again", "#/settings/overview", async (page) => {
  await page.getByRole("link", { name: /^theme/ }).click();
  await page.getByRole("heading", { level: 2, name: "theme" }).waitFor();
  await page.getByLabel(/^age/).check();
  await page.getByRole("radio", { name: "Newest window" }).check();
  await page.getByRole("radio", { name: "Within each age" }).check();
  await page.getByText("conditional", { exact: true }).first().waitFor();
  await page.getByText("Compare windows, group labels").click();
  await page.getByLabel("Minus windows").fill("0..6");
  await page.getByRole("button", { name: "Ask" }).click();
  await page.getByText("difference", { exact: true }).first().waitFor();
  assert.match(page.url(), /#\/settings\/tables\?attributes=theme%2Cage&windows=latest&minus=0\.\.6&given=age$/);
  const before = await page.locator(".result").innerText();
  await page.reload();
  await settled(page);
  assert.equal(await page.locator(".result").innerText(), before);
  for (const [place, words] of ["with urlopen", "curl"].entries()) {
    const snippet = (await page.locator("pre").nth(place).textContent())!;
    assert.ok(snippet.includes(words) && snippet.includes("windows=latest&minus=0..6&given=age"), snippet);
  }
});

way("the keyboard is enough", "#/settings/overview", async (page) => {
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Skip to content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), "MAIN");
  await page.keyboard.press("Tab");
  await page.keyboard.type("theme");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 2, name: "theme" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), "MAIN");
  await page.getByLabel("All windows").focus();
  await page.keyboard.press("ArrowRight");
  await page.getByText("Window 47 (").waitFor();
  await page.goto(page.url().replace(/#.*/, "#/settings/time?attributes=theme"));
  await settled(page);
  await page.getByLabel("Window", { exact: true }).focus();
  await page.keyboard.press("Home");
  await page.getByText("Window 0 (").waitFor();
  await page.keyboard.press("ArrowRight");
  await page.getByText("Window 1 (").waitFor();
});

way("a final appears by itself", "#/settings/tables?attributes=theme&windows=latest", async (page, at) => {
  await page.locator(".live.on", { hasText: "window 47" }).waitFor();
  const began = performance.now();
  at.finish("settings");
  await page.getByText("Window 48 (").waitFor();
  console.log(`# shown ${(performance.now() - began).toFixed(0)} ms after the final`);
});

way(
  "the page asks again when the server is back",
  "#/settings/tables?attributes=theme&windows=latest",
  async (page, at) => {
    await page.locator(".live.on", { hasText: "Live" }).waitFor();
    at.failure = 0;
    await page.getByText("Reconnecting").waitFor();
    at.finish("settings");
    at.failure = null;
    await page.getByText("Window 48 (").waitFor();
  },
);

way(
  "a hidden page asks nothing, and asks for what it missed when it is seen",
  "#/settings/tables?attributes=theme&windows=latest",
  async (page, at) => {
    const hide = (hidden: boolean) =>
      page.evaluate((value) => {
        Object.defineProperty(document, "hidden", { value, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, hidden);
    await page.locator(".live.on", { hasText: "Live" }).waitFor();
    await hide(true);
    at.finish("settings");
    await page.clock.fastForward(60_000);
    assert.equal(await page.getByText("Window 48 (").count(), 0);
    await hide(false);
    await page.getByText("Window 48 (").waitFor();
  },
  (page) => page.clock.install(),
);

{
  let answer = () => {};
  const held = new Promise<void>((done) => (answer = done));
  way(
    "a final between the list of plans and the first table is not missed",
    "#/settings/tables?attributes=theme&windows=latest",
    async (page, at) => {
      await page.getByText("Window 47 (").waitFor();
      at.finish("settings");
      answer();
      await page.getByText("Window 48 (").waitFor();
    },
    (page) =>
      page.route("**/windows?*", async (route) => {
        await held;
        await route.continue();
      }),
  );
}

way("a failure is shown, and trying again helps", "#/settings/overview", async (page, at) => {
  at.failure = 503;
  await page.getByRole("link", { name: "Associations" }).click();
  await page.getByRole("heading", { name: "Too many requests are in progress" }).waitFor();
  at.failure = 0;
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("heading", { name: "The server does not answer" }).waitFor();
  at.failure = null;
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("heading", { name: "Map" }).waitFor();
});

way("the page asks again by itself where the server asks for patience", "#/settings/overview", async (page, at) => {
  at.failure = 503;
  await page.getByRole("link", { name: "Associations" }).click();
  await page.getByText("The page asks again by itself.").waitFor();
  at.failure = null;
  await page.getByRole("heading", { name: "Map" }).waitFor();
});

way(
  "a silent server is given up after a minute, and asked again",
  "#/settings/overview",
  async (page, at) => {
    at.silent = true;
    await page.getByRole("link", { name: "Associations" }).click();
    await page.locator(".loading").first().waitFor();
    await page.clock.fastForward(60_000);
    await page.getByRole("heading", { name: "The server does not answer" }).waitFor();
    at.silent = false;
    await page.clock.fastForward(5_000);
    await page.getByRole("heading", { name: "Map" }).waitFor();
  },
  (page) => page.clock.install(),
);

way("a token that ends is asked for again", "#/settings/overview", async (page, at) => {
  at.token = TOKEN;
  await page.getByRole("link", { name: "Associations" }).click();
  await page.getByLabel("Token").fill(TOKEN);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Map" }).waitFor();
});

way("a window without reports leads to the newest with some", "#/silent/tables?attributes=theme", async (page) => {
  await page.locator(".live.ended", { hasText: "Ended" }).waitFor();
  await page.getByRole("radio", { name: "Newest window" }).check();
  await page.getByRole("button", { name: "Show window 9" }).click();
  await page.getByText("Window 9 (").waitFor();
  await page.getByRole("link", { name: "Changes" }).click();
  await page.getByText("2 newer windows received no reports.").waitFor();
});

way("arrow keys move in the map", "#/settings/associations", async (page) => {
  const label = () => page.evaluate(() => document.activeElement?.getAttribute("aria-label"));
  await page.locator(".matrix a").first().focus();
  assert.match((await label())!, /^region and theme/);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  assert.match((await label())!, /^theme and text size/);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 2, name: "theme and text size" }).waitFor();
});

way("older numbers stay, and are called so", "#/settings/tables?attributes=theme", async (page, at) => {
  await page.locator(".live.on", { hasText: "Live" }).waitFor();
  await page.route("**/tables?*", (route) => route.abort());
  at.finish("settings");
  await page.getByText("These are older numbers").waitFor();
  await page.getByRole("heading", { level: 2, name: "theme" }).waitFor();
});

way("refusals of the server are shown in its words", "#/settings/tables?attributes=theme&windows=99", async (page) => {
  await page.getByText("windows '99': the newest final window is 47").waitFor();
});

way(
  "hostile names are only text",
  `#/names/tables?attributes=${encodeURIComponent(HOSTILE.replaceAll(",", "\\,"))}`,
  async (page) => {
    await page.locator(".bar-label", { hasText: "<img src=x" }).waitFor();
    for (const view of ["overview", "time", "associations", "changes"]) {
      await page.goto(page.url().replace(/#.*/, `#/names/${view}`));
      await settled(page);
    }
    assert.equal(await page.evaluate(() => (globalThis as { attacked?: number }).attacked), undefined);
    assert.equal(await page.locator("main img").count(), 0);
  },
);

way("a name with a comma is one name", "#/names/overview", async (page) => {
  await page.locator(".glance a").first().click();
  await page.getByRole("heading", { level: 2, name: "a very long name" }).waitFor();
  assert.equal(await page.locator(".result h2 bdi").count(), 1);
});

way("4,096 labels: the largest first, the others by search", "#/wide/tables?attributes=word", async (page) => {
  assert.equal(await page.locator(".bar-row").count(), 20);
  await page.getByText("4,076 more labels").waitFor();
  await page.getByRole("radio", { name: "Table" }).check();
  assert.equal(await page.locator("tbody tr").count(), 100);
  await page.getByLabel("Search labels").fill("word 4096");
  await page.getByText("1 of 4,096 cells").waitFor();
  assert.equal(await page.locator("tbody tr").count(), 1);
});

way("files are links", "#/settings/tables?attributes=theme", async (page) => {
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("link", { name: "CSV" }).click(),
  ]);
  assert.equal(download.suggestedFilename(), "table.csv");
});

test("a token is asked for, stays in memory, and loads files", async () => {
  const at = await PageServer.start();
  at.token = TOKEN;
  const { page, wrongs, context } = await tab(browser, at.address);
  try {
    await page.goto(`${at.address}/#/settings/tables?attributes=theme`);
    await page.getByLabel("Token").fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByText("The server refuses this token.").waitFor();
    await page.getByLabel("Token").fill(TOKEN);
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByRole("heading", { level: 2, name: "theme" }).waitFor();
    await page.locator(".live.on", { hasText: "Live" }).waitFor();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "CSV" }).click(),
    ]);
    assert.equal(download.suggestedFilename(), "settings-theme.csv");
    assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length), 0);
    assert.ok(!page.url().includes(TOKEN) && !(await page.content()).includes(TOKEN));
    await page.reload();
    await page.getByLabel("Token").waitFor();
    assert.deepEqual(wrongs, []);
  } finally {
    await context.close();
    await at.close();
  }
});
