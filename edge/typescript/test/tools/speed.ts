/** Reports a second under Node: `npm run speed`. One process, one core. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { windowAt } from "../../src/device/ledger.js";
import { perturb } from "../../src/device/perturb.js";
import { place } from "../../src/device/place.js";
import { encode } from "../../src/device/report.js";
import { FileStore, MemoryStore, Reporter, readPlan, type Store } from "../../src/node.js";
import { SystemSource, fresh } from "../../src/random.js";
import { unsigned, START, WINDOW } from "../support.js";

const SECONDS = 1;

const MECHANISMS: Record<string, { fields: Record<string, unknown>; sizes: number[] }> = {
  grr: { fields: { cells: 64 }, sizes: [64] },
  oue: { fields: { cells: 64 }, sizes: [64] },
  sue: { fields: { cells: 64 }, sizes: [64] },
  olh: { fields: { cells: 64, buckets: 4, seed_bits: 32 }, sizes: [64] },
  "hadamard-coefficient": { fields: { cells: 2 }, sizes: [2] },
  "hadamard-response": { fields: { cells: 64 }, sizes: [64] },
  "hadamard-sketch": { fields: { cells: 64, hashes: 8, buckets: 256, seed: 1 }, sizes: [64] },
  "subset-selection": { fields: { cells: 64, size: 17 }, sizes: [64] },
  "product-grr": {
    fields: { cells: 64, axes: [4, 4, 4], blocks: [[0], [1], [2]], tables: [[0, 1]] }, sizes: [4, 4, 4],
  },
  "bloom-rr": { fields: { cells: 64, axes: [64], bits: 128, hashes: 4, tables: [[0]] }, sizes: [64] },
};

/** How often something can be done in a second. */
async function rate(work: () => unknown): Promise<number> {
  for (let warm = 0; warm < 200; warm++) await work();
  const start = performance.now();
  let done = 0;
  while (performance.now() - start < SECONDS * 1000) {
    for (let i = 0; i < 50; i++) await work();
    done += 50;
  }
  return done / ((performance.now() - start) / 1000);
}

function show(name: string, each: number): void {
  console.log(`${name.padEnd(44)}${Math.round(each).toLocaleString("en").padStart(12)}`);
}

function plan(name: string, { fields, sizes }: { fields: Record<string, unknown>; sizes: number[] }) {
  const domain = sizes.map((size, j) => ({ name: `a${j}`, labels: Array.from({ length: size }, (_, code) => String(code)) }));
  const views = [{ attributes: sizes.map((_, j) => j), share: 1 }];
  return readPlan(unsigned({ domain, groups: [{ mechanism: { name, ...fields }, views }], marginals: [[0]] }));
}

async function device(store: Store): Promise<() => Promise<unknown>> {
  let now = START * 1000;
  const changes = { expires: START + WINDOW * 2 ** 24, guarantee: { kind: "w-event", windows: 2 }, lineage_epsilon: "4" };
  const options = { policy: { span_epsilon: "999999999", span_days: 1 }, allowUnsigned: true, clock: () => now };
  const reporter = await Reporter.open(unsigned(changes), store, options);
  let made = 0;
  return async () => {
    now += WINDOW * 1000;
    if (await reporter.report({ colour: "red", size: 1 })) made++;
    if (made === 0 && now > START * 1000 + 10 * WINDOW * 1000) throw new Error("the device does not report");
  };
}

console.log("perturb and encode, 64 cells, epsilon 1".padEnd(44) + "reports/s".padStart(12));
for (const [name, spec] of Object.entries(MECHANISMS)) {
  const read = await plan(name, spec);
  const source = new SystemSource();
  const record = Object.fromEntries(read.domain.map((attribute) => [attribute.name, "1"]));
  const where = await place(read, fresh(16));
  const period = windowAt(read, START * 1000);
  show(name, await rate(async () => encode(read, where.group, period, where.view, await perturb(read, where, record, source))));
}

const folder = mkdtempSync(join(tmpdir(), "edge-speed-"));
console.log("\na device with ledger, totals and history".padEnd(45) + "reports/s".padStart(12));
// Every second window is the device's own.
show("memory store", (await rate(await device(new MemoryStore()))) / 2);
show("file store, durable", (await rate(await device(new FileStore(join(folder, "device"))))) / 2);
rmSync(folder, { recursive: true });
