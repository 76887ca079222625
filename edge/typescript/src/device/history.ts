/** What left a device, for the person whose device it is. It stays on the device. */

import { hex, sha256, utf8 } from "../bytes.js";

const MAX_SENT = 200;
const MAX_HISTORY_BYTES = 256 << 10;
const MAX_VALUE_BYTES = 4_096;
const MAX_TEXT = 500;
const MAX_ATTRIBUTES = 64;

/** One report that left, or was to leave. */
export interface Sent {
  readonly plan: string;
  readonly digest: string;
  readonly purpose: string;
  readonly owner: string;
  /** Root key that vouches for the plan; empty for an unsigned one. */
  readonly root: string;
  readonly attributes: readonly string[];
  /** The perturbed report as it left, JSON; empty where it has more than 4,096 bytes. `decoded` of `calmstream-edge/words` puts it into words. */
  readonly value: string;
  readonly value_bytes: number;
  readonly value_sha256: string;
  readonly epsilon: string;
  /** Second since the epoch, by the device's clock. */
  readonly when: number;
  /** What the same operator could still spend, within the span and ever. */
  readonly remains: string;
  readonly remains_ever: string | null;
}

/** The fields of an entry about the bytes that left. */
export async function valueFields(value: string) {
  const raw = utf8(value);
  const short = raw.length <= MAX_VALUE_BYTES;
  return { value: short ? value : "", value_bytes: raw.length, value_sha256: hex(await sha256(raw)) };
}

/** At most 500 characters of a plan's text. */
export function shortened(text: string): string {
  const characters = [...text];
  return characters.length <= MAX_TEXT ? text : `${characters.slice(0, MAX_TEXT - 1).join("")}…`;
}

/** At most 64 names, shortened; a last entry … says that there are more. */
export function attributeNames(names: readonly string[]): string[] {
  const every = names.map(shortened);
  return every.length <= MAX_ATTRIBUTES ? every : [...every.slice(0, MAX_ATTRIBUTES - 1), "…"];
}

/** The history with one more report, without the oldest where it becomes too large. */
export function appended(history: readonly Sent[], sent: Sent): Sent[] {
  const kept = [...history, sent].slice(-MAX_SENT);
  const sizes = kept.map((each) => utf8(JSON.stringify(each)).length);
  let excess = sizes.reduce((sum, size) => sum + size, 0) - MAX_HISTORY_BYTES;
  let first = 0;
  while (excess > 0 && first < kept.length - 1) excess -= sizes[first++]!;
  return kept.slice(first);
}
