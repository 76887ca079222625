/** Where a device belongs: its view (hence its group) and its slot, fixed by a keyed hash. */

import { concat, hmac, unhex, utf8, type Bytes } from "../bytes.js";
import type { Plan } from "../plan/model.js";

export interface Place {
  group: number;
  view: number;
  /** Under w-event the device reports in the windows W with W mod w = slot; otherwise 0. */
  slot: number;
}

/** The place of one device: a function of its secret and the plan, for ever the same. */
export async function place(plan: Plan, secret: Bytes): Promise<Place> {
  const shares = plan.groups.map((group) => group.views.map((view) => view.share));
  const total = shares.flat().reduce((sum, share) => sum + share, 0);
  let left = Number(scaled(await word(secret, plan.lineage, "group"), total));
  const slot = Number(scaled(await word(secret, plan.lineage, "slot"), plan.guarantee.windows));
  for (const [group, views] of shares.entries()) {
    for (const [view, share] of views.entries()) {
      if (left < share) return { group, view, slot };
      left -= share;
    }
  }
  throw new RangeError("the shares do not cover the word");
}

/** The device's word for one purpose: an integer below 2^64. */
export async function word(secret: Bytes, lineage: string, purpose: "group" | "slot"): Promise<bigint> {
  const message = concat(utf8(`calmstream/1/${purpose}/`), unhex(lineage));
  return new DataView((await hmac(secret, message)).buffer).getBigUint64(0);
}

function scaled(drawn: bigint, total: number): bigint {
  return (drawn * BigInt(total)) >> 64n;
}
