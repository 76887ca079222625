/** What a device has spent over all lineages: within a span of days, and ever. Exact decimals. */

import { ZERO, above, add, decimal, least, spelled, subtract, sum, type Decimal } from "../decimal.js";
import { limitsOf, overall, spanSeconds, type Limits, type Policy } from "./policy.js";
import type { Status } from "./status.js";

/** Reports that are kept one by one; older ones are joined. */
const MAX_RECENT = 4_096;

/** One report, or several that were joined: end of its window, epsilon, root. */
export type Recent = readonly [ends: number, epsilon: string, root: string];

/** Sums over all lineages, signed or not. */
export interface Totals {
  /** Latest clock at which a report was made, seconds since the epoch. */
  readonly mark: number;
  /** Reports within the span, ascending by end. */
  readonly recent: readonly Recent[];
  /** Root to the sum of all its reports. */
  readonly ever: Readonly<Record<string, string>>;
}

/** What one root can still spend. */
export interface Remaining {
  span: Decimal;
  ever: Decimal | null;
}

export const NOTHING: Totals = { mark: 0, recent: [], ever: {} };

/** Present time in seconds: the later of the clock and the mark. */
export function present(totals: Totals, now: number): number {
  return Math.max(now, totals.mark);
}

/** What a root can still spend; below 0 where more was spent than is allowed now. */
export function remaining(totals: Totals, policy: Policy, root: string, now: number): Remaining {
  const since = present(totals, now) - spanSeconds(policy);
  const both = [overall(policy), limitsOf(policy, root)].map((limits) => left(totals, limits, since));
  const [first, ...others] = both.map((each) => each.ever).filter((each) => each !== null);
  return { span: least(both[0]!.span, both[1]!.span), ever: first ? least(first, ...others) : null };
}

function left(totals: Totals, limits: Limits, since: number): Remaining {
  const counted = totals.recent.filter(([ends, , root]) => ends > since && limits.counts(root));
  const span = subtract(limits.span, sum(counted.map(([, epsilon]) => decimal(epsilon))));
  if (limits.ever === null) return { span, ever: null };
  const sums = Object.entries(totals.ever).filter(([root]) => limits.counts(root));
  return { span, ever: subtract(limits.ever, sum(sums.map(([, text]) => decimal(text)))) };
}

/** Whether one more report fits the policy, or which limit it exceeds. */
export function fits(totals: Totals, policy: Policy, root: string, epsilon: string, now: number): Status {
  const { span, ever } = remaining(totals, policy, root, now);
  const asked = decimal(epsilon);
  if (above(asked, span)) return "span epsilon";
  return ever && above(asked, ever) ? "ever epsilon" : "ready";
}

/** The totals after one more report. */
export function added(
  totals: Totals, ends: number, epsilon: string, root: string, now: number, policy: Policy | null,
): Totals {
  const mark = present(totals, now);
  const since = policy ? mark - spanSeconds(policy) : -1;
  const kept = totals.recent.filter(([end]) => end > since);
  kept.push([Math.max(ends, mark), epsilon, root]);
  const before = Object.hasOwn(totals.ever, root) ? decimal(totals.ever[root]!) : ZERO;
  const ever = { ...totals.ever, [root]: spelled(add(before, decimal(epsilon))) };
  return { mark, recent: joined(sorted(kept)), ever };
}

/** Totals in which everything ever spent counts, what was dropped from the mark on. */
export function restored(totals: Totals): Totals {
  const dropped: Recent[] = [];
  for (const [root, text] of Object.entries(totals.ever)) {
    const kept = sum(totals.recent.filter((each) => each[2] === root).map((each) => decimal(each[1])));
    const rest = subtract(decimal(text), kept);
    if (rest.units !== 0n) dropped.push([totals.mark, spelled(rest), root]);
  }
  return { ...totals, recent: sorted([...totals.recent, ...dropped]) };
}

function sorted(recent: readonly Recent[]): Recent[] {
  return [...recent].sort((a, b) => a[0] - b[0]);
}

/** Join reports of one root in pairs among the older half; the later end counts. */
function joined(recent: Recent[]): Recent[] {
  if (recent.length <= MAX_RECENT) return recent;
  const half = recent.length >> 1;
  const waiting = new Map<string, Recent>();
  const result = recent.slice(half);
  for (const each of recent.slice(0, half)) {
    const earlier = waiting.get(each[2]);
    if (!earlier) {
      waiting.set(each[2], each);
      continue;
    }
    waiting.delete(each[2]);
    result.push([each[0], spelled(add(decimal(earlier[1]), decimal(each[1]))), each[2]]);
  }
  return sorted([...result, ...waiting.values()]);
}
