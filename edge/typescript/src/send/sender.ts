/** Delivery: a report waits in the store until a gateway takes it or its window can no longer count it. */

import { withdrawals } from "../device/control.js";
import type { Waiting } from "../device/ledger.js";
import type { DeviceRecord } from "../device/perturb.js";
import type { Report } from "../device/report.js";
import type { Reporter } from "../device/reporter.js";
import { fresh } from "../random.js";
import type { Store } from "../stores/store.js";
import { line, type Gateway } from "./gateway.js";

/** Most bytes of all requests that browsers carry on after a page is gone. */
export const MAX_KEEPALIVE_BYTES = 64 << 10;
const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 300_000;

export interface SenderOptions {
  /** Milliseconds since the epoch. */
  clock?: () => number;
  /** Waits so many milliseconds; tests replace it. */
  sleep?: (milliseconds: number) => Promise<void>;
  /** Most attempts of one call of `deliver`. */
  attempts?: number;
}

/** What one call of `deliver` did. */
export interface Delivery {
  taken: number;
  /** Reasons of the gateway; these reports are gone. */
  refused: string[];
  /** Reports whose time was over before a gateway took them; these are gone. */
  lost: number;
  /** Reports that still wait. */
  waiting: number;
  /** Why reports wait; empty where none does. */
  trouble: string;
}

export class Sender {
  private unsent: readonly Waiting[] = [];
  /** How often the person had withdrawn when `unsent` was read. */
  private read = 0;
  /** Reports that left since the page was last visible. */
  private readonly left = new Set<string>();
  private running: Promise<Delivery> | null = null;
  private readonly clock: () => number;
  private readonly sleep: (milliseconds: number) => Promise<void>;
  private readonly attempts: number;

  constructor(
    private readonly gateway: Gateway,
    private readonly store: Store,
    options: SenderOptions = {},
  ) {
    this.clock = options.clock ?? Date.now;
    this.sleep = options.sleep ?? ((milliseconds) => new Promise((done) => setTimeout(done, milliseconds)));
    this.attempts = options.attempts ?? 6;
  }

  /**
   * Make a report and deliver it. The ledger is written first, then the report leaves.
   *
   * The report is null where the device must not report now; `reporter.status()` says why.
   */
  async send(reporter: Reporter, record: DeviceRecord): Promise<{ report: Report | null; delivery: Delivery }> {
    const report = await reporter.report(record, { keep: true });
    await this.refresh();
    // A delivery that runs already may have passed the new report over.
    await this.running?.catch(() => undefined);
    return { report, delivery: await this.deliver() };
  }

  /**
   * Deliver what waits, with up to six rounds of retries; a second call joins one that runs.
   *
   * Call it at the start of a page or process, after each report, and some times a day. Answers of a gateway
   * are no errors. Throws StoreError.
   */
  deliver(): Promise<Delivery> {
    this.running ??= this.run().finally(() => (this.running = null));
    return this.running;
  }

  /**
   * When the page is hidden or left, send what waits (at most 64 KiB) without waiting for the answer; when it
   * is shown again or online again, deliver. Returns a function that ends this.
   *
   * What was sent so stays in the store, and the next `deliver` sends it again under the same id: it counts once.
   */
  deliverOnHide(target: EventTarget & { document?: { visibilityState: string } } = globalThis as unknown as Window): () => void {
    const hide = () => this.leave();
    const show = () => {
      this.left.clear();
      this.deliver().catch(() => undefined); // the next call says why
    };
    const changed = () => (target.document?.visibilityState === "hidden" ? hide() : show());
    const heard = { visibilitychange: changed, pagehide: hide, online: show };
    for (const [name, hear] of Object.entries(heard)) target.addEventListener(name, hear);
    return () => {
      for (const [name, hear] of Object.entries(heard)) target.removeEventListener(name, hear);
    };
  }

  private leave(): void {
    if (withdrawals(this.store) !== this.read) return;
    let bytes = MAX_KEEPALIVE_BYTES;
    for (const each of this.unsent) {
      const size = line(each).length;
      // A page is hidden before it goes away; what left then need not leave again.
      if (size > bytes || this.left.has(each.id)) continue;
      bytes -= size;
      this.left.add(each.id);
      // It stays in the store: the next page sends it again under the same id.
      this.gateway.postLast(each);
    }
  }

  private async run(): Promise<Delivery> {
    const delivery: Delivery = { taken: 0, refused: [], lost: 0, waiting: 0, trouble: "" };
    for (let attempt = 1; ; attempt++) {
      await this.refresh();
      const after = await this.round(delivery);
      if (after === null || attempt >= this.attempts) break;
      await this.sleep(after + delay(attempt));
    }
    return { ...delivery, waiting: this.unsent.length };
  }

  private async refresh(): Promise<void> {
    const read = withdrawals(this.store);
    this.unsent = (await this.store.read()).waiting;
    this.read = read;
  }

  /** Try every report once; returns the least time to another round, null where this call makes none. */
  private async round(delivery: Delivery): Promise<number | null> {
    const done = new Set<string>();
    let again: number | null = null;
    delivery.trouble = "";
    try {
      for (const each of this.unsent) {
        // Another tab may have delivered it meanwhile, or the person may have withdrawn.
        if (!(await this.store.read()).waiting.some(({ id }) => id === each.id)) continue;
        if (each.until <= this.clock()) {
          delivery.lost++;
          done.add(each.id);
          continue;
        }
        const outcome = await this.gateway.post(each);
        const after = outcome.kind === "later" ? outcome.after ?? 0 : Infinity;
        if (after <= LONGEST_DELAY_MS) again = Math.max(again ?? 0, after);
        if (outcome.kind === "taken") delivery.taken++;
        else if (outcome.kind !== "refused") delivery.trouble = outcome.reason;
        if (outcome.kind === "refused") delivery.refused.push(outcome.reason);
        if (outcome.kind === "taken" || outcome.kind === "refused") done.add(each.id);
      }
    } finally {
      await this.remove(done);
    }
    return again;
  }

  private async remove(done: ReadonlySet<string>): Promise<void> {
    const left = (waiting: readonly Waiting[]) => waiting.filter(({ id }) => !done.has(id));
    if (done.size) await this.store.update((state) => ({ ...state, waiting: left(state.waiting) }));
    await this.refresh();
  }
}

/** A delay that doubles with every attempt, half of it at random. */
function delay(attempt: number): number {
  const whole = Math.min(FIRST_DELAY_MS * 2 ** (attempt - 1), LONGEST_DELAY_MS);
  return whole / 2 + (whole / 2) * (new DataView(fresh(4).buffer).getUint32(0) / 2 ** 32);
}
