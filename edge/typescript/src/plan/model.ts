/** What a plan is for a device, once it has been read. */

import type { Mechanism } from "../mechanisms/base.js";
import type { Attribute } from "./domain.js";
import type { View } from "./view.js";

/** One user group: one reports topic, one mechanism, one or more views. */
export interface Group {
  readonly mechanism: Mechanism;
  readonly views: readonly View[];
}

/** What a device needs of a plan. Times are seconds since the epoch, or seconds. */
export interface Plan {
  readonly name: string;
  readonly purpose: string;
  readonly owner: string;
  readonly lineage: string;
  readonly lineageName: string;
  readonly continues: readonly string[];
  readonly domain: readonly Attribute[];
  /** Loss of one report, decimal string. */
  readonly epsilon: string;
  readonly lineageEpsilon: string;
  /** `once`, or one report in every `windows` consecutive windows. */
  readonly guarantee: { readonly kind: "once" | "w-event"; readonly windows: number };
  readonly groups: readonly Group[];
  readonly start: number;
  readonly expires: number;
  readonly window: number;
  readonly grace: number;
  readonly windows: number;
  /** SHA-256 of the bytes that were read, hexadecimal. */
  readonly digest: string;
}
