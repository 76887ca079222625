/** The whole package in a page of Chromium, from the bundle, under a strict content security policy. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import type { TestGateway } from "../server.js";
import { Operator, START } from "../support.js";
import { Profile, gatewayWithPage, type Edge } from "./page.js";

const EXAMPLES = new URL("../../../../docs/wire-examples.json", import.meta.url);
const wire = JSON.parse(readFileSync(EXAMPLES, "utf8"));
const operator = await Operator.make();
const profile = new Profile();
let server: TestGateway;

before(async () => {
  server = await gatewayWithPage();
});

after(async () => {
  await profile.close();
  await server.close();
});

test("the example reports are the same in Chromium", async () => {
  const page = await profile.tab(server.base);
  const made = await page.evaluate(async ({ plans, cases }) => {
    const edge = (await import("/edge.js" as string)) as Edge;
    const policy = { report_epsilon: "128", span_epsilon: "128" };
    const found: string[] = [];
    for (const each of cases) {
      const store = new edge.MemoryStore();
      await store.update((state) => ({ ...state, secret: each.secret }));
      const random = Uint8Array.from(each.random.match(/../g) ?? [], (byte: string) => parseInt(byte, 16));
      const source = new edge.GivenSource(random);
      const options = { policy, source, allowUnsigned: true, clock: () => each.now };
      const report = await (await edge.Reporter.open(plans[each.plan], store, options)).report(each.record);
      found.push(`${report?.json} ${source.left}`);
    }
    return found;
  }, wire.reports);
  const expected = wire.reports.cases.map((each: { report: string }) => `${Buffer.from(each.report, "hex")} 0`);
  assert.deepEqual(made, expected);
});

test("a person sees what is asked, reports, sees what left, and withdraws", async () => {
  const digest = await server.offer(await operator.sign());
  const page = await profile.tab(server.base);
  const seen = await page.evaluate(
    async ([url, root, now]) => {
      const edge = (await import(url!)) as Edge;
      const gateway = new edge.Gateway("");
      const store = new edge.IndexedDbStore("api");
      const clock = () => Number(now);
      const [listed] = await gateway.plans();
      const options = { policy: { roots: [root!] }, clock };
      const reporter = await edge.Reporter.open(await gateway.plan(listed!.digest), store, options);
      const asked = await reporter.asked();
      const before = await reporter.remaining();
      const { report, delivery } = await new edge.Sender(gateway, store, { clock }).send(reporter, { colour: "green", size: 2 });
      const [left] = await edge.history(store);
      const [status, after] = [await reporter.status(), await reporter.remaining()];
      await edge.withdraw(store);
      const stopped = await reporter.status();
      await edge.rejoin(store);
      const owner = reporter.owner;
      return { owner, asked, before, json: report!.json, delivery, left, status, after, stopped, again: await reporter.status() };
    },
    ["/edge.js", operator.root, String(START * 1000)],
  );
  assert.equal(seen.owner, "Example Ltd");
  assert.deepEqual(seen.delivery, { taken: 1, refused: [], lost: 0, waiting: 0, trouble: "" });
  assert.deepEqual([seen.before.span, seen.after.span], ["8", "7"]);
  assert.deepEqual([seen.status, seen.stopped, seen.again], ["already reported", "withdrawn", "already reported"]);
  assert.equal(seen.left!.value, seen.json);
  assert.deepEqual(seen.left!.attributes, seen.asked);
  assert.equal(seen.left!.digest, digest);
  assert.ok(server.lines.at(-1)!.endsWith(`"report":${seen.json}}`));
});

test("no cookie and no address of the page goes along", async () => {
  await server.offer(await operator.sign({ lineage_name: "cookies" }));
  const page = await profile.tab(server.base);
  server.requests.length = 0;
  await page.evaluate(
    async ([url, root, now]) => {
      document.cookie = "person=somebody";
      const edge = (await import(url!)) as Edge;
      const [gateway, store, clock] = [new edge.Gateway(""), new edge.MemoryStore(), () => Number(now)];
      const { digest } = (await gateway.plans()).at(-1)!;
      const reporter = await edge.Reporter.open(await gateway.plan(digest), store, { policy: { roots: [root!] }, clock });
      await new edge.Sender(gateway, store, { clock }).send(reporter, {});
    },
    ["/edge.js", operator.root, String(START * 1000)],
  );
  const asked = server.requests.filter(({ url }) => url.startsWith("/v1/"));
  assert.equal(asked.length, 3);
  for (const { headers } of asked) assert.deepEqual([headers.cookie, headers.referer], [undefined, undefined]);
});

for (const how of ["is left", "is hidden"]) {
  test(`a page that ${how} hands over what waits`, async () => {
    const digest = await server.offer(await operator.sign({ lineage_name: how }));
    const page = await profile.tab(server.base);
    server.lines.length = 0;
    server.script.push({ status: 503, headers: { "retry-after": "200" } });
    await page.evaluate(
      async ([url, digest, root, now, name]) => {
        const edge = (await import(url!)) as Edge;
        const clock = () => Number(now);
        const gateway = new edge.Gateway("");
        const store = new edge.IndexedDbStore(name);
        const reporter = await edge.Reporter.open(await gateway.plan(digest!), store, { policy: { roots: [root!] }, clock });
        const refused = new Promise<void>((done) => {
          const sender = new edge.Sender(gateway, store, { clock, sleep: () => new Promise(() => done()) });
          sender.deliverOnHide();
          void sender.send(reporter, { colour: "red" });
        });
        await refused;
      },
      ["/edge.js", digest, operator.root, String(START * 1000), how],
    );
    assert.equal(server.lines.length, 1);
    if (how === "is left") await page.close({ runBeforeUnload: true });
    else {
      // A headless browser hides no tab: the page is told as a browser tells it, at the document.
      await page.evaluate(() => {
        Object.defineProperty(document, "visibilityState", { value: "hidden" });
        document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));
      });
    }
    const deadline = Date.now() + 120_000;
    while (server.lines.length < 2 && Date.now() < deadline) await new Promise((done) => setTimeout(done, 50));
    assert.equal(server.lines.length, 2);
    assert.equal(server.lines[0], server.lines[1]);
    assert.equal(server.taken.has(JSON.parse(server.lines[1]!).id), true);
  });
}
