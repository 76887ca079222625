/**
 * Lives lives for the comparison with Python: `node live.mjs LIVES ANSWERS`, one JSON object a line.
 *
 * A life has a secret, random bytes, policies, plans and steps (tests/support/typescript/scenarios.py). The
 * answer is a list with one entry a step, and the history at the end.
 */

import { createReadStream, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fromBase64, unhex } from "../../src/bytes.js";
import {
  GivenSource, InvalidInput, MemoryStore, PlanRefused, Reporter, history, rejoin, setPolicy, withdraw, type PolicyInput,
} from "../../src/index.js";

interface Step {
  kind: "report" | "open" | "withdraw" | "rejoin" | "policy";
  now: number;
  plan: number;
  policy: number;
  allow: boolean;
}

interface Life {
  secret: string;
  random: string;
  policies: PolicyInput[];
  plans: string[];
  steps: Step[];
}

class Device {
  private readonly store = new MemoryStore();
  private readonly source: GivenSource;
  private readonly reporters = new Map<number, Reporter>();
  private now = 0;

  constructor(private readonly life: Life) {
    this.source = new GivenSource(unhex(life.random));
  }

  async live(): Promise<unknown[]> {
    await this.store.update((state) => ({ ...state, secret: this.life.secret }));
    const answers: unknown[] = [];
    for (const step of this.life.steps) answers.push(await this.answer(step));
    if (this.source.left) throw new Error("random bytes were left over");
    return [...answers, { history: await history(this.store) }];
  }

  private async answer(step: Step): Promise<unknown> {
    this.now = step.now;
    if (step.kind === "withdraw") await withdraw(this.store);
    else if (step.kind === "rejoin") await rejoin(this.store);
    else if (step.kind === "policy") await setPolicy(this.store, this.life.policies[step.policy]!);
    else return this.report(step);
    return {};
  }

  private async report(step: Step): Promise<unknown> {
    try {
      const reporter = await this.reporter(step);
      const [status, refusal] = [await reporter.status(), await reporter.refusal()];
      const report = await reporter.report({ colour: "red", size: "m", flag: 1 });
      return { status, refusal, report: report && report.json, ...(await reporter.remaining()) };
    } catch (error) {
      if (error instanceof PlanRefused) return { refused: error.reason };
      if (error instanceof InvalidInput) return { refused: "another policy" };
      throw error;
    }
  }

  private async reporter(step: Step): Promise<Reporter> {
    const before = this.reporters.get(step.plan);
    if (before && step.kind === "report") return before;
    const policy = step.kind === "report" ? {} : { policy: this.life.policies[step.policy]! };
    const options = { ...policy, source: this.source, allowUnsigned: step.allow, clock: () => this.now };
    this.reporters.delete(step.plan);
    const opened = await Reporter.open(fromBase64(this.life.plans[step.plan]!)!, this.store, options);
    this.reporters.set(step.plan, opened);
    return opened;
  }
}

const [lives, answers] = process.argv.slice(2) as [string, string];
const lines: string[] = [];
for await (const text of createInterface({ input: createReadStream(lives) })) {
  lines.push(`${JSON.stringify(await new Device(JSON.parse(text) as Life).live())}\n`);
}
writeFileSync(answers, lines.join(""));
