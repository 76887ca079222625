/** The store of Node: several processes, processes that are killed, files that were lost or replaced. */

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, beforeEach, test } from "node:test";
import { FileStore, Gateway, Reporter, Sender, StoreError } from "../src/node.js";
import { takenOver } from "../src/stores/file_lock.js";
import { TestGateway } from "./server.js";
import { Operator, START } from "./support.js";

const DEVICE = new URL("../tools/device.mjs", import.meta.url).pathname;
const RECORD = { colour: "red", size: 1 };
const NOW = START * 1000;
const operator = await Operator.make();
const folders: string[] = [];
let folder: string;
let path: string;
let envelope: string;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "edge-"));
  folders.push(folder);
  path = join(folder, "device");
  envelope = join(folder, "envelope");
  writeFileSync(envelope, await operator.sign());
});

after(() => folders.forEach((each) => rmSync(each, { recursive: true })));

function device(task: string): ChildProcess {
  const given = [DEVICE, path, envelope, operator.root, String(NOW), task];
  return spawn(process.execPath, ["--no-warnings", ...given], { stdio: ["ignore", "pipe", "inherit"] });
}

async function said(child: ChildProcess): Promise<string> {
  let text = "";
  for await (const part of child.stdout!) text += String(part);
  return text.trim();
}

async function reporter(store = new FileStore(path)) {
  return Reporter.open(readFileSync(envelope), store, { policy: { roots: [operator.root] }, clock: () => NOW });
}

test("of several processes one reports", async () => {
  const answers = await Promise.all(Array.from({ length: 5 }, () => said(device("report"))));
  assert.equal(answers.filter((answer) => answer.startsWith("{")).length, 1);
  assert.equal(answers.filter((answer) => answer === "already reported").length, 4);
});

test("a device that is killed between spending and sending sends the same report later", async () => {
  const made = await said(device("die"));
  assert.ok(made.startsWith("{"));
  assert.equal(await said(device("report")), "already reported");
  const server = await TestGateway.start();
  try {
    const sender = new Sender(new Gateway(server.base), new FileStore(path), { clock: () => NOW });
    assert.equal((await sender.deliver()).taken, 1);
    assert.equal(server.lines.length, 1);
    assert.equal(JSON.stringify(JSON.parse(server.lines[0]!).report), made);
  } finally {
    await server.close();
  }
});

test("a device that is killed while it writes keeps every state that it was promised", async () => {
  for (let run = 0; run < 8; run++) {
    const child = device("count");
    let promised = 0;
    const lines = createInterface({ input: child.stdout! });
    lines.on("line", (line) => {
      promised = Number(line);
      if (promised % 7 === run % 7) setTimeout(() => child.kill("SIGKILL"), (run * 1.7) % 5);
    });
    await once(lines, "close");
    const state = await new FileStore(path).read();
    assert.ok(promised > 0 && state.generation >= promised && state.generation <= promised + 1);
  }
  assert.deepEqual(readdirSync(folder).filter((name) => name.includes(".after.")), []);
});

test("the lock of a killed process is taken over, by one of those who try", async () => {
  const child = device("hold");
  await once(child.stdout!, "data");
  child.kill("SIGKILL");
  await once(child, "exit");
  assert.ok(existsSync(`${path}.lock`));
  const answers = await Promise.all([device("report"), device("report")].map(said));
  assert.deepEqual(answers.map((answer) => answer[0]).sort(), ["a", "{"]);
  assert.ok(!existsSync(`${path}.lock`));
});

test("who comes late to a dead holder's lock does not take it from its successor", async () => {
  const lock = join(folder, "lock");
  const draft = join(folder, "draft");
  writeFileSync(lock, JSON.stringify({ token: "successor" }));
  writeFileSync(draft, JSON.stringify({ token: "late" }));
  assert.equal(await takenOver(lock, draft, "late", { token: "dead" }), false);
  assert.equal(JSON.parse(readFileSync(lock, "utf8")).token, "successor");
  writeFileSync(lock, JSON.stringify({ token: "dead" }));
  writeFileSync(`${lock}.after.dead`, "somebody else is about to");
  assert.equal(await takenOver(lock, draft, "late", { token: "dead" }), false);
  rmSync(`${lock}.after.dead`);
  assert.equal(await takenOver(lock, draft, "late", { token: "dead" }), true);
});

test("the lock of a process that lives is waited for", async () => {
  const child = device("hold");
  await once(child.stdout!, "data");
  let done = false;
  const reading = new FileStore(path).read().then(() => (done = true));
  await new Promise((resume) => setTimeout(resume, 200));
  assert.equal(done, false);
  child.kill("SIGKILL");
  await reading;
});

test("a store that is gone, older or damaged is an error, and nothing is reported", async () => {
  const first = await reporter();
  copyFileSync(path, `${path}.old`);
  assert.ok(await first.report(RECORD));
  const current = readFileSync(path);
  const refuses = async (why: RegExp) => {
    await assert.rejects(first.report(RECORD), (error) => error instanceof StoreError && why.test(error.message));
    await assert.rejects(reporter(), StoreError);
  };
  copyFileSync(`${path}.old`, path);
  await refuses(/older copy/);
  rmSync(path);
  await refuses(/is gone/);
  for (const at of [0, 64, 65, 90, current.length - 1]) {
    const damaged = Buffer.from(current);
    damaged[at]! ^= 1;
    writeFileSync(path, damaged);
    await refuses(/damaged/);
  }
  writeFileSync(path, current.subarray(0, 40));
  await refuses(/damaged/);
  writeFileSync(path, current);
  assert.equal(await first.status(), "already reported");
});

test("a flush that fails is an error, and the report does not leave", async () => {
  const first = await reporter();
  const handle = await open(path);
  const kind = Object.getPrototypeOf(handle) as { sync: () => Promise<void> };
  await handle.close();
  const { sync } = kind;
  // The lock, the new file, its directory, the mark, its directory.
  for (let failing = 1; failing <= 5; failing++) {
    let flushes = 0;
    kind.sync = function () {
      if (++flushes === failing) return Promise.reject(Object.assign(new Error("EIO"), { code: "EIO" }));
      return sync.call(this);
    };
    try {
      await assert.rejects(first.store.update((state) => ({ ...state })), StoreError);
    } finally {
      kind.sync = sync;
    }
    assert.equal(flushes, failing);
  }
  assert.ok(await first.report(RECORD));
});

test("a device that was set up does not start anew", async () => {
  await assert.rejects(reporter(new FileStore(path, { create: false })), /gone/);
  await assert.rejects(reporter(new FileStore(join(folder, "missing", "device"))), StoreError);
});

test("only the owner reads the state, and no secret stands in an error", async () => {
  await (await reporter()).report(RECORD);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const { secret } = await new FileStore(path).read();
  writeFileSync(path, readFileSync(path, "utf8").replace("calmstream-edge-1", "calmstream-edge-2"));
  const error = await new FileStore(path).read().catch(String);
  assert.equal(String(error).includes(secret), false);
});

test("a ledger is where it was after a change of directory or of a link", async () => {
  const directory = process.cwd();
  const [home, other, link] = ["home", "other", "link"].map((name) => join(folder, name)) as [string, string, string];
  mkdirSync(home);
  mkdirSync(other);
  symlinkSync(home, link);
  try {
    process.chdir(home);
    const first = await reporter(new FileStore("relative"));
    const linked = await reporter(new FileStore(join(link, "linked")));
    assert.ok(await first.report(RECORD));
    assert.ok(await linked.report(RECORD));
    process.chdir(other);
    rmSync(link);
    symlinkSync(other, link);
    assert.equal(await first.report(RECORD), null);
    assert.equal(await linked.report(RECORD), null);
    assert.deepEqual(readdirSync(other), []);
    const gone = join(folder, "gone");
    mkdirSync(gone);
    process.chdir(gone);
    rmSync(gone, { recursive: true });
    assert.throws(() => new FileStore("relative"), (error) => error instanceof StoreError && /absolute/.test(error.message));
  } finally {
    process.chdir(directory);
  }
});

test("a store that has met a device accepts no other", async () => {
  const first = await reporter();
  assert.ok(await first.report(RECORD));
  for (const each of [path, `${path}.mark`]) rmSync(each);
  await assert.rejects(first.report(RECORD), (error) => error instanceof StoreError && /gone/.test(error.message));
  await new FileStore(path).read();
  await assert.rejects(first.report(RECORD), (error) => error instanceof StoreError && /another device/.test(error.message));
});

test("two names of one store share its lock and its ledger", async () => {
  await reporter();
  const link = join(folder, "link");
  symlinkSync(path, link);
  const both = [await reporter(new FileStore(link)), await reporter()];
  const made = await Promise.all(both.map((each) => each.report(RECORD)));
  assert.equal(made.filter((report) => report).length, 1);
  assert.equal(readFileSync(link, "utf8"), readFileSync(path, "utf8"));
  assert.ok(!existsSync(`${link}.lock`) && !existsSync(`${link}.mark`));
});
