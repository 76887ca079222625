/** How large a partition's state record can become: services refuse plans beyond a bound, so devices do. */

import type { Plan } from "./model.js";

const HEADROOM = 100n;
const LARGEST = (1n << 63n) - 1n;
const INTEGER = BigInt(String(LARGEST).length);
const HEADER = 1024n;
const NAMES = 128n;
const REASONS = [
  "undecodable", "unknown_version", "unknown_plan", "oversized", "malformed", "bad_batch_id", "wrong_group",
  "length_mismatch", "out_of_range", "after_end", "late", "early", "duplicate", "over_limit",
];

/** Upper bound in bytes of the largest group's state record of one partition. */
export function stateRecordBytes(plan: Omit<Plan, "digest">, users: number, skew: number): bigint {
  const rejects = REASONS.reduce((sum, reason) => sum + BigInt(reason.length) + INTEGER + 4n, 0n);
  const open = BigInt(Math.min(2 + Math.ceil((plan.grace + skew) / plan.window), plan.windows));
  const expected = HEADROOM * BigInt(users);
  let largest = 0n;
  for (const { mechanism, views } of plan.groups) {
    const bytes = (reports: bigint) => {
      const counter = digits(reports * mechanism.largestCount()) + 1n;
      return NAMES + rejects + BigInt(views.length) * (digits(reports) + 3n + mechanism.width * counter);
    };
    const size = HEADER + bytes(expected * BigInt(plan.windows)) + open * bytes(expected);
    if (size > largest) largest = size;
  }
  return largest;
}

function digits(count: bigint): bigint {
  return BigInt(String(count < LARGEST ? count : LARGEST).length);
}
