/** Headless Chromium for tests: pages of one profile that load the bundle from a test gateway. */

import { existsSync, mkdtempSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type BrowserContext, type Page } from "playwright-core";
import { TestGateway } from "../server.js";

const FOUND = [process.env["CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const CSP = "default-src 'none'; script-src 'self'; connect-src 'self'";
/** Longest wait for anything on a page, in milliseconds: a starved browser is slow, not wrong. */
const PATIENCE = 120_000;
const BUNDLE = new URL("../../dist/index.js", import.meta.url);

/** The bundle as a page sees it. */
export type Edge = typeof import("../../src/index.js");

/** A gateway that also serves an empty page and the bundle; the page may ask one other origin, too. */
export async function gatewayWithPage(port = 0, otherOrigin = ""): Promise<TestGateway> {
  const server = await TestGateway.start(port);
  const policy = `${CSP} ${otherOrigin}`;
  const html = `<!doctype html><meta http-equiv="content-security-policy" content="${policy}"><title>t</title>`;
  server.files.set("/", { type: "text/html", body: Buffer.from(html) });
  server.files.set("/edge.js", { type: "text/javascript", body: readFileSync(BUNDLE) });
  return server;
}

/** A profile with a browser that can be killed and started again. */
export class Profile {
  private context: Promise<BrowserContext> | undefined;
  private readonly folder = mkdtempSync(join(tmpdir(), "edge-profile-"));

  private async start(): Promise<BrowserContext> {
    const executablePath = FOUND.find((path) => path && existsSync(path));
    if (!executablePath) throw new Error("no Chromium: apt-get install chromium, or state CHROMIUM");
    const args = ["--no-sandbox", "--host-resolver-rules=MAP insecure.example 127.0.0.1"];
    const options = { executablePath, headless: true, args, timeout: PATIENCE };
    const context = await chromium.launchPersistentContext(this.folder, options);
    context.setDefaultTimeout(PATIENCE);
    return context;
  }

  /** A new tab at an address. */
  async tab(url: string): Promise<Page> {
    this.context ??= this.start();
    const page = await (await this.context).newPage();
    await page.goto(url);
    return page;
  }

  /** Kill the browser with all its processes, without a chance to write anything. */
  async kill(): Promise<void> {
    const context = await this.context!;
    const closed = new Promise((done) => context.once("close", done));
    const pid = Number(readlinkSync(join(this.folder, "SingletonLock")).split("-").at(-1));
    process.kill(-pid, "SIGKILL");
    await closed;
    this.context = undefined;
    rmSync(join(this.folder, "SingletonLock"), { force: true });
  }

  async close(): Promise<void> {
    await (await this.context)?.close();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
