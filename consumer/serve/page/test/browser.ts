/** Headless Chromium, with a record of everything that a page must not do. */

import { existsSync } from "node:fs";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";

const FOUND = [process.env["CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Longest wait for anything on a page, in milliseconds: a starved browser is slow, not wrong. */
const PATIENCE = 120_000;

export interface Look {
  readonly width?: number;
  readonly height?: number;
  readonly dark?: boolean;
}

export async function launch(): Promise<Browser> {
  const executablePath = FOUND.find((path) => path && existsSync(path));
  if (!executablePath) throw new Error("no Chromium: apt-get install chromium, or state CHROMIUM");
  return chromium.launch({ executablePath, headless: true, args: ["--no-sandbox"], timeout: PATIENCE });
}

/** A tab; `wrongs` collects errors of the console and requests to other hosts. */
export async function tab(
  browser: Browser,
  origin: string,
  look: Look = {},
): Promise<{ page: Page; wrongs: string[]; context: BrowserContext }> {
  const viewport = { width: look.width ?? 1440, height: look.height ?? 900 };
  const context = await browser.newContext({
    viewport,
    colorScheme: look.dark ? "dark" : "light",
    reducedMotion: "reduce",
  });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const wrongs: string[] = [];
  page.on("pageerror", (error) => wrongs.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // A refused request is shown by the page; the browser logs it in any case.
    if (["error", "warning"].includes(message.type()) && !/Failed to load resource/.test(message.text()))
      wrongs.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (!/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== origin)
      wrongs.push(`request: ${request.url()}`);
  });
  return { page, wrongs, context };
}

/** Wait until nothing loads. */
export async function settled(page: Page): Promise<void> {
  await page.locator("main").first().waitFor();
  await page.waitForFunction(() => !document.querySelector(".loading, .stale, .strip.waiting"));
  await page.evaluate(() => document.fonts.ready);
}

/** The address of a page and the beginning of its text, for the report of a failure. */
export async function shown(page: Page): Promise<string> {
  try {
    const text = await page.locator("body").innerText({ timeout: 5_000 });
    return `${page.url()} shows ${JSON.stringify(text.slice(0, 1_500))}`;
  } catch (error) {
    return `${page.url()} does not answer: ${String(error)}`;
  }
}
