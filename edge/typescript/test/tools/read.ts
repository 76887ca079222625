/**
 * Reads plans for the comparison with Python: `node read.mjs PLANS ANSWERS`, one plan a line, base64.
 *
 * The answer is the digest and whether the bytes are canonical, or why the plan is refused.
 */

import { createReadStream, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fromBase64, type Bytes } from "../../src/bytes.js";
import { PlanError } from "../../src/errors.js";
import { readAny } from "../../src/plan/plan.js";

async function answer(raw: Bytes): Promise<string> {
  try {
    const { plan, canonical } = await readAny(raw);
    return `${plan.digest} ${canonical ? "canonical" : "other"}`;
  } catch (error) {
    if (!(error instanceof PlanError)) throw error;
    return `refused ${JSON.stringify(error.message)}`;
  }
}

const [plans, answers] = process.argv.slice(2) as [string, string];
const lines: string[] = [];
for await (const spelled of createInterface({ input: createReadStream(plans) })) {
  lines.push(await answer(fromBase64(spelled)!));
}
writeFileSync(answers, lines.map((line) => `${line}\n`).join(""));
