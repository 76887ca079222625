/** Keeps a device's state in one file, for Node. */

import { constants } from "node:fs";
import { open, readFile, realpath, rename, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { DeviceState } from "../device/ledger.js";
import { decodeState, encodeState, newDevice } from "../device/state.js";
import { StoreError } from "../errors.js";
import { withLock } from "./file_lock.js";
import type { Change, Store } from "./store.js";

/**
 * Keeps the state in one small file, mode 0600, replaced whole and flushed to disk.
 *
 * Beside it, `<file>.mark` holds the number of the last state that was written: a file that was deleted,
 * or replaced by an older copy, is an error as long as the mark is the latest. Who replaces both makes
 * the device report again: keep both out of backups and images.
 */
export class FileStore implements Store {
  /** `create: false` makes a missing file an error, for devices that know that they were set up. */
  constructor(
    private readonly path: string,
    private readonly options: { create?: boolean } = {},
  ) {}

  read(): Promise<DeviceState> {
    return this.update((state) => state);
  }

  async update(change: Change): Promise<DeviceState> {
    try {
      const path = await realPath(this.path);
      return await withLock(`${path}.lock`, () => this.changed(path, change));
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      throw typeof code === "string" ? new StoreError(`${this.path}: ${code}; nothing is reported`) : error;
    }
  }

  private async changed(path: string, change: Change): Promise<DeviceState> {
    const text = await readIfThere(path);
    const marked = Number((await readIfThere(`${path}.mark`)) ?? 0);
    if (!Number.isSafeInteger(marked)) throw new StoreError(`${path}.mark is damaged`);
    if (text === undefined && (this.options.create === false || marked > 0)) {
      throw new StoreError(`${path} is gone, and this device has used it: put it back`);
    }
    const state = text === undefined ? newDevice() : await decodeState(text);
    if (state.generation < marked) {
      throw new StoreError(`${path} is an older copy: this device would report again; put the latest file back`);
    }
    const changed = change(state);
    if (changed === state && text !== undefined) return state;
    const next = { ...changed, generation: state.generation + 1 };
    await writeDurably(path, await encodeState(next));
    await writeDurably(`${path}.mark`, `${next.generation}\n`);
    return next;
  }
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** The file behind symbolic links, so that all names share one lock; its directory exists. */
async function realPath(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return join(await realpath(dirname(path)), basename(path));
  }
}

/** Replace a file whole: on return its new content and its name are on disk. */
export async function writeDurably(path: string, text: string): Promise<void> {
  const draft = `${path}.new`;
  const file = await open(draft, constants.O_CREAT | constants.O_WRONLY | constants.O_TRUNC, 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  try {
    await rename(draft, path);
  } catch (error) {
    await unlink(draft).catch(() => undefined);
    throw error;
  }
  const directory = await open(dirname(path), constants.O_RDONLY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
