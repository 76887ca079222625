/**
 * A device in a process of its own: `node device.mjs STORE ENVELOPE ROOT MILLISECOND TASK`.
 *
 * `report` prints the report, or the status; `die` makes a report, prints it and is killed before it
 * could send; `hold` takes the store's lock, says so and waits; `count` writes for ever and prints
 * every generation that it was promised.
 */

import { readFileSync, writeSync } from "node:fs";
import { FileStore, Reporter } from "../../src/node.js";
import { withLock } from "../../src/stores/file_lock.js";

const [path, envelope, root, millisecond, task] = process.argv.slice(2) as [string, string, string, string, string];
const say = (text: string | number) => writeSync(1, `${text}\n`);
const store = new FileStore(path);

if (task === "hold") {
  await withLock(`${path}.lock`, async () => {
    say("held");
    await new Promise((done) => setTimeout(done, 60_000));
  });
} else if (task === "count") {
  for (;;) say((await store.update((state) => ({ ...state }))).generation);
} else {
  const clock = () => Number(millisecond);
  const reporter = await Reporter.open(readFileSync(envelope), store, { policy: { roots: [root] }, clock });
  const report = await reporter.report({ colour: "red", size: 1 }, { keep: true });
  say(report ? report.json : await reporter.status());
  if (task === "die") process.kill(process.pid, "SIGKILL");
}
