/**
 * One holder at a time among the processes of a machine, by a lock file.
 *
 * The lock file names its holder. It is made whole under another name and linked, so it is never torn.
 * A holder that died leaves the file behind; who finds it takes the lock over. A second file, named
 * after the dead holder, admits one of those who try.
 */

import { randomUUID } from "node:crypto";
import { link, open, readFile, readlink, rename, unlink } from "node:fs/promises";
import { hostname } from "node:os";
import { StoreError } from "../errors.js";
import { LIMIT_MS } from "./limits.js";

const PAUSE_MS = 20;

interface Holder {
  token: string;
  pid: number;
  /** When the process began: process numbers are used again. */
  began: string;
  /** Boot and process namespace, or the host's name: elsewhere a process number says nothing. */
  machine: string;
}

const waiting = new Map<string, Promise<unknown>>();

/** Run work while nobody else holds the lock of this path. Throws StoreError where it stays taken. */
export async function withLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  const before = waiting.get(path) ?? Promise.resolve();
  const own = before.catch(() => undefined).then(() => locked(path, work));
  waiting.set(path, own);
  try {
    return await own;
  } finally {
    if (waiting.get(path) === own) waiting.delete(path);
  }
}

async function locked<T>(path: string, work: () => Promise<T>): Promise<T> {
  const holder = await here();
  const draft = `${path}.${holder.token}`;
  await writeSynced(draft, JSON.stringify(holder));
  try {
    await acquire(path, draft, holder.token);
  } finally {
    await unlink(draft).catch(() => undefined);
  }
  try {
    return await work();
  } finally {
    await unlink(path);
  }
}

async function acquire(path: string, draft: string, token: string): Promise<void> {
  const deadline = Date.now() + LIMIT_MS;
  for (;;) {
    if (await made(() => link(draft, path))) return;
    const found = await holderOf(path);
    if (found && (await isDead(found)) && (await takenOver(path, draft, token, found))) return;
    if (Date.now() > deadline) {
      throw new StoreError(`${path} stays locked; if no process uses the store any more, delete this file`);
    }
    await new Promise((done) => setTimeout(done, PAUSE_MS));
  }
}

/** Replace a dead holder's lock file; only one process at a time gets past the second file. */
export async function takenOver(path: string, draft: string, token: string, dead: Pick<Holder, "token">): Promise<boolean> {
  const claim = `${path}.after.${dead.token}`;
  if (!(await made(() => link(draft, claim)))) return false;
  try {
    if ((await holderOf(path))?.token !== dead.token) return false;
    await rename(draft, path);
    return (await holderOf(path))?.token === token;
  } finally {
    await unlink(claim);
  }
}

/** Whether a file could be made under a name that was free. */
async function made(make: () => Promise<void>): Promise<boolean> {
  try {
    await make();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

async function writeSynced(path: string, text: string): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function holderOf(path: string): Promise<Holder | null> {
  try {
    return JSON.parse(await readFile(path, "utf8")) as Holder;
  } catch {
    return null; // released meanwhile, or unreadable: then it stays locked
  }
}

async function here(): Promise<Holder> {
  return { token: randomUUID(), pid: process.pid, began: await began(process.pid), machine: await machine() };
}

async function isDead(holder: Holder): Promise<boolean> {
  if (holder.machine !== (await machine())) return false;
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
  return holder.began !== (await began(holder.pid));
}

/** When a process began, in ticks since the machine started; empty where nobody says. */
async function began(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
}

async function machine(): Promise<string> {
  const boot = await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => "");
  const namespace = await readlink("/proc/self/ns/pid").catch(() => "");
  return `${hostname()} ${boot.trim()} ${namespace}`;
}
