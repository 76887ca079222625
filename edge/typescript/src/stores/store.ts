/** Where a device keeps its secret and its ledger. */

import type { Documents } from "../device/events.js";
import type { DeviceState } from "../device/ledger.js";
import { newDevice } from "../device/state.js";

/** Returns the new state; returns its argument itself where nothing changes. May be called again. */
export type Change = (state: DeviceState) => DeviceState;

/**
 * Keeps one device's state, for several tabs or processes at once.
 *
 * A store that holds nothing is a new device: it gets a secret, stored before it is used. A store whose
 * content cannot be read is an error and never a new device, which would report again.
 *
 * For a store of your own: state and documents are plain JSON, and a new device is `newDevice()`. `update` adds
 * 1 to `generation`; a state with a smaller one than was last written is an older copy, which is an error. A lock
 * keeps out all other writers from the read to the write, and what is written is durable, or `StoreError` is thrown.
 */
export interface Store {
  /** The state. Throws StoreError. */
  read(): Promise<DeviceState>;
  /** Apply a change with nobody else writing; on return it is durable. Throws StoreError. */
  update(change: Change): Promise<DeviceState>;
  /** What recorders keep, apart from the state; empty where they keep nothing. Throws StoreError. */
  readEvents(): Promise<Documents>;
  /** Replace it with no other recorder writing; on return it is durable. Throws StoreError. */
  updateEvents(change: (stored: Documents) => Promise<Documents>): Promise<void>;
  /** Erase it, also where it cannot be read; on return that is durable. Throws StoreError. */
  eraseEvents(): Promise<void>;
}

/** Keeps the state for as long as the page or process lives: for tests. A device would report again. */
export class MemoryStore implements Store {
  private events = "{}";
  private writing: Promise<void> = Promise.resolve();

  constructor(private state: DeviceState = newDevice()) {}

  async read(): Promise<DeviceState> {
    return this.state;
  }

  async update(change: Change): Promise<DeviceState> {
    const changed = change(this.state);
    if (changed !== this.state) this.state = { ...changed, generation: this.state.generation + 1 };
    return this.state;
  }

  async readEvents(): Promise<Documents> {
    return JSON.parse(this.events) as Documents;
  }

  async updateEvents(change: (stored: Documents) => Promise<Documents>): Promise<void> {
    const work = this.writing.then(async () => {
      this.events = JSON.stringify(await change(await this.readEvents()));
    });
    this.writing = work.catch(() => undefined);
    return work;
  }

  eraseEvents(): Promise<void> {
    this.writing = this.writing.then(() => void (this.events = "{}"));
    return this.writing;
  }
}
