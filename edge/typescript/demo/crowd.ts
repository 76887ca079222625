/** Made-up people report from this page: each has its own device, and all reports go to the gateway. */

import { hex } from "../src/bytes.js";
import { MemoryStore, Reporter } from "../src/index.js";
import { fresh } from "../src/random.js";
import { line } from "../src/send/gateway.js";
import { person, type Answers } from "./people.js";

/** People in one request. */
const AT_ONCE = 50;

export interface Where {
  gateway: string;
  digest: string;
  envelope: Uint8Array;
  roots: string[];
}

/**
 * Let people report and return the answers of those whose reports the gateway took.
 *
 * Throws an Error where the gateway does not answer or takes nothing.
 */
export async function reports({ gateway, digest, envelope, roots }: Where): Promise<Answers[]> {
  const lines: string[] = [];
  const people: Answers[] = [];
  for (let i = 0; i < AT_ONCE; i++) {
    const answers = person();
    const reporter = await Reporter.open(envelope, new MemoryStore(), { policy: { roots } });
    const report = await reporter.report(answers);
    if (report === null) throw new Error(`made-up people cannot report: ${await reporter.status()}`);
    lines.push(line({ id: hex(fresh(16)), report: report.json }));
    people.push(answers);
  }
  const answer = await fetch(`${gateway}/v1/plans/${digest}/reports`, {
    method: "POST",
    headers: { "content-type": "application/x-ndjson" },
    credentials: "omit",
    body: lines.join(""),
  });
  if (!answer.ok) throw new Error(`the gateway answers ${answer.status}`);
  const { results } = (await answer.json()) as { results: { result: string }[] };
  return people.filter((_, i) => results[i]?.result === "accepted");
}
