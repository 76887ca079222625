/** The store of browsers, in Chromium: tabs that race, crashes, missing promises of durability. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Page } from "playwright-core";
import type { TestGateway } from "../server.js";
import { Operator, START } from "../support.js";
import { Profile, gatewayWithPage, type Edge } from "./page.js";

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

/** What a page reports, or its status, or the name of the error. */
function reportIn(page: Page, digest: string, store: string): Promise<string> {
  return page.evaluate(
    async ([url, digest, root, name, now]) => {
      const edge = (await import(url!)) as Edge;
      const options = { policy: { roots: [root!], span_epsilon: "100" }, clock: () => Number(now) };
      try {
        const envelope = await new edge.Gateway("").plan(digest!);
        const reporter = await edge.Reporter.open(envelope, new edge.IndexedDbStore(name), options);
        const report = await reporter.report({ colour: "red", size: 1 }, { keep: true });
        return report?.json ?? (await reporter.status());
      } catch (error) {
        return `${(error as Error).name}: ${(error as Error).message}`;
      }
    },
    ["/edge.js", digest, operator.root, store, String(START * 1000)],
  );
}

test("of several tabs that race, one reports", async () => {
  const tabs = await Promise.all([1, 2, 3].map(() => profile.tab(server.base)));
  for (let round = 0; round < 15; round++) {
    const digest = await server.offer(await operator.sign({ lineage_name: `race ${round}` }));
    const answers = await Promise.all([...tabs, ...tabs].map((tab) => reportIn(tab, digest, "race")));
    assert.equal(answers.filter((answer) => answer.startsWith("{")).length, 1, answers.join());
    assert.equal(answers.filter((answer) => answer === "already reported").length, 5);
  }
});

test("a browser that is killed between spending and sending does not spend again, and sends the same", async () => {
  for (let run = 0; run < 4; run++) {
    const digest = await server.offer(await operator.sign({ lineage_name: `crash ${run}` }));
    const made = await reportIn(await profile.tab(server.base), digest, "crash");
    await profile.kill();
    assert.ok(made.startsWith("{"));
    const page = await profile.tab(server.base);
    assert.equal(await reportIn(page, digest, "crash"), "already reported");
    server.lines.length = 0;
    const delivery = await page.evaluate(async ([url, now]) => {
      const edge = (await import(url!)) as Edge;
      const gateway = new edge.Gateway("");
      return new edge.Sender(gateway, new edge.IndexedDbStore("crash"), { clock: () => Number(now) }).deliver();
    }, ["/edge.js", String(START * 1000)]);
    assert.deepEqual(delivery, { taken: 1, refused: [], lost: 0, waiting: 0, trouble: "" });
    assert.equal(server.lines.length, 1);
    assert.ok(server.lines[0]!.endsWith(`"report":${made}}`));
  }
});

test("without a promise of durability nothing is reported", async () => {
  const digest = await server.offer(await operator.sign());
  const page = await profile.tab(server.base);
  await page.evaluate(() => {
    const original = IDBDatabase.prototype.transaction;
    IDBDatabase.prototype.transaction = function (stores, mode) {
      return original.call(this, stores, mode);
    };
  });
  assert.match(await reportIn(page, digest, "relaxed"), /^StoreError: this browser cannot promise/);
});

test("a write that fails is an error, and nothing is reported", async () => {
  const digest = await server.offer(await operator.sign());
  const page = await profile.tab(server.base);
  assert.match(await reportIn(page, await server.offer(await operator.sign({ name: "first" })), "full"), /^\{/);
  await page.evaluate(() => {
    IDBObjectStore.prototype.put = function () {
      throw new DOMException("no room", "QuotaExceededError");
    };
  });
  const other = await server.offer(await operator.sign({ lineage_name: "other" }));
  assert.match(await reportIn(page, other, "full"), /^StoreError/);
  await page.reload();
  assert.match(await reportIn(page, other, "full"), /^\{/);
  assert.equal(await reportIn(page, digest, "full"), "budget spent");
});

test("a state that somebody changed is damaged, not new", async () => {
  const digest = await server.offer(await operator.sign());
  const page = await profile.tab(server.base);
  assert.match(await reportIn(page, digest, "damaged"), /^\{/);
  await page.evaluate(
    () =>
      new Promise((done) => {
        const opening = indexedDB.open("damaged", 1);
        opening.onsuccess = () => {
          const transaction = opening.result.transaction("device", "readwrite");
          transaction.objectStore("device").put("nonsense", "state");
          transaction.oncomplete = () => {
            opening.result.close();
            done(null);
          };
        };
      }),
  );
  assert.match(await reportIn(page, digest, "damaged"), /^StoreError: the device's state is damaged/);
});

test("a database that does not answer stops one tab, and no other", async () => {
  const digest = await server.offer(await operator.sign({ lineage_name: "silent" }));
  const silent = await profile.tab(server.base);
  const failed = silent.evaluate(async (url) => {
    IDBFactory.prototype.open = () => ({}) as IDBOpenDBRequest;
    const edge = (await import(url)) as Edge;
    return new edge.IndexedDbStore("silent", 300).read().then(() => "read", (error: Error) => `${error.name}: ${error.message}`);
  }, "/edge.js");
  assert.match(await failed, /^StoreError: IndexedDB gives no answer/);
  assert.match(await reportIn(await profile.tab(server.base), digest, "silent"), /^\{/);
});

test("a page without a secure context says so", async () => {
  const page = await profile.tab(server.base.replace("127.0.0.1", "insecure.example"));
  const digest = await server.offer(await operator.sign());
  const answer = await page.evaluate(
    async ([url, raw, root]) => {
      const edge = (await import(url!)) as Edge;
      const opened = edge.Reporter.open(raw!, new edge.IndexedDbStore(), { policy: { roots: [root!] } });
      return opened.then(() => "opened", (error: Error) => `${error.name}: ${error.message}`);
    },
    ["/edge.js", new TextDecoder().decode(server.plans.get(digest)), operator.root],
  );
  assert.match(answer, /^StoreError: .*secure context/);
});

test("a runtime without Ed25519 is named as the cause", async () => {
  const page = await profile.tab(server.base);
  await page.evaluate(() => {
    const original = crypto.subtle.importKey.bind(crypto.subtle);
    crypto.subtle.importKey = ((...given: Parameters<typeof original>) => {
      if ((given[2] as { name?: string }).name === "Ed25519") throw new DOMException("unknown", "NotSupportedError");
      return original(...given);
    }) as typeof crypto.subtle.importKey;
  });
  const digest = await server.offer(await operator.sign());
  assert.match(await reportIn(page, digest, "old"), /^UnsupportedError: .*Ed25519/);
});

test("tabs that record add up, and withdrawing erases", async () => {
  const digest = await server.offer(await operator.sign({ lineage_name: "recorded" }));
  const work = (page: Page, task: "note" | "read" | "withdraw") =>
    page.evaluate(
      async ([url, digest, root, task, now]) => {
        const edge = (await import(url!)) as Edge;
        const store = new edge.IndexedDbStore("recorded");
        const options = { policy: { roots: [root!], span_epsilon: "100" }, clock: () => Number(now) };
        const recorder = await edge.Recorder.open(await new edge.Gateway("").plan(digest!), store, options);
        if (task === "note") await recorder.set(Math.random() < 0.5 ? "colour" : "size", "red");
        if (task === "withdraw") await recorder.withdraw();
        return [await recorder.record(), await store.readEvents()] as const;
      },
      ["/edge.js", digest, operator.root, task, String(START * 1000)],
    );
  const tabs = await Promise.all([1, 2, 3].map(() => profile.tab(server.base)));
  await Promise.all([...tabs, ...tabs, ...tabs, ...tabs].map((tab) => work(tab, "note")));
  const [record] = await work(tabs[0]!, "read");
  assert.deepEqual(record, { colour: "red", size: "red" });
  assert.deepEqual(await work(tabs[1]!, "withdraw"), [{}, {}]);
});
