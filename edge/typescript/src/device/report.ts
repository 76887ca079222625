/** What leaves a device: a value that can be sent again and is then the same. */

import { toBase64 } from "../bytes.js";
import type { Values } from "../mechanisms/base.js";
import type { Plan } from "../plan/model.js";

const MAX_BATCH_BYTES = 1 << 20;

export interface Report {
  readonly group: number;
  /** Number of the window: time truncated to it. */
  readonly period: number;
  readonly view: number;
  readonly values: Values;
  /** The batch of one, as Python writes it, byte for byte. */
  readonly json: string;
}

/** Encode a report as a batch of one. */
export function encode(plan: Plan, group: number, period: number, view: number, values: Values): string {
  const columns: Record<string, number[] | string> = {};
  for (const { name, kind, bound } of plan.groups[group]!.mechanism.columns) {
    const value = values[name];
    if (kind === "int" && typeof value === "number" && value >= 0 && BigInt(value) < bound) {
      columns[name] = [value];
    } else if (kind === "bits" && value instanceof Uint8Array && value.length === Math.ceil(Number(bound) / 8)) {
      columns[name] = toBase64(value);
    } else {
      throw new RangeError(`column ${name} does not hold what the mechanism declares; nothing was reported`);
    }
  }
  const several = plan.groups[group]!.views.length > 1 ? { view: [view] } : {};
  const json = JSON.stringify({ v: "1.0", plan: plan.digest, group, period, n: 1, columns, ...several });
  if (json.length > MAX_BATCH_BYTES) throw new RangeError("a report is too large; nothing was reported");
  return json;
}
