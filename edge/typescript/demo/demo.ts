/** The second half of the demo's page: made-up people report, and the newest tables are drawn. */

import { Gateway, MemoryStore, Reporter } from "../src/index.js";
import { reports, type Where } from "./crowd.js";
import { Truth } from "./people.js";
import { draw, type Newest } from "./tables.js";

/** Time between two requests of made-up people: about 70 people in a second. */
const PAUSE_MS = 700;
const REFRESH_MS = 1000;

const truth = new Truth();

function found<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

async function pause(milliseconds: number): Promise<void> {
  await new Promise((done) => setTimeout(done, milliseconds));
}

/** Let made-up people report for as long as the box is ticked. */
async function crowd(where: Where): Promise<void> {
  const switched = found<HTMLInputElement>("crowd");
  for (;;) {
    await pause(PAUSE_MS);
    if (!switched.checked) continue;
    try {
      for (const answers of await reports(where)) truth.add(answers);
      found("people").textContent = `${truth.size} made-up people have reported.`;
    } catch (error) {
      found("people").textContent = `Made-up people cannot report now: ${(error as Error).message}.`;
    }
  }
}

function caption({ kind, window, reports }: Newest): string {
  if (kind === null) return "No table yet. The first one appears after a few seconds of reports.";
  const of = `${reports} reports`;
  return kind === "total"
    ? `From ${of} of all windows up to number ${window}. The next window closes within seconds.`
    : `From ${of} so far, before the end of the first window.`;
}

async function show(domain: Reporter["plan"]["domain"]): Promise<void> {
  let last = "";
  for (;;) {
    try {
      const newest = (await (await fetch("tables.json")).json()) as Newest;
      const state = `${newest.kind} ${newest.window} ${newest.reports}`;
      if (state !== last) {
        last = state;
        found("caption").textContent = caption(newest);
        found("tables").replaceChildren(...draw(newest, domain, truth));
      }
    } catch {
      found("caption").textContent = "The demo has ended. Start it again with make demo-web.";
    }
    await pause(REFRESH_MS);
  }
}

async function start(): Promise<void> {
  const { gateway, roots } = (await (await fetch("config.json")).json()) as { gateway: string; roots: string[] };
  const [listed] = await new Gateway(gateway).plans();
  if (!listed) {
    found("caption").textContent = "The gateway offers no plan yet. Load this page again in a moment.";
    return;
  }
  const envelope = await new Gateway(gateway).plan(listed.digest);
  const { plan } = await Reporter.open(envelope, new MemoryStore(), { policy: { roots } });
  void crowd({ gateway, digest: listed.digest, envelope, roots });
  void show(plan.domain);
}

start().catch((error: Error) => (found("caption").textContent = `The demo does not answer. ${error.message}`));
