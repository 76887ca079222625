/** The recorder: it counts what happens on a device, as the plan says, and reports about it. */

import type { Store } from "../stores/store.js";
import { withdraw } from "./control.js";
import { DAY, add, amount, countsOn, drop, fit, newBook, put, recordOf, setState, stateValue, type Book, type Documents } from "./events.js";
import { windowAt } from "./ledger.js";
import type { DeviceRecord } from "./perturb.js";
import type { Report } from "./report.js";
import { Reporter, type ReporterOptions } from "./reporter.js";

const WRITE_MS = 10_000;
const MAX_WAITING = 4_096;
const MAX_LINEAGES = 8;

type Noted = { event: string; day: number; values: [number, number, number, number] };

/** What was noted and is not written yet. */
class Waiting {
  readonly events = new Map<string, Noted>();
  readonly states = new Map<string, ReturnType<typeof stateValue>>();
  readonly dropped = new Map<string, number>();

  drop(reason: string): void {
    this.dropped.set(reason, (this.dropped.get(reason) ?? 0) + 1);
  }
}

/**
 * Counts events and keeps states, and makes a device's reports from them.
 *
 * The plan says with the field `from` of an attribute what is taken from which event or state; an
 * attribute without it is the state of its own name. Everything stays on the device, in at most 64 KiB
 * for each lineage, beside the ledger. A record is about complete days (UTC) before the window of the report. What is
 * counted never changes whether or when the device reports. A crash loses the events of the last 10
 * seconds at most, and never a day.
 */
export class Recorder {
  /** Why what was noted could not be written lately; empty while it can. It waits. */
  trouble = "";
  private waiting = new Waiting();
  private known = new Set<string>();
  private kept = new Map<string, string>();
  private withdrawals = 0;
  private writing: Promise<unknown> = Promise.resolve();
  private writtenAt: number;
  private readonly events: ReadonlySet<string>;
  private readonly states: ReadonlySet<string>;
  private readonly days: number;

  private constructor(
    /** States `status`, `remaining` and `refusal`. */
    readonly reporter: Reporter,
    private readonly store: Store,
    private readonly clock: () => number,
  ) {
    const { domain, window } = reporter.plan;
    const recorded = domain.map((each) => each.recorded ?? { name: each.field, take: undefined, days: 0 });
    this.events = new Set(recorded.filter((each) => each.take).map((each) => each.name));
    this.states = new Set(recorded.filter((each) => !each.take).map((each) => each.name));
    this.days = Math.max(0, ...recorded.map((each) => each.days)) + Math.ceil(window / DAY) + 2;
    this.writtenAt = clock();
  }

  /** As `Reporter.open`. */
  static async open(envelope: Uint8Array | string, store: Store, options: ReporterOptions = {}): Promise<Recorder> {
    const reporter = await Reporter.open(envelope, store, options);
    const recorder = new Recorder(reporter, store, options.clock ?? Date.now);
    recorder.withdrawals = (await store.read()).withdrawals;
    await store.readEvents(); // an error that lasts is said at once
    return recorder;
  }

  /**
   * Count an event that happened now. No argument causes an error; the result need not be awaited.
   *
   * What the plan does not name, and values that are no numbers within 10^15, are dropped and counted.
   */
  async note(event: string, value: number | bigint = 1): Promise<void> {
    const now = this.clock();
    const number = amount(value);
    if (!this.events.has(event)) return this.waiting.drop("unplanned");
    if (number === undefined) return this.waiting.drop("value");
    const day = Math.floor(now / (1000 * DAY));
    const key = `${day} ${event}`;
    const before = this.waiting.events.get(key);
    if (!before && this.waiting.events.size >= MAX_WAITING) return this.waiting.drop("room");
    const [n, total, largest] = before?.values ?? [0, 0, number];
    this.waiting.events.set(key, { event, day, values: [n + 1, total + number, Math.max(largest, number), number] });
    const since = now - this.writtenAt;
    if (!this.known.has(key) || since < 0 || since >= WRITE_MS) await this.write(now);
  }

  /**
   * Set a state: a label, a number, or a list of options; null or undefined for no value.
   *
   * A value that is none of these, or longer than 1,024 bytes, leaves the state without one.
   */
  async set(state: string, value: unknown): Promise<void> {
    const now = this.clock();
    if (!this.states.has(state)) return this.waiting.drop("unplanned");
    await this.forgetErased();
    const kept = stateValue(value);
    if (kept === undefined && value !== null && value !== undefined) this.waiting.drop("value");
    const text = JSON.stringify(kept) ?? "";
    if (this.kept.get(state) === text) return;
    this.kept.set(state, text);
    this.waiting.states.set(state, kept);
    await this.write(now);
  }

  /** What a report would be about now: values by field. It never leaves the device. */
  record(): Promise<Record<string, string | number | string[]>> {
    return this.recordIn(windowAt(this.reporter.plan, this.clock()));
  }

  /** The device's report, or null when it must not report now; see `Reporter.report`. */
  report(options: { keep?: boolean } = {}): Promise<Report | null> {
    return this.reporter.reportFor((window): Promise<DeviceRecord> => this.recordIn(window), options);
  }

  /** Write what was noted; for pages and programs that end. */
  async flush(): Promise<void> {
    await this.write(this.clock());
  }

  /** Erase all that was recorded, and stop all reports until `rejoin`. */
  async withdraw(): Promise<void> {
    await this.writing;
    this.waiting = new Waiting();
    await withdraw(this.store);
    await this.forgetErased();
  }

  /**
   * How much was not recorded, by reason: `unplanned`, the plan does not name it; `value`, no number or no
   * value of a state; `clock`, the clock was behind a day that was counted; `room`, no room was left.
   */
  async dropped(): Promise<Record<string, number>> {
    return (await this.book()).dropped;
  }

  private async recordIn(window: number) {
    await this.write(this.clock());
    return recordOf(await this.book(), this.reporter.plan, window);
  }

  /** What is kept, with what waits because it could not be written. */
  private async book(): Promise<Book> {
    await this.writing;
    await this.forgetErased();
    // What cannot be read counts as nothing: the device reports all the same.
    const stored = await this.store.readEvents().catch((error: unknown): Documents => {
      this.trouble = String(error);
      return {};
    });
    return this.merged(stored, this.waiting)[this.reporter.plan.lineage]!;
  }

  /** Write what waits, after what is being written; what cannot be written waits on. */
  private write(now: number): Promise<void> {
    this.writtenAt = now;
    if (this.known.size >= MAX_WAITING) this.known.clear();
    for (const key of this.waiting.events.keys()) this.known.add(key);
    const done = this.writing.then(() => this.writeNow());
    this.writing = done.catch(() => undefined);
    return done;
  }

  private async writeNow(): Promise<void> {
    let { waiting } = this;
    if (waiting.events.size + waiting.states.size + waiting.dropped.size === 0) return;
    this.waiting = new Waiting();
    let written: Documents | undefined;
    try {
      await this.store.updateEvents(async (stored) => {
        // Looked at under the lock, so that nothing is written after a withdrawal has erased it.
        const { withdrawn, withdrawals } = await this.store.read();
        if (this.forgetBefore(withdrawals)) waiting = new Waiting();
        written = withdrawn ? {} : this.merged(stored, waiting);
        return written;
      });
    } catch (error) {
      this.trouble = error instanceof Error ? error.message : String(error); // nobody awaits a note
      // The disk can have taken what it then could not confirm.
      const stored = await this.store.readEvents().catch(() => undefined);
      if (!written || JSON.stringify(stored) !== JSON.stringify(written)) return this.rejoin(waiting);
    }
    this.trouble = "";
    if (Object.keys(written ?? {}).length === 0) this.forgetKnown();
  }

  /** Put what could not be written before what was noted since. */
  private rejoin(earlier: Waiting): void {
    const { events, states, dropped } = this.waiting;
    for (const [key, { event, day, values: [n, total, largest, last] }] of events) {
      const before = earlier.events.get(key)?.values ?? [0, 0, largest];
      earlier.events.set(key, { event, day, values: [n + before[0], total + before[1], Math.max(largest, before[2]), last] });
    }
    for (const [state, value] of states) earlier.states.set(state, value);
    for (const [reason, times] of dropped) earlier.dropped.set(reason, times + (earlier.dropped.get(reason) ?? 0));
    this.waiting = earlier;
  }

  /** Forget what the person has erased by another door, also if they take part again. */
  private async forgetErased(): Promise<void> {
    const state = await this.store.read().catch(() => undefined); // the next write says what is wrong
    if (state && this.forgetBefore(state.withdrawals)) this.waiting = new Waiting();
  }

  /** Forget what is known from before a withdrawal; whether there was one. */
  private forgetBefore(withdrawals: number): boolean {
    if (withdrawals === this.withdrawals) return false;
    this.withdrawals = withdrawals;
    this.forgetKnown();
    return true;
  }

  private forgetKnown(): void {
    this.known.clear();
    this.kept.clear();
  }

  private merged(stored: Documents, waiting: Waiting): Record<string, Book> {
    const { lineage } = this.reporter.plan;
    const books = Object.entries(structuredClone(stored) as Record<string, Book>);
    const book = books.find(([name]) => name === lineage)?.[1] ?? newBook();
    for (const { event, day, values } of waiting.events.values()) {
      if (countsOn(book, day)) add(book, event, day, values);
      else drop(book, "clock", values[0]);
    }
    for (const [state, value] of waiting.states) setState(book, state, value);
    for (const [reason, times] of waiting.dropped) drop(book, reason, times);
    fit(book, this.events, this.states, this.days);
    const others = books.filter(([name]) => name !== lineage).sort(([, a], [, b]) => (a.latest ?? 0) - (b.latest ?? 0));
    const merged = Object.fromEntries(others.slice(1 - MAX_LINEAGES));
    put(merged, lineage, book);
    return merged;
  }
}
