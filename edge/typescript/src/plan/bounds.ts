/** Most work that a plan may cost a device. A plan that was read can report. */

import { PlanError } from "../errors.js";
import type { Group } from "./model.js";

const MAX_REPORT_BYTES = (1 << 20) - 4096 - 512;
const MAX_RANDOM_BYTES = 16 << 20;
const MAX_HASHES = 1 << 20;
const MAX_COMPARISONS = 1 << 27;

/** Throw a PlanError where a report of some group, or preparing all groups, takes too much work. */
export function checkWork(groups: readonly Group[]): void {
  let hashes = 0;
  let comparisons = 0;
  groups.forEach(({ mechanism: { work }, views }, g) => {
    const limit = (what: string, amount: number, most: number) => {
      if (amount > most) throw new PlanError(`groups[${g}]: a report takes ${amount} ${what}; a device takes ${most} at most`);
    };
    limit("bytes", work.bytes + String(views.length).length, MAX_REPORT_BYTES);
    limit("random bytes", work.randomBytes, MAX_RANDOM_BYTES);
    limit("hashes with those of the groups before", (hashes += work.hashes), MAX_HASHES);
    limit("comparisons with those of the groups before", (comparisons += work.comparisons), MAX_COMPARISONS);
  });
}
