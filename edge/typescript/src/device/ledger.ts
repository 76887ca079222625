/** What a device has spent, and whether it may report now: pure rules over plain values. */

import { above, add, decimal, least, sum, times, type Decimal } from "../decimal.js";
import type { Plan } from "../plan/model.js";
import type { Sent } from "./history.js";
import type { Policy } from "./policy.js";
import type { Status } from "./status.js";
import { added, type Totals } from "./totals.js";

/** A device's reports under one plan. */
export interface Spent {
  /** Number of the last window reported on, and when it ends in seconds since the epoch. */
  readonly window: number;
  readonly ends: number;
  readonly reports: number;
  readonly epsilon: string;
  /** Seconds that the plan's w windows last; 0 where the plan asks once. */
  readonly horizon: number;
  /** The plan's lineage epsilon, which binds later plans. */
  readonly bound: string;
}

/** Plan digest to what was spent under that plan. */
export type Entries = Readonly<Record<string, Spent>>;

/** A report that has been made and has not been taken by a gateway yet. */
export interface Waiting {
  /** Report id, 32 hexadecimal digits: chosen once, sent with every attempt. */
  readonly id: string;
  readonly digest: string;
  /** The report as it leaves, JSON. */
  readonly report: string;
  /** Millisecond since the epoch after which it is too late to send it. */
  readonly until: number;
}

/** All that a device keeps. */
export interface DeviceState {
  /** 16 bytes in hexadecimal, never sent. */
  readonly secret: string;
  /** Lineage to what was spent under its unsigned and its signed plans. */
  readonly lineages: Readonly<Record<string, Entries>>;
  readonly signed: Readonly<Record<string, Entries>>;
  readonly totals: Totals;
  readonly policy: Policy | null;
  readonly withdrawn: boolean;
  /** How often the person has withdrawn. */
  readonly withdrawals: number;
  readonly history: readonly Sent[];
  readonly waiting: readonly Waiting[];
  /** How often the state was written. */
  readonly generation: number;
}

function under(of: Readonly<Record<string, Entries>>, lineage: string): Entries {
  return Object.hasOwn(of, lineage) ? of[lineage]! : {};
}

/** What counts under a plan's lineage, with the lineages that the plan continues. */
export function entriesOf(state: DeviceState, plan: Plan, signed: boolean): Entries {
  const found: Record<string, Spent> = {};
  for (const lineage of plan.continues) {
    for (const [kept, of] of [["signed", state.signed], ["unsigned", state.lineages]] as const) {
      for (const [digest, spent] of Object.entries(under(of, lineage))) found[`${lineage}/${kept}/${digest}`] = spent;
    }
  }
  return { ...found, ...under(signed ? state.signed : state.lineages, plan.lineage) };
}

/** The state after one more report. `root` is empty for an unsigned plan; `now` is in seconds. */
export function spend(state: DeviceState, plan: Plan, window: number, root: string, now: number): DeviceState {
  const of = root ? state.signed : state.lineages;
  const entries = under(of, plan.lineage);
  const before = Object.hasOwn(entries, plan.digest) ? entries[plan.digest]!.reports : 0;
  const ends = plan.start + (window + 1) * plan.window;
  const bound = plan.lineageEpsilon;
  const spent: Spent = { window, ends, reports: before + 1, epsilon: plan.epsilon, horizon: horizon(plan), bound };
  const changed = { ...of, [plan.lineage]: { ...entries, [plan.digest]: spent } };
  const totals = added(state.totals, ends, plan.epsilon, root, now, state.policy);
  return root ? { ...state, signed: changed, totals } : { ...state, lineages: changed, totals };
}

function horizon(plan: Plan): number {
  return plan.guarantee.kind === "once" ? 0 : plan.guarantee.windows * plan.window;
}

/** Number of the window that contains a millisecond; negative before the start. */
export function windowAt(plan: Plan, milliseconds: number): number {
  return Math.floor((milliseconds - plan.start * 1000) / (plan.window * 1000));
}

/** Whether a device may report under its lineage. `now` is in milliseconds. */
export function standingInLineage(plan: Plan, slot: number, entries: Entries, now: number): Status {
  const window = windowAt(plan, now);
  const w = plan.guarantee.windows;
  if (window < 0) return "not started";
  if (window >= plan.windows) return "over";
  const own = Object.hasOwn(entries, plan.digest) ? entries[plan.digest] : undefined;
  // A clock that went back gives a negative distance: silent as well.
  if (own && (plan.guarantee.kind === "once" || window - own.window < w)) return "already reported";
  if (window % w !== slot) return "not its slot";
  const asked = add(spentElsewhere(plan, window, entries), decimal(plan.epsilon));
  return above(asked, allowance(plan, entries)) ? "budget spent" : "ready";
}

/** Most that a device may spend under the lineage when this plan asks. */
function allowance(plan: Plan, entries: Entries): Decimal {
  return least(decimal(plan.lineageEpsilon), ...Object.values(entries).map(({ bound }) => decimal(bound)));
}

/** What counts of the reports under the other plans of the lineage. */
function spentElsewhere(plan: Plan, window: number, entries: Entries): Decimal {
  const own = horizon(plan);
  const start = plan.start + window * plan.window;
  const counts = (other: Spent) =>
    own === 0 || other.horizon === 0 || other.ends > start - Math.max(own, other.horizon);
  const others = Object.entries(entries).filter(([digest, each]) => digest !== plan.digest && counts(each));
  return sum(others.map(([, each]) => times(each.reports, decimal(each.epsilon))));
}

