/**
 * Answers cases of the comparison with Python: `node answer.mjs CASES ANSWERS`.
 *
 * The first line of CASES is a list of plans (base64). Every other line is a case: number of a plan,
 * secret, record, the random bytes to use (hexadecimal) and the time. The answer is the report as it
 * leaves, a tab, and how many random bytes were left over.
 */

import { createReadStream, createWriteStream } from "node:fs";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fromBase64, unhex } from "../../src/bytes.js";
import { windowAt } from "../../src/device/ledger.js";
import { perturb, type DeviceRecord } from "../../src/device/perturb.js";
import { place } from "../../src/device/place.js";
import { encode } from "../../src/device/report.js";
import type { Plan } from "../../src/plan/model.js";
import { readPlan } from "../../src/plan/plan.js";
import { GivenSource } from "../../src/random.js";

interface Case {
  plan: number;
  secret: string;
  record: DeviceRecord;
  random: string;
  now: number;
}

export async function answer(plan: Plan, each: Case): Promise<string> {
  const source = new GivenSource(unhex(each.random));
  const where = await place(plan, unhex(each.secret));
  const values = await perturb(plan, where, each.record, source);
  const period = windowAt(plan, each.now);
  if (plan.guarantee.windows > 1 && period % plan.guarantee.windows !== where.slot) return "another slot";
  return `${encode(plan, where.group, period, where.view, values)}\t${source.left}`;
}

const [cases, answers] = process.argv.slice(2) as [string, string];
const out = createWriteStream(answers);
let plans: Plan[] | undefined;
for await (const text of createInterface({ input: createReadStream(cases) })) {
  if (!plans) {
    plans = await Promise.all((JSON.parse(text) as string[]).map((raw) => readPlan(fromBase64(raw)!)));
    continue;
  }
  const each = JSON.parse(text) as Case;
  if (!out.write(`${await answer(plans[each.plan]!, each)}\n`)) await once(out, "drain");
}
out.end();
await once(out, "finish");
