import assert from "node:assert/strict";
import { after, beforeEach, test } from "node:test";
import { readFile } from "node:fs/promises";
import { Gateway, GatewayError, MemoryStore, PlanError, PlanRefused, Reporter, Sender, rejoin, setPolicy, withdraw, type Store } from "../src/index.js";
import { unhex, hex, copied } from "../src/bytes.js";
import { kept } from "../src/device/waiting.js";
import type { Waiting } from "../src/device/ledger.js";
import { retryAfter } from "../src/send/gateway.js";
import { MAX_KEEPALIVE_BYTES } from "../src/send/sender.js";
import { TestGateway } from "./server.js";
import { Clock, Operator, WINDOW } from "./support.js";

const RECORD = { colour: "red", size: "2" };
const operator = await Operator.make();
const server = await TestGateway.start();
const gateway = new Gateway(`${server.base}/`, { headers: { "x-app-key": "k1" } });
after(() => server.close());

let store: MemoryStore;
let clock: Clock;
let slept: number[];

beforeEach(() => {
  store = new MemoryStore();
  clock = new Clock();
  slept = [];
  server.script.length = 0;
  server.lines.length = 0;
  server.requests.length = 0;
  server.taken.clear();
});

async function reporter(changes = {}) {
  const digest = await server.offer(await operator.sign(changes));
  return Reporter.open(await gateway.plan(digest), store, { policy: { roots: [operator.root] }, clock: clock.read });
}

function sender(sleeps: (milliseconds: number) => void = () => undefined) {
  const sleep = async (milliseconds: number) => {
    slept.push(milliseconds);
    sleeps(milliseconds);
  };
  return new Sender(gateway, store, { clock: clock.read, sleep });
}

test("a plan comes from the gateway, a report goes to it", async () => {
  const device = await reporter();
  assert.deepEqual((await gateway.plans()).map(({ digest }) => digest).includes(device.plan.digest), true);
  const { report, delivery } = await sender().send(device, RECORD);
  assert.deepEqual(delivery, { taken: 1, refused: [], lost: 0, waiting: 0, trouble: "" });
  const [line] = server.lines;
  assert.match(line!, /^\{"id":"[0-9a-f]{32}","report":\{"v":"1\.0",/);
  assert.equal(line, `{"id":"${JSON.parse(line!).id}","report":${report!.json}}`);
  assert.deepEqual((await store.read()).waiting, []);
});

test("the program of the README takes what it is offered, skips what it refuses, and keeps its plans", async () => {
  const other = await Operator.make();
  const start = Math.floor(Date.now() / 1000) - WINDOW / 2;
  const present = { start, expires: start + 100 * WINDOW, lineage_name: "readme" };
  const offered = await Promise.all([other, operator].map((each) => each.sign(present, 2 ** 39)));
  for (const envelope of offered) await server.offer(envelope);
  const page = (await readFile("README.md", "utf8")).split("```js\n")[1]!.split("```")[0]!;
  const program = page.replace(/^import.*/, "").replace(/<64 [^"]*/, operator.root).replace(/\nconst often[^]*/, "\nreturn run;");
  const items = new Map<string, string>();
  const localStorage = { getItem: (key: string) => items.get(key), setItem: (key: string, text: string) => items.set(key, text) };
  const names = { Gateway, PlanRefused, Reporter, Sender: Quiet, setPolicy, localStorage, IndexedDbStore: function () { return store; } };
  const started = (base: string): (() => Promise<void>) => {
    const made = new Function(...Object.keys(names), program.replace("https://reports.example.org", base));
    return made(...Object.values(names));
  };
  await started(server.base)();
  assert.equal(server.taken.size, 1);
  assert.equal(JSON.parse(items.get("plans")!).length >= 2, true);
  store = new MemoryStore();
  await started("http://127.0.0.1:1")();
  assert.equal((await store.read()).waiting.length, 1);
});

/** A sender under Node, where no page is hidden, and that does not retry. */
class Quiet extends Sender {
  constructor(to: Gateway, from: Store) {
    super(to, from, { attempts: 1 });
  }

  override deliverOnHide() {
    return () => undefined;
  }
}

test("nothing about the person goes along", async () => {
  await sender().send(await reporter(), RECORD);
  const { headers } = server.requests.find(({ method }) => method === "POST")!;
  assert.equal(headers["content-type"], "application/x-ndjson");
  assert.equal(headers["x-app-key"], "k1");
  assert.equal(headers.cookie, undefined);
  assert.equal(headers.referer, undefined);
});

test("the ledger is written before the report leaves", async () => {
  const device = await reporter();
  let reportedBefore = 0;
  const spying = new Gateway(server.base, {
    fetch: async (url, init) => {
      if (init?.method === "POST") reportedBefore = (await store.read()).history.length;
      return fetch(url, init);
    },
  });
  await new Sender(spying, store, { clock: clock.read }).send(device, RECORD);
  assert.equal(reportedBefore, 1);
});

test("a report that is retried has the same bytes and the same id", async () => {
  server.script.push({ status: 503 }, { status: 202, takes: true, cut: true }, { status: 429, headers: { "retry-after": "7" } });
  const { delivery } = await sender().send(await reporter(), RECORD);
  assert.equal(delivery.taken, 1);
  assert.equal(server.lines.length, 4);
  assert.equal(new Set(server.lines).size, 1);
  assert.equal(server.taken.size, 1);
  assert.equal(slept.length, 3);
  assert.ok(slept[0]! <= 1_000 && slept[1]! >= 1_000 && slept[1]! <= 2_000);
  assert.ok(slept[2]! >= 7_000, "Retry-After is a least time");
});

test("a report that no gateway takes waits for the next page", async () => {
  server.script.push(...Array.from({ length: 6 }, () => ({ status: 500 })));
  const device = await reporter();
  const { report, delivery } = await sender().send(device, RECORD);
  assert.deepEqual(delivery, { taken: 0, refused: [], lost: 0, waiting: 1, trouble: "500" });
  assert.equal(await device.status(), "already reported");
  const next = await sender().deliver();
  assert.equal(next.taken, 1);
  assert.ok(server.lines.at(-1)!.includes(report!.json));
  assert.equal(new Set(server.lines).size, 1);
});

test("a gateway that wants a long silence gets it", async () => {
  server.script.push({ status: 503, headers: { "retry-after": "86400" } });
  const { delivery } = await sender().send(await reporter(), RECORD);
  assert.deepEqual([delivery.waiting, slept], [1, []]);
});

for (const status of [400, 409, 413, 415, 422]) {
  test(`${status} refuses the report for good, with its reason`, async () => {
    server.script.push({ status, body: { reason: "why" } });
    const { delivery } = await sender().send(await reporter(), RECORD);
    assert.deepEqual(delivery, { taken: 0, refused: [`${status} why`], lost: 0, waiting: 0, trouble: "" });
  });
}

for (const status of [401, 403, 404]) {
  test(`${status}: the report waits, without further attempts now`, async () => {
    server.script.push({ status });
    const { delivery } = await sender().send(await reporter(), RECORD);
    assert.deepEqual([delivery.waiting, delivery.trouble, server.lines.length], [1, `${status}`, 1]);
  });
}

test("verdicts on a single report", async () => {
  for (const [result, expected] of [["accepted", "taken"], ["duplicate", "taken"], ["late", "refused"], ["early", "not now"]]) {
    const answer = (id: string) => ({ results: [{ id: "0".repeat(32), result: "late" }, { id, result }] });
    const scripted = new Gateway("http://h", {
      fetch: async (_, init) => Response.json(answer(JSON.parse(init!.body as string).id), { status: 202 }),
    });
    assert.equal((await scripted.post(waiting(1))).kind, expected);
    const refusing = new Gateway("http://h", {
      fetch: async (_, init) => Response.json(answer(JSON.parse(init!.body as string).id), { status: 422 }),
    });
    assert.equal((await refusing.post(waiting(1))).kind, expected, "a problem document may list verdicts");
  }
  for (const body of ["", "no JSON", "[]", '{"results":3}', '{"results":[null]}']) {
    const odd = (status: number) => new Gateway("http://h", { fetch: async () => new Response(body, { status }) });
    assert.deepEqual(await odd(202).post(waiting(1)), { kind: "taken" });
    for (const status of [200, 201, 203, 206]) assert.equal((await odd(status).post(waiting(1))).kind, "later", "no gateway says so");
  }
});

test("a report whose window is over is lost and not sent", async () => {
  server.script.push(...Array.from({ length: 6 }, () => ({ status: 500 })));
  const device = await reporter();
  const late = sender(() => (clock.now += WINDOW * 1000 + 5000));
  const { delivery } = await late.send(device, RECORD);
  assert.deepEqual(delivery, { taken: 0, refused: [], lost: 1, waiting: 0, trouble: "" });
  assert.equal(server.lines.length, 1);
});

test("withdrawing stops what waits, also during retries", async () => {
  server.script.push({ status: 503 });
  const device = await reporter();
  const stopping = new Sender(gateway, store, { clock: clock.read, sleep: () => withdraw(store) });
  const { delivery } = await stopping.send(device, RECORD);
  assert.deepEqual([delivery.taken, delivery.waiting, server.lines.length], [0, 0, 1]);
});

test("after withdrawing nothing leaves with the page", async () => {
  server.script.push({ status: 503 });
  const device = await reporter();
  const own = new Sender(gateway, store, { clock: clock.read, attempts: 1 });
  const page = new EventTarget();
  own.deliverOnHide(page);
  assert.equal((await own.send(device, RECORD)).delivery.waiting, 1);
  await withdraw(store);
  page.dispatchEvent(new Event("pagehide"));
  await new Promise((done) => setTimeout(done, 50));
  assert.equal(server.lines.length, 1);
  await rejoin(store);
  page.dispatchEvent(new Event("pagehide"));
  await new Promise((done) => setTimeout(done, 50));
  assert.equal(server.lines.length, 1);
});

test("a report that another tab delivered or dropped meanwhile is not sent", async () => {
  await store.update((state) => ({ ...state, waiting: [waiting(1), waiting(1), waiting(1)] }));
  const posted: string[] = [];
  const meanwhile = new Gateway("http://h", {
    fetch: async (_, init) => {
      posted.push(JSON.parse(init!.body as string).id);
      await store.update((state) => ({ ...state, waiting: state.waiting.filter((_, i) => i !== 1) }));
      return new Response("", { status: 202 });
    },
  });
  const own = new Sender(meanwhile, store, { clock: clock.read });
  assert.equal((await own.deliver()).taken, posted.length);
  assert.equal(posted.length, 2);
});

test("while a page goes away, at most 64 KiB leave, with keepalive", async () => {
  const sent: RequestInit[] = [];
  const spying = new Gateway("http://h", {
    fetch: async (_, init) => {
      sent.push(init!);
      return new Response("", { status: 503 });
    },
  });
  await store.update((state) => ({ ...state, waiting: [waiting(30_000), waiting(50_000), waiting(30_000), waiting(10)] }));
  const own = new Sender(spying, store, { clock: clock.read, sleep: async () => undefined, attempts: 1 });
  await own.deliver();
  sent.length = 0;
  const page = new EventTarget();
  const stop = own.deliverOnHide(page);
  page.dispatchEvent(new Event("pagehide"));
  assert.equal(sent.length, 3);
  assert.ok(sent.every((init) => init.keepalive));
  assert.ok(sent.reduce((sum, init) => sum + (init.body as string).length, 0) <= MAX_KEEPALIVE_BYTES);
  stop();
  page.dispatchEvent(new Event("pagehide"));
  assert.equal(sent.length, 3);
  assert.equal((await store.read()).waiting.length, 4);
});

test("a page that is hidden, and not left, hands over what waits", async () => {
  const sent: string[] = [];
  const spying = new Gateway("http://h", {
    fetch: async (_, init) => {
      sent.push(JSON.parse(init!.body as string).id);
      return new Response("", { status: 503 });
    },
  });
  const own = new Sender(spying, store, { clock: clock.read, sleep: async () => undefined, attempts: 1 });
  await store.update((state) => ({ ...state, waiting: [waiting(1)] }));
  await own.deliver();
  sent.length = 0;
  const page = Object.assign(new EventTarget(), { document: { visibilityState: "hidden" } });
  const stop = own.deliverOnHide(page);
  const becomes = (visibilityState: string) => {
    page.document.visibilityState = visibilityState;
    page.dispatchEvent(new Event("visibilitychange"));
  };
  becomes("hidden");
  assert.equal(sent.length, 1);
  page.dispatchEvent(new Event("pagehide"));
  assert.equal(sent.length, 1, "it left already");
  becomes("visible");
  await own.deliver(); // the one that runs already
  assert.equal(sent.length, 2, "a page that is shown again delivers");
  becomes("hidden");
  assert.equal(sent.length, 3);
  page.dispatchEvent(new Event("online"));
  await own.deliver();
  assert.equal(sent.length, 4);
  assert.equal(new Set(sent).size, 1);
  stop();
  for (const state of ["visible", "hidden"]) becomes(state);
  page.dispatchEvent(new Event("online"));
  assert.equal(sent.length, 4);
});

test("whatever a gateway does, asking it for plans ends with one kind of error", async () => {
  const fails = (fetch: typeof globalThis.fetch) => assert.rejects(new Gateway("http://h", { fetch }).plans(), GatewayError);
  await fails(() => Promise.reject(new TypeError("fetch failed")));
  await fails(() => Promise.reject(new DOMException("late", "TimeoutError")));
  for (const body of ["", "<html>", "null", "{}", '{"plans":[null]}', '{"plans":[{"digest":1,"name":"a"}]}']) {
    await fails(async () => new Response(body));
  }
  await fails(async () => new Response("{}", { status: 503 }));
});

test("a gateway that hands out another plan is caught", async () => {
  const envelope = await operator.sign();
  const digest = "0".repeat(64);
  server.plans.set(digest, envelope);
  await assert.rejects(gateway.plan(digest), PlanError);
  server.plans.delete(digest);
  await assert.rejects(gateway.plan(digest), /404/);
});

test("what waits is bounded; the oldest go first", () => {
  let all: Waiting[] = [];
  for (let number = 0; number < 100; number++) all = kept(all, waiting(10));
  assert.equal(all.length, 64);
  for (let number = 0; number < 10; number++) all = kept(all, waiting((1 << 20) - 2));
  assert.equal(all.length, 4);
});

test("Retry-After in seconds, as a date, or as nonsense", () => {
  const now = Date.parse("2026-01-01T00:00:00Z");
  assert.equal(retryAfter("12", now), 12_000);
  assert.equal(retryAfter("Thu, 01 Jan 2026 00:00:30 GMT", now), 30_000);
  assert.equal(retryAfter("Wed, 31 Dec 2025 00:00:00 GMT", now), 0);
  assert.equal(retryAfter("soon", now), null);
  assert.equal(retryAfter(null, now), null);
});

let count = 0;

function waiting(size: number): Waiting {
  const id = hex(copied(unhex((++count).toString(16).padStart(32, "0"))));
  return { id, digest: "0".repeat(64), report: JSON.stringify("x".repeat(size)), until: Infinity };
}
