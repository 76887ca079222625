import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryStore, PlanRefused, Reporter, StoreError, history, rejoin, setPolicy, withdraw, type Store } from "../src/index.js";
import { GivenSource } from "../src/random.js";
import { Clock, Operator, START, WINDOW, document, canonical, unsigned } from "./support.js";
import { unhex, utf8 } from "../src/bytes.js";
import { place } from "../src/device/place.js";

const RECORD = { colour: "red", size: 2 };
const operator = await Operator.make();
const policy = { roots: [operator.root] };

async function opened(changes = {}, store: Store = new MemoryStore(), clock = new Clock()) {
  return Reporter.open(await operator.sign(changes), store, { policy, clock: clock.read });
}

test("once means once, for every tab that uses the store", async () => {
  const store = new MemoryStore();
  const [one, two] = [await opened({}, store), await opened({}, store)];
  const made = await Promise.all([one.report(RECORD), two.report(RECORD), one.report(RECORD)]);
  assert.equal(made.filter((report) => report !== null).length, 1);
  assert.equal(await two.status(), "already reported");
  assert.equal((await store.read()).history.length, 1);
});

test("a report is made only after the ledger says so", async () => {
  const store = new MemoryStore();
  const broken: Store = {
    read: () => store.read(),
    update: async () => { throw new StoreError("disk full"); },
    readEvents: () => store.readEvents(),
    updateEvents: (change) => store.updateEvents(change),
    eraseEvents: () => store.eraseEvents(),
  };
  await opened({}, store); // installs the policy
  const reporter = await opened({}, broken);
  await assert.rejects(reporter.report(RECORD), StoreError);
  assert.equal((await store.read()).totals.recent.length, 0);
  assert.equal(await (await opened({}, store)).status(), "ready");
});

test("w-event: one report in every w windows, in the device's slot", async () => {
  const clock = new Clock();
  const reporter = await opened({ guarantee: { kind: "w-event", windows: 4 }, lineage_epsilon: "1" }, new MemoryStore(), clock);
  await setPolicy(reporter.store, { ...policy, span_epsilon: "100" });
  const periods: number[] = [];
  for (let window = 0; window < 40; window++) {
    clock.at(window * WINDOW + 30);
    for (let again = 0; again < 2; again++) {
      const report = await reporter.report(RECORD);
      if (report) periods.push(report.period);
    }
  }
  assert.equal(periods.length, 10);
  assert.equal(new Set(periods.map((period) => period % 4)).size, 1);
  clock.at(0);
  assert.equal(await reporter.report(RECORD), null);
});

test("another w-event plan of the lineage counts until the longer span of windows is over", async () => {
  const store = new MemoryStore();
  const clock = new Clock();
  const of = (windows: number) => ({ name: `w${windows}`, guarantee: { kind: "w-event", windows } });
  const [two, three] = [await opened(of(2), store, clock), await opened(of(3), store, clock)];
  const secret = unhex((await store.read()).secret);
  const slots = [(await place(two.plan, secret)).slot, (await place(three.plan, secret)).slot];
  const window = [0, 1, 2, 3, 4, 5].find((w) => w % 2 === slots[0] && (w + 4) % 3 === slots[1])!;
  clock.at(window * WINDOW);
  assert.ok(await two.report(RECORD));
  clock.at((window + 1) * WINDOW);
  assert.equal(await three.status(), "budget spent");
  // The report's window ended exactly three windows ago.
  clock.at((window + 4) * WINDOW);
  assert.equal(await three.status(), "ready");
});

test("before and after the plan", async () => {
  const clock = new Clock();
  const reporter = await opened({}, new MemoryStore(), clock);
  clock.at(-1);
  assert.equal(await reporter.status(), "not started");
  clock.at(100 * WINDOW);
  assert.equal(await reporter.status(), "over");
  assert.equal(await reporter.report(RECORD), null);
});

test("200 plans of fresh lineages get no more than the policy says", async () => {
  const store = new MemoryStore();
  const clock = new Clock();
  let made = 0;
  for (let number = 0; number < 200; number++) {
    clock.at((number % 7) * WINDOW * (number % 2 ? 1 : 3));
    const reporter = await opened({ lineage_name: `l${number}` }, store, clock);
    if (await reporter.report(RECORD)) made++;
    else assert.equal(await reporter.status(), "span epsilon");
  }
  assert.equal(made, 8);
  clock.now += 366 * 86_400_000;
  const later = { start: START + 367 * 86_400 - WINDOW, expires: START + 400 * 86_400 - WINDOW };
  clock.now = (later.start + 5) * 1000;
  const reporter = await Reporter.open(
    await operator.sign({ ...later, lineage_name: "next year" }, START + 10 ** 9), store, { clock: clock.read });
  assert.ok(await reporter.report(RECORD));
});

test("a clock that goes back frees nothing", async () => {
  const store = new MemoryStore();
  const clock = new Clock();
  clock.now += 50 * WINDOW * 1000;
  await setPolicy(store, { ...policy, span_epsilon: "1", span_days: 1 });
  assert.ok(await (await Reporter.open(await operator.sign({}), store, { clock: clock.read })).report(RECORD));
  clock.now -= 40 * WINDOW * 1000;
  const other = await Reporter.open(await operator.sign({ lineage_name: "b" }), store, { clock: clock.read });
  assert.equal(await other.status(), "span epsilon");
});

test("children: the smallest answered lineage epsilon binds, and continued lineages count", async () => {
  const store = new MemoryStore();
  const first = await opened({ lineage_epsilon: "1.5", epsilon: "1" }, store);
  assert.ok(await first.report(RECORD));
  const child = await opened({ name: "child", epsilon: "1", lineage_epsilon: "100" }, store);
  assert.equal(await child.status(), "budget spent");
  const small = await opened({ name: "small", epsilon: "0.5", lineage_epsilon: "100" }, store);
  assert.ok(await small.report(RECORD));
  const moved = await opened({ lineage_name: "new", epsilon: "0.1", lineage_epsilon: "50", continues: [first.plan.lineage] }, store);
  assert.equal(await moved.status(), "budget spent");
});

test("an unsigned plan is refused unless it is allowed by name, and cannot use up a signed lineage", async () => {
  const clock = new Clock();
  const store = new MemoryStore();
  const signed = await opened({}, store, clock);
  const raw = unsigned({ lineage: signed.plan.lineage });
  await assert.rejects(Reporter.open(raw, store, { clock: clock.read }), { reason: "unsigned" });
  const reporter = await Reporter.open(raw, store, { clock: clock.read, allowUnsigned: true });
  assert.ok(await reporter.report(RECORD));
  assert.equal(await signed.status(), "ready");
  assert.equal((await signed.remaining()).span, "7");
});

test("bytes that are not canonical are no plan, signed or not", async () => {
  const clock = new Clock();
  const spaced = utf8(JSON.stringify(document(), null, 1));
  await assert.rejects(Reporter.open(spaced, new MemoryStore(), { clock: clock.read, allowUnsigned: true }), /canonical/);
  for (const odd of [{ analysis: false }, { early: true }, { lineage_epsilon: "" }]) {
    const raw = utf8(canonical(document(odd)));
    await assert.rejects(Reporter.open(raw, new MemoryStore(), { clock: clock.read, allowUnsigned: true }), /canonical/);
  }
});

test("a policy is installed once", async () => {
  const store = new MemoryStore();
  await opened({}, store);
  const wider = { ...policy, span_epsilon: "100" };
  await assert.rejects(Reporter.open(await operator.sign(), store, { policy: wider, clock: new Clock().read }), /another policy/);
  await setPolicy(store, wider);
  assert.equal((await store.read()).policy?.span_epsilon, "100");
});

test("an application states its policy at every start, and a new root is taken", async () => {
  const store = new MemoryStore();
  const other = await Operator.make();
  const generations = [];
  for (const each of [operator, operator, other]) {
    await setPolicy(store, { roots: [each.root] });
    await Reporter.open(await each.sign(), store, { clock: new Clock().read });
    generations.push((await store.read()).generation);
  }
  assert.deepEqual(generations, [1, 1, 2]);
});

test("a certificate that ends, ends the plan on the device", async () => {
  const clock = new Clock();
  const reporter = await Reporter.open(await operator.sign({}, START + 60), new MemoryStore(), { policy, clock: clock.read });
  clock.at(61);
  assert.equal(await reporter.status(), "refused");
  assert.equal(await reporter.refusal(), "expired_certificate");
  assert.equal(await reporter.report(RECORD), null);
});

test("withdraw stops everything and keeps the ledger; rejoin frees nothing", async () => {
  const store = new MemoryStore();
  const reporter = await opened({}, store);
  await reporter.report(RECORD, { keep: true });
  await withdraw(store);
  const other = await opened({ lineage_name: "b" }, store);
  assert.equal(await other.status(), "withdrawn");
  assert.equal(await other.report(RECORD), null);
  assert.equal((await store.read()).waiting.length, 0);
  await rejoin(store);
  assert.equal(await reporter.status(), "already reported");
  assert.equal(await other.status(), "ready");
});

test("history lists what left", async () => {
  const clock = new Clock();
  const store = new MemoryStore();
  const reporter = await opened({}, store, clock);
  const report = (await reporter.report(RECORD))!;
  const [sent] = await history(store);
  assert.equal(sent!.value, report.json);
  assert.deepEqual(sent!.attributes, await reporter.asked());
  assert.equal(sent!.owner, "Example Ltd");
  assert.equal(sent!.epsilon, "1");
  assert.equal(sent!.remains, "7");
  assert.equal(sent!.when, START);
});

test("silence does not depend on the record, and every record gives a report", async () => {
  const records = [
    {}, { colour: 1, size: null }, { colour: true, size: 2n }, { colour: "\ud800", size: [] },
    { get colour() { throw new Error("no"); } }, new Map([["colour", "red"]]), Object.create({ colour: "red" }),
  ];
  for (const record of records) {
    const reporter = await opened();
    const report = await reporter.report(record as never);
    assert.ok(report);
    assert.equal(await reporter.report(record as never), null);
  }
});

test("labels: texts and integers count, anything else is `other`", async () => {
  const source = () => new GivenSource(new Uint8Array(64)); // zeros: the truth is reported
  const groups = [{ mechanism: { name: "grr", cells: 3 }, views: [{ attributes: [0], share: 1 }] }];
  const domain = [{ name: "a", labels: ["1", "2", "3"], other: "3" }];
  const raw = unsigned({ groups, domain, marginals: [[0]] });
  const cell = async (label: unknown) => {
    const options = { allowUnsigned: true, clock: new Clock().read, source: source() };
    return (await (await Reporter.open(raw, new MemoryStore(), options)).report({ a: label }))!.values["v"];
  };
  const expected: [unknown, number][] = [["1", 0], [1, 0], [2n, 1], [2.5, 2], [true, 2], [null, 2], ["x", 2], [{}, 2], [-0, 2]];
  for (const [label, code] of expected) assert.equal(await cell(label), code, String(label));
});

test("refusals are errors with a reason of the closed list", async () => {
  const refused = await opened({ epsilon: "5", lineage_epsilon: "5" }).catch((error) => error);
  assert.ok(refused instanceof PlanRefused);
  assert.equal(refused.reason, "report_epsilon");
});

test("check says what of a record is no value, and what is reported instead", async () => {
  const reporter = await opened({
    domain: [
      { name: "colour", labels: ["red", "green", "blue"], other: "blue" },
      { name: "size", labels: ["1", "2"] },
      { name: "n", kind: "number", edges: ["0", "1", "2"], unit: "", rounding: "grid", other: "?" },
      { name: "c", kind: "choices", options: ["x", "y"] },
    ],
  });
  const good = { colour: "red", size: 1, n: 0.5, c: ["x"] };
  assert.deepEqual(reporter.check(good), []);
  assert.deepEqual(reporter.check(new Map(Object.entries(good))), []);
  assert.deepEqual(reporter.check({ color: "red", colour: "Red", n: "1", c: ["z"] }), [
    "color: the plan has no such attribute",
    "colour: none of the labels; reported is blue",
    "size: no value; reported is a random label",
    "n: expected a finite number; reported is ?",
    "c: some options are unknown",
  ]);
  assert.deepEqual(reporter.check({ ...good, c: "x" }), ["c: expected a list of options; reported is a random label"]);
});
