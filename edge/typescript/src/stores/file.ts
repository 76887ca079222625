/** Keeps a device's state in one file, for Node. */

import { constants, realpathSync } from "node:fs";
import { open, readFile, rename, unlink } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { DeviceState } from "../device/ledger.js";
import type { Documents } from "../device/events.js";
import { decodeEvents, decodeState, newDevice, sealed } from "../device/state.js";
import { StoreError } from "../errors.js";
import { withLock } from "./file_lock.js";
import { LIMIT_MS, Met, inTime } from "./limits.js";
import type { Change, Store } from "./store.js";

/**
 * Keeps the state in one small file, mode 0600, replaced whole and flushed to disk.
 *
 * Beside it, `<file>.mark` holds the number of the last state that was written: a file that was deleted,
 * or replaced by an older copy, is an error as long as the mark is the latest. Who replaces both makes
 * the device report again: keep both out of backups and images.
 *
 * The file is fixed by the constructor: a later change of the working directory or of a symbolic link
 * leads to no other ledger. What recorders keep is in `<file>.events`, with a lock of its own.
 */
export class FileStore implements Store {
  private readonly path: string;
  private readonly met = new Met();

  /** `create: false` makes a missing file an error, for devices that know that they were set up. */
  constructor(
    path: string,
    private readonly options: { create?: boolean } = {},
  ) {
    this.path = realPath(path);
  }

  read(): Promise<DeviceState> {
    return this.update((state) => state);
  }

  update(change: Change): Promise<DeviceState> {
    return this.alone(this.path, () => this.changed(this.path, change));
  }

  readEvents(): Promise<Documents> {
    return this.answered(async () => decodeEvents(await readIfThere(`${this.path}.events`)));
  }

  updateEvents(change: (stored: Documents) => Promise<Documents>): Promise<void> {
    const path = `${this.path}.events`;
    return this.alone(path, async () => {
      const stored = await readIfThere(path);
      const changed = await change(await decodeEvents(stored));
      if (stored !== undefined || Object.keys(changed).length > 0) await writeDurably(path, await sealed(changed));
    });
  }

  eraseEvents(): Promise<void> {
    const path = `${this.path}.events`;
    return this.alone(path, async () => {
      if ((await readIfThere(path)) !== undefined) await writeDurably(path, await sealed({}));
    });
  }

  /** Run work with nobody else writing the file. */
  private alone<T>(path: string, work: () => Promise<T>): Promise<T> {
    // The lock has a limit of its own.
    return this.answered(() => inTime(path, 2 * LIMIT_MS, () => withLock(`${path}.lock`, work)));
  }

  private async answered<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
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
    const before = text === undefined ? undefined : await decodeState(text);
    this.met.check(before);
    const state = before ?? newDevice();
    if (state.generation < marked) {
      throw new StoreError(`${path} is an older copy: this device would report again; put the latest file back`);
    }
    const changed = change(state);
    if (changed === state && before) return state;
    const next = { ...changed, generation: state.generation + 1 };
    await writeDurably(path, await sealed(next));
    this.met.check(next);
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

/** The file behind symbolic links, so that all names share one lock; what does not exist has none. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== "ENOENT") throw new StoreError(`${path}: ${code}`);
  }
  try {
    const absolute = resolve(path);
    return dirname(absolute) === absolute ? absolute : join(realPath(dirname(absolute)), basename(absolute));
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw new StoreError(`${path}: the working directory is gone; give an absolute path`);
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
