/** The device's side: a record goes in, one perturbed report comes out, or nothing at all. */

import { hex, unhex, utf8, copied } from "../bytes.js";
import { spelled } from "../decimal.js";
import { PlanRefused, type Refusal } from "../errors.js";
import type { Plan } from "../plan/model.js";
import { SystemSource, fresh, type Source } from "../random.js";
import type { Store } from "../stores/store.js";
import { readAccepted, standing, type AcceptedPlan } from "./acceptance.js";
import { install } from "./control.js";
import { appended, attributeNames, shortened, valueFields, type Sent } from "./history.js";
import { entriesOf, spend, standingInLineage, windowAt, type DeviceState } from "./ledger.js";
import { checkRecord, perturb, type DeviceRecord } from "./perturb.js";
import { place, type Place } from "./place.js";
import { policyOf, type Policy, type PolicyInput } from "./policy.js";
import { encode, type Report } from "./report.js";
import type { Status } from "./status.js";
import { fits, present, remaining } from "./totals.js";
import { kept } from "./waiting.js";

export interface ReporterOptions {
  /**
   * What the application allows, for an empty store; a store with another policy is an error. Without it, the
   * stored or the strict one. An application whose policy may change calls `setPolicy` before, and gives none here.
   */
  policy?: PolicyInput;
  /** Take a plan that nobody signed: for demonstrations and tests. */
  allowUnsigned?: boolean;
  /** Milliseconds since the epoch. */
  clock?: () => number;
  /** Perturbs; leave it alone outside tests. */
  source?: Source;
}

/** Turns a device's records into reports within the plan's guarantee and the device's policy. */
export class Reporter {
  private constructor(
    private readonly accepted: AcceptedPlan,
    readonly store: Store,
    private readonly clock: () => number,
    private readonly source: Source,
  ) {}

  /**
   * Read a plan for a device.
   *
   * Throws PlanRefused where the device does not accept it, InvalidInput where the store holds another
   * policy, StoreError where it cannot be read or written, UnsupportedError where the runtime has no Ed25519.
   * The ledger stays as it was.
   */
  static async open(envelope: Uint8Array | string, store: Store, options: ReporterOptions = {}): Promise<Reporter> {
    const { policy, allowUnsigned = false, clock = Date.now, source = new SystemSource() } = options;
    const state = await install(store, policy);
    const raw = typeof envelope === "string" ? utf8(envelope) : copied(envelope);
    const accepted = await readAccepted(raw, policyIn(state).roots, allowUnsigned);
    const reporter = new Reporter(accepted, store, clock, source);
    const refused = reporter.standing(state, clock());
    if (refused) throw refused;
    return reporter;
  }

  /** The plan that asks. */
  get plan(): Plan {
    return this.accepted.plan;
  }

  /** Who answers for the plan: by the certificate, or by an unsigned plan's own words. */
  get owner(): string {
    return this.accepted.owner;
  }

  /** Names of the attributes that this device is asked about, and no others. */
  async asked(): Promise<string[]> {
    const where = await place(this.plan, unhex((await this.store.read()).secret));
    return this.attributes(where);
  }

  /** Whether `report` would report, and if not, why; the same for every record. */
  async status(now: number = this.clock()): Promise<Status> {
    const state = await this.store.read();
    return this.statusIn(state, (await place(this.plan, unhex(state.secret))).slot, now);
  }

  /** Why the device does not accept the plan now, though it did; null where it does. */
  async refusal(now: number = this.clock()): Promise<Refusal | null> {
    return this.standing(await this.store.read(), now)?.reason ?? null;
  }

  /** What the plan's operator can still spend under the policy, as decimal strings. */
  async remaining(now: number = this.clock()): Promise<{ span: string; ever: string | null }> {
    return this.remainingIn(await this.store.read(), now);
  }

  /**
   * What of a record is no value of its attribute, and what would be reported instead, in words.
   *
   * For tests and development: a report never says so, and is made whatever the record is.
   */
  check(record: DeviceRecord): string[] {
    return checkRecord(this.plan, record, new SystemSource());
  }

  /**
   * The device's report, or null when it must not report now.
   *
   * Call it at every start and some times in each window: a call that gives null reads the store and writes
   * nothing. Which of the two depends on time, secret and ledger only. Every record gives a report: an unknown
   * label counts as the attribute's `other`, or as a random one where it has none. When this returns a
   * report, the ledger already says durably that it was made: send it, again if need be, and never
   * draw it anew. With `keep`, the report also waits in the store, from where a Sender delivers it.
   */
  report(record: DeviceRecord, options: { keep?: boolean } = {}): Promise<Report | null> {
    return this.reportFor(async () => record, options);
  }

  /** As `report`, with a record that is made for the window that it is given; only when the device may report. */
  async reportFor(record: (window: number) => Promise<DeviceRecord>, { keep = false } = {}): Promise<Report | null> {
    const now = this.clock();
    const state = await this.store.read();
    const where = await place(this.plan, unhex(state.secret));
    if (this.statusIn(state, where.slot, now) !== "ready") return null;
    const window = windowAt(this.plan, now);
    const report = await this.made(await record(window), where, window);
    const sent = { ...this.sent(where, now), ...(await valueFields(report.json)) };
    const waits = keep ? this.waiting(report) : null;
    let claimed = false;
    await this.store.update((latest) => {
      // A change may be tried more than once; the last try counts.
      claimed = latest.secret === state.secret && this.statusIn(latest, where.slot, now) === "ready";
      if (!claimed) return latest;
      const after = spend(latest, this.plan, report.period, this.accepted.root, Math.floor(now / 1000));
      const { span, ever } = this.remainingIn(after, now);
      const entry: Sent = { ...sent, remains: span, remains_ever: ever };
      const waiting = waits ? kept(after.waiting, waits) : after.waiting;
      return { ...after, history: appended(after.history, entry), waiting };
    });
    return claimed ? report : null;
  }

  private async made(record: DeviceRecord, where: Place, period: number): Promise<Report> {
    const values = await perturb(this.plan, where, record, this.source);
    const { group, view } = where;
    return { group, period, view, values, json: encode(this.plan, group, period, view, values) };
  }

  private sent(where: Place, now: number) {
    const { name, digest, purpose, epsilon } = this.plan;
    return {
      plan: name,
      digest,
      purpose: shortened(purpose),
      owner: shortened(this.accepted.owner),
      root: this.accepted.root,
      attributes: attributeNames(this.attributes(where)),
      epsilon,
      when: Math.floor(now / 1000),
    };
  }

  private attributes({ group, view }: Place): string[] {
    return this.plan.groups[group]!.views[view]!.attributes.map((j) => this.plan.domain[j]!.name);
  }

  private waiting(report: Report) {
    const { digest, start, window, grace } = this.plan;
    // Half of the grace is the gateway's, for its own way to the log.
    const until = (start + (report.period + 1) * window) * 1000 + grace * 500;
    return { id: hex(fresh(16)), digest, report: report.json, until };
  }

  private statusIn(state: DeviceState, slot: number, now: number): Status {
    if (state.withdrawn) return "withdrawn";
    if (this.standing(state, now)) return "refused";
    const { root } = this.accepted;
    const found = standingInLineage(this.plan, slot, entriesOf(state, this.plan, root !== ""), now);
    if (found !== "ready") return found;
    return fits(state.totals, policyIn(state), root, this.plan.epsilon, Math.floor(now / 1000));
  }

  private standing(state: DeviceState, now: number): PlanRefused | null {
    return standing(this.accepted, policyIn(state), present(state.totals, Math.floor(now / 1000)));
  }

  private remainingIn(state: DeviceState, now: number): { span: string; ever: string | null } {
    const left = remaining(state.totals, policyIn(state), this.accepted.root, Math.floor(now / 1000));
    return { span: spelled(left.span), ever: left.ever && spelled(left.ever) };
  }
}

/** The policy in force: the strict default where the store has none. */
function policyIn(state: DeviceState): Policy {
  return state.policy ?? policyOf();
}
