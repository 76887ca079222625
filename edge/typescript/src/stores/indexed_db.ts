/** Keeps a device's state in a browser: IndexedDB with strict durability, one writer at a time by a Web Lock. */

import type { DeviceState } from "../device/ledger.js";
import type { Documents } from "../device/events.js";
import { decodeEvents, decodeState, newDevice, sealed } from "../device/state.js";
import { StoreError } from "../errors.js";
import { LIMIT_MS, Met, inTime } from "./limits.js";
import type { Change, Store } from "./store.js";

const TABLE = "device";
const STATE = "state";
const EVENTS = "events";

/**
 * Keeps the state in the browser's storage of this origin.
 *
 * A write is durable on return: a crash of browser or machine does not undo a spend whose report has
 * left. Where the browser cannot promise that, nothing is reported. The state lasts as long as the
 * storage: who clears the site's data makes a new device.
 */
export class IndexedDbStore implements Store {
  private readonly met = new Met();

  /** `limit`: how many milliseconds the browser has for the lock, and then for each answer. */
  constructor(
    private readonly name = "calmstream-edge",
    private readonly limit = LIMIT_MS,
  ) {}

  read(): Promise<DeviceState> {
    return this.update((state) => state);
  }

  update(change: Change): Promise<DeviceState> {
    return this.alone(STATE, (database) => this.changed(database, change));
  }

  readEvents(): Promise<Documents> {
    return this.alone(EVENTS, async (database) => decodeEvents(await this.answer(() => stored(database, EVENTS))));
  }

  updateEvents(change: (stored: Documents) => Promise<Documents>): Promise<void> {
    return this.alone(EVENTS, async (database) => {
      const before = await this.answer(() => stored(database, EVENTS));
      const changed = await change(await decodeEvents(before));
      if (before === undefined && Object.keys(changed).length === 0) return;
      const after = await sealed(changed);
      await this.answer(() => write(database, EVENTS, before, after));
    });
  }

  eraseEvents(): Promise<void> {
    return this.alone(EVENTS, async (database) => {
      const before = await this.answer(() => stored(database, EVENTS));
      if (before === undefined) return;
      const after = await sealed({});
      await this.answer(() => write(database, EVENTS, before, after));
    });
  }

  /** Run work with nobody else writing under the key. */
  private async alone<T>(key: string, work: (database: IDBDatabase) => Promise<T>): Promise<T> {
    const locks = globalThis.navigator?.locks;
    if (!locks || !globalThis.indexedDB) {
      throw new StoreError("this page has no Web Locks or no IndexedDB: it needs a secure context (https)");
    }
    const signal = AbortSignal.timeout(this.limit);
    // Whoever holds the lock has four answers to wait for.
    return inTime("the lock of the store", 5 * this.limit, () =>
      locks.request(`${this.name}/${key === STATE ? "lock" : key}`, { signal }, async () => {
        const database = await this.open();
        try {
          return await work(database);
        } finally {
          database.close();
        }
      }),
    );
  }

  private async changed(database: IDBDatabase, change: Change): Promise<DeviceState> {
    const text = await this.answer(() => stored(database, STATE));
    const before = text === undefined ? undefined : await this.answer(() => decodeState(text));
    this.met.check(before);
    const state = before ?? newDevice();
    const changed = change(state);
    if (changed === state && before) return state;
    const next = { ...changed, generation: state.generation + 1 };
    const after = await this.answer(() => sealed(next));
    await this.answer(() => write(database, STATE, text, after));
    this.met.check(next);
    return next;
  }

  private answer<T>(call: () => Promise<T>): Promise<T> {
    return inTime("IndexedDB", this.limit, call);
  }

  private async open(): Promise<IDBDatabase> {
    let late = false;
    const opening = () =>
      new Promise<IDBDatabase>((resolve, reject) => {
        const request = indexedDB.open(this.name, 1);
        request.onupgradeneeded = () => request.result.createObjectStore(TABLE);
        request.onsuccess = () => (late ? request.result.close() : resolve(request.result));
        request.onerror = () => reject(request.error);
      });
    try {
      return await this.answer(opening);
    } finally {
      late = true;
    }
  }
}

function stored(database: IDBDatabase, key: string): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const request = database.transaction(TABLE, "readonly").objectStore(TABLE).get(key);
    request.onsuccess = () => resolve(request.result as string | undefined);
    request.onerror = () => reject(request.error);
  });
}

/** Replace the text, if it is still what was read; resolves when the disk has it. */
function write(database: IDBDatabase, key: string, before: string | undefined, after: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(TABLE, "readwrite", { durability: "strict" });
    if (transaction.durability !== "strict") {
      transaction.abort();
      reject(new StoreError("this browser cannot promise that a write is durable; nothing is reported"));
      return;
    }
    let changedMeanwhile = false;
    const table = transaction.objectStore(TABLE);
    const request = table.get(key);
    request.onsuccess = () => {
      if (request.result === before) {
        table.put(after, key);
        return;
      }
      changedMeanwhile = true;
      transaction.abort();
    };
    transaction.oncomplete = () => resolve();
    transaction.onabort = () =>
      reject(
        changedMeanwhile
          ? new StoreError("the device's state was changed by somebody without the lock; nothing is reported")
          : (transaction.error ?? new StoreError("IndexedDB: the write was aborted")),
      );
  });
}
