/** What a recorder keeps under Node; that it counts as Python does is compared with generated lives. */

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { FileStore, MemoryStore, Recorder, StoreError, rejoin, withdraw, type Store } from "../src/node.js";
import { START, document, unsigned } from "./support.js";

const DAY = 86_400;
const FIRST = Math.ceil(START / DAY) * DAY;
const folder = mkdtempSync(join(tmpdir(), "edge-"));
after(() => rmSync(folder, { recursive: true }));

const number = { kind: "number", edges: ["0", "1", "1000000"], unit: "", rounding: "bin", below: false, above: true, other: "?" };
const taken = (take: string) => ({ ...number, name: take, from: { event: "open", take, over: "7d" } });
const plan = unsigned({
  domain: [...(document().domain as object[]), taken("count"), taken("days"), taken("sum")],
  start: FIRST, expires: FIRST + 100 * DAY, window: DAY,
});

class Device {
  now = FIRST * 1000;
  recorder!: Recorder;

  constructor(readonly store: Store) {}

  async opened(): Promise<this> {
    this.recorder = await Recorder.open(plan, this.store, { allowUnsigned: true, clock: () => this.now });
    return this;
  }

  async counted(day: number) {
    this.now = (FIRST + day * DAY) * 1000;
    const { count, days, sum } = await this.recorder.record();
    return [count, days, sum];
  }
}

test("notes that nobody awaits are counted, also after a restart", async () => {
  const path = join(folder, "notes");
  const device = await new Device(new FileStore(path)).opened();
  for (let i = 0; i < 1000; i++) void device.recorder.note("open", 0.5);
  await device.recorder.flush();
  assert.deepEqual(await (await new Device(new FileStore(path)).opened()).counted(1), [1000, 1, 500]);
});

test("recorders that share a store add up", async () => {
  const store = new FileStore(join(folder, "shared"));
  const devices = await Promise.all([1, 2, 3].map(() => new Device(store).opened()));
  await Promise.all(devices.flatMap(({ recorder }) => [recorder.note("open"), recorder.note("open"), recorder.flush()]));
  assert.deepEqual(await devices[0]!.counted(1), [6, 1, 6]);
});

test("withdrawing erases what was recorded, by any door", async () => {
  for (const erase of [(device: Device) => device.recorder.withdraw(), (device: Device) => withdraw(device.store)]) {
    const path = join(folder, "withdrawn");
    const device = await new Device(new FileStore(path)).opened();
    await device.recorder.note("open");
    await erase(device);
    await device.recorder.note("open");
    await device.recorder.flush();
    assert.doesNotMatch(readFileSync(`${path}.events`, "utf8"), /"open"/);
    assert.deepEqual(await device.counted(1), [0, 0, 0]);
    assert.equal(await device.recorder.report(), null);
    await rejoin(device.store);
    await device.recorder.note("open");
    assert.deepEqual(await device.counted(2), [1, 1, 1]);
    rmSync(path), rmSync(`${path}.events`), rmSync(`${path}.mark`);
  }
});

test("a withdrawal from a damaged store erases what was recorded", async () => {
  const path = join(folder, "unreadable");
  const device = await new Device(new FileStore(path)).opened();
  await device.recorder.note("open");
  await device.recorder.flush();
  writeFileSync(path, "{}");
  await assert.rejects(withdraw(new FileStore(path)), StoreError);
  assert.doesNotMatch(readFileSync(`${path}.events`, "utf8"), /"open"/);
});

test("nothing outlives a withdrawal after which the person takes part again", async () => {
  const store = new MemoryStore();
  const device = await new Device(store).opened();
  await device.recorder.note("open");
  await device.recorder.note("open"); // waits in memory
  await device.recorder.set("colour", "red");
  await device.recorder.note("unplanned");
  await withdraw(store);
  await rejoin(store);
  assert.deepEqual(await device.counted(1), [0, 0, 0]);
  assert.deepEqual(await device.recorder.dropped(), {});
  assert.equal((await device.recorder.record()).colour, undefined);
  await device.recorder.set("colour", "red");
  assert.equal((await device.recorder.record()).colour, "red");
});

test("what cannot be read is an error and stays as it is", async () => {
  const path = join(folder, "damaged");
  const device = await new Device(new FileStore(path)).opened();
  await device.recorder.note("open");
  const text = readFileSync(`${path}.events`, "utf8").replace("open", "shut");
  writeFileSync(`${path}.events`, text);
  await assert.rejects(new Device(device.store).opened(), StoreError);
  device.now += 1000 * DAY;
  await device.recorder.note("open");
  assert.match(device.recorder.trouble, /damaged/);
  assert.ok(await device.recorder.report(), "the device reports all the same");
  assert.equal(readFileSync(`${path}.events`, "utf8"), text);
  await withdraw(device.store);
  assert.deepEqual(await device.store.readEvents(), {});
});

test("a store that fails in its own way stops nobody, and nothing is lost", async () => {
  const store = new MemoryStore();
  const device = await new Device(store).opened();
  const update = store.updateEvents;
  store.updateEvents = () => Promise.reject(new DOMException("full", "QuotaExceededError"));
  await device.recorder.note("open");
  assert.equal(device.recorder.trouble, "full");
  store.updateEvents = update;
  assert.deepEqual(await device.counted(1), [1, 1, 1]);
});

test("a device without a recorder keeps nothing", async () => {
  const store = new FileStore(join(folder, "plain"));
  await store.read();
  await withdraw(store);
  assert.equal(existsSync(join(folder, "plain.events")), false);
});

test("no argument causes an error", async () => {
  const device = await new Device(new MemoryStore()).opened();
  const odd: unknown[] = [null, undefined, [], {}, "x".repeat(1e6), NaN, Infinity, 10n ** 400n, true, Symbol("s"), () => 1];
  for (const each of odd) {
    await device.recorder.note(each as string);
    await device.recorder.note("open", each as number);
    await device.recorder.set(each as string, 1);
    await device.recorder.set("colour", each);
  }
  assert.deepEqual(await device.counted(1), [1, 1, 1], "undefined stands for 1");
  const dropped = await device.recorder.dropped();
  assert.equal(dropped.unplanned, 2 * odd.length);
  assert.ok(JSON.stringify(await device.store.readEvents()).length < 500);
});
