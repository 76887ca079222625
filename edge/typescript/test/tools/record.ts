/**
 * Lives lives of a recorder for the comparison with Python: `node record.mjs LIVES ANSWERS [many]`, one JSON object a
 * line.
 *
 * tests/support/typescript/recorded.py describes a life. The answer is a list with one entry a step.
 */

import { createHash, createHmac } from "node:crypto";
import { createReadStream, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fromBase64, unhex } from "../../src/bytes.js";
import {
  GivenSource, MemoryStore, Recorder, StoreError, rejoin, withdraw, type Documents, type PolicyInput,
} from "../../src/index.js";

interface Step {
  kind: "note" | "set" | "record" | "report" | "flush" | "restart" | "fail" | "withdraw" | "rejoin" | "return";
  now: number;
  name: string;
  value: unknown;
  when: "before" | "after";
}

interface Life {
  secret: string;
  random: string;
  policy: PolicyInput;
  plan: string;
  steps: Step[];
}

/** A store whose disk fails before or after it has written what recorders keep. */
class FailingStore extends MemoryStore {
  fails: "before" | "after" | "" = "";

  override async updateEvents(change: (stored: Documents) => Promise<Documents>): Promise<void> {
    const when = this.fails;
    this.fails = "";
    if (when === "before") throw new StoreError("made up");
    await super.updateEvents(change);
    if (when === "after") throw new StoreError("made up");
  }
}

class Device {
  private readonly store = new FailingStore();
  private readonly source: GivenSource;
  private recorder!: Recorder;
  private now: number;

  constructor(private readonly life: Life) {
    this.source = new GivenSource(unhex(life.random));
    this.now = 1_700_000_000_000;
  }

  async live(): Promise<unknown[]> {
    await this.store.update((state) => ({ ...state, secret: this.life.secret }));
    this.recorder = await this.opened();
    const answers: unknown[] = [];
    for (const step of this.life.steps) answers.push((await this.answer(step)) ?? {});
    if (this.source.left) throw new Error("random bytes were left over");
    return answers;
  }

  /** The recorder of a new process; what the former had not written is lost. */
  private opened(): Promise<Recorder> {
    const { plan, policy } = this.life;
    return Recorder.open(fromBase64(plan)!, this.store, {
      policy, source: this.source, allowUnsigned: true, clock: () => this.now,
    });
  }

  private async answer({ kind, now, name, value, when }: Step): Promise<unknown> {
    this.now = now;
    const { recorder } = this;
    if (kind === "record") return { record: await recorder.record(), dropped: await recorder.dropped() };
    if (kind === "report") return { report: (await recorder.report())?.json ?? null };
    if (kind === "note") return recorder.note(name, value as number);
    if (kind === "set") return recorder.set(name, value);
    if (kind === "flush") return recorder.flush();
    if (kind === "rejoin") return rejoin(this.store);
    if (kind === "return") return withdraw(this.store).then(() => rejoin(this.store));
    if (kind === "restart") this.recorder = await this.opened();
    if (kind === "fail") this.store.fails = when;
    if (kind === "withdraw") {
      this.store.fails = "";
      return recorder.withdraw();
    }
    return undefined;
  }
}

/** WebCrypto changes threads for each of the hundreds of digests of a life; this is the same function without. */
function hashAtOnce(): void {
  const bytes = (found: Buffer) => new Uint8Array(found).buffer;
  const subtle = crypto.subtle as unknown as Record<string, (...given: never[]) => Promise<unknown>>;
  subtle.digest = async (_: string, data: Uint8Array) => bytes(createHash("sha256").update(data).digest());
  subtle.importKey = async (_: string, key: Uint8Array) => key;
  subtle.sign = async (_: object, key: Uint8Array, data: Uint8Array) =>
    bytes(createHmac("sha256", key).update(data).digest());
}

const [lives, answers, many] = process.argv.slice(2) as [string, string, string?];
if (many) hashAtOnce();
const lines: string[] = [];
for await (const text of createInterface({ input: createReadStream(lives) })) {
  lines.push(`${JSON.stringify(await new Device(JSON.parse(text) as Life).live())}\n`);
}
writeFileSync(answers, lines.join(""));
