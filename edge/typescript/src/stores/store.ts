/** Where a device keeps its secret and its ledger. */

import type { DeviceState } from "../device/ledger.js";
import { newDevice } from "../device/state.js";

/** Returns the new state; returns its argument itself where nothing changes. May be called again. */
export type Change = (state: DeviceState) => DeviceState;

/**
 * Keeps one device's state, for several tabs or processes at once.
 *
 * A store that holds nothing is a new device: it gets a secret, stored before it is used. A store whose
 * content cannot be read is an error and never a new device, which would report again.
 */
export interface Store {
  /** The state. Throws StoreError. */
  read(): Promise<DeviceState>;
  /** Apply a change with nobody else writing; on return it is durable. Throws StoreError. */
  update(change: Change): Promise<DeviceState>;
}

/** Keeps the state for as long as the page or process lives: for tests. A device would report again. */
export class MemoryStore implements Store {
  constructor(private state: DeviceState = newDevice()) {}

  async read(): Promise<DeviceState> {
    return this.state;
  }

  async update(change: Change): Promise<DeviceState> {
    const changed = change(this.state);
    if (changed !== this.state) this.state = { ...changed, generation: this.state.generation + 1 };
    return this.state;
  }
}
