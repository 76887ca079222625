/**
 * Reads plans for the comparison with Python: `node read.mjs PLANS ANSWERS`, one plan a line, base64.
 *
 * The answer is the digest and whether the bytes are canonical, or why the plan is refused.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { fromBase64 } from "../../src/bytes.js";
import { PlanError } from "../../src/errors.js";
import { readAny } from "../../src/plan/plan.js";

const [plans, answers] = process.argv.slice(2) as [string, string];
const lines: string[] = [];
for (const spelled of readFileSync(plans, "utf8").split("\n").slice(0, -1)) {
  try {
    const { plan, canonical } = await readAny(fromBase64(spelled)!);
    lines.push(`${plan.digest} ${canonical ? "canonical" : "other"}`);
  } catch (error) {
    if (!(error instanceof PlanError)) throw error;
    lines.push(`refused ${JSON.stringify(error.message)}`);
  }
}
writeFileSync(answers, lines.map((line) => `${line}\n`).join(""));
