/** What every store keeps to: the platform answers in time, with one kind of error, about one device. */

import type { DeviceState } from "../device/ledger.js";
import { StoreError } from "../errors.js";

/** How long a store waits for its lock, and then for each answer of the platform. */
export const LIMIT_MS = 30_000;

/** What a call gives; a StoreError where it fails or does not answer in time. The call itself may go on. */
export async function inTime<T>(what: string, milliseconds: number, call: () => Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new StoreError(`${what} gives no answer; nothing is reported`)), milliseconds);
  });
  try {
    return await Promise.race([call(), late]);
  } catch (error) {
    throw error instanceof DOMException ? new StoreError(`${what}: ${error.name}: ${error.message}`) : error;
  } finally {
    clearTimeout(timer);
  }
}

/** The device that a store has met. */
export class Met {
  private secret: string | undefined;

  /** Throws a StoreError where the store was of another device before; without a state it is a new device. */
  check(state: DeviceState | undefined): void {
    if (this.secret !== undefined && this.secret !== state?.secret) {
      throw new StoreError("the device's state is gone, or of another device than before; nothing is reported");
    }
    this.secret = state?.secret;
  }
}
