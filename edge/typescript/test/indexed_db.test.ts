/** The store of browsers where the browser misbehaves; how it behaves in Chromium stands in test/browser. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { IndexedDbStore, StoreError } from "../src/index.js";

const LIMIT = 200;
const navigatorBefore = Object.getOwnPropertyDescriptor(globalThis, "navigator");
let held: number;
let granted: boolean;

/** Web Locks of one page, and a database whose `open` is given. */
function platform(open: (name: string) => unknown): void {
  Object.assign(globalThis, { indexedDB: { open } });
  const request = async (_: string, { signal }: { signal: AbortSignal }, work: () => Promise<unknown>) => {
    if (!granted) await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    held++;
    try {
      return await work();
    } finally {
      held--;
    }
  };
  Object.defineProperty(globalThis, "navigator", { configurable: true, value: { locks: { request } } });
}

beforeEach(() => {
  held = 0;
  granted = true;
});

afterEach(() => {
  Reflect.deleteProperty(globalThis, "indexedDB");
  if (navigatorBefore) Object.defineProperty(globalThis, "navigator", navigatorBefore);
  else Reflect.deleteProperty(globalThis, "navigator");
});

async function failsWith(why: RegExp): Promise<void> {
  await assert.rejects(new IndexedDbStore("device", LIMIT).read(), (error) => error instanceof StoreError && why.test(error.message));
  assert.equal(held, 0, "the lock is free again");
}

test("a database that never answers is an error, and the lock is free again", async () => {
  const requests: { onsuccess?: () => void; result?: { close: () => void } }[] = [];
  platform(() => {
    requests.push({});
    return requests.at(-1);
  });
  await failsWith(/IndexedDB gives no answer; nothing is reported/);
  await failsWith(/IndexedDB gives no answer/);
  let closed = 0;
  for (const request of requests) {
    request.result = { close: () => closed++ };
    request.onsuccess!();
  }
  assert.equal(closed, 2, "a connection that opens too late is closed");
});

test("a transaction that never answers is an error, and the lock is free again", async () => {
  platform(() => {
    const transaction = { objectStore: () => ({ get: () => ({}) }) };
    const request: { onsuccess?: () => void; result: object } = { result: { transaction: () => transaction, close: () => undefined } };
    queueMicrotask(() => request.onsuccess!());
    return request;
  });
  await failsWith(/IndexedDB gives no answer/);
});

test("a database that cannot be opened is a StoreError, thrown or answered", async () => {
  const denied = new DOMException("denied", "SecurityError");
  platform(() => {
    throw denied;
  });
  await failsWith(/IndexedDB: SecurityError: denied/);
  platform(() => {
    const request: { onerror?: () => void; error: DOMException } = { error: denied };
    queueMicrotask(() => request.onerror!());
    return request;
  });
  await failsWith(/IndexedDB: SecurityError: denied/);
});

test("a lock that a frozen page holds is an error after the limit", async () => {
  platform(() => assert.fail("not opened without the lock"));
  granted = false;
  // Node does not wait for the timer of an AbortSignal alone.
  const alive = setInterval(() => undefined, LIMIT);
  await failsWith(/lock of the store: TimeoutError/).finally(() => clearInterval(alive));
});
