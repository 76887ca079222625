/** Reports that were made and that no gateway has taken yet. */

import type { Waiting } from "./ledger.js";

const MAX_WAITING = 64;
const MAX_CHARACTERS = 4 << 20;

/** The reports that wait with one more; the oldest are lost where they become too many. */
export function kept(waiting: readonly Waiting[], report: Waiting): Waiting[] {
  const all = [...waiting, report].slice(-MAX_WAITING);
  let characters = all.reduce((sum, each) => sum + each.report.length, 0);
  while (all.length > 1 && characters > MAX_CHARACTERS) characters -= all.shift()!.report.length;
  return all;
}
