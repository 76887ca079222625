/** What a person sees of a report: the values for which it speaks, and until when it counts. The same as `calmstream device view`. */

import { fromBase64 } from "./bytes.js";
import type { DeviceState, Plan } from "./index.js";
import { bucket, parity } from "./mechanisms/hashing.js";

const MOST_CELLS = 4_096;
const MOST_VALUES = 6;

type Columns = Readonly<Record<string, readonly number[] | string>>;

/** Whether a report speaks for a cell; undefined for mechanisms of whole records and sketches. */
function supported(name: string, columns: Columns, buckets: number): ((x: number) => boolean) | undefined {
  const [b] = [columns.b].map((text) => (typeof text === "string" ? fromBase64(text) : null));
  const [v, s, y, r] = ["v", "s", "y", "r"].map((column) => columns[column]?.[0] as number);
  if (name === "grr") return (x) => x === v;
  if (b && ["oue", "sue", "subset-selection"].includes(name)) return (x) => ((b[x >> 3]! >> (x & 7)) & 1) === 1;
  if (name === "olh") return (x) => bucket(s!, x, buckets) === y;
  if (name === "hadamard-coefficient") return (x) => x === s;
  if (name === "hadamard-response") return (x) => parity(r! & x) === s;
  return undefined;
}

/** What a report says: the values that it makes more likely. */
export function decoded({ domain, groups }: Plan, value: string): string {
  const { group, view: [place] = [0], columns } = JSON.parse(value) as { group: number; view?: number[]; columns: Columns };
  const { mechanism, views } = groups[group]!;
  const view = views[place!]!;
  const attributes = view.attributes.map((j) => domain[j]!);
  const size = attributes.reduce((product, { labels }) => product * labels.length, 1);
  const buckets = Number(mechanism.columns.find(({ name }) => name === "y")?.bound ?? 0);
  const speaks = supported(mechanism.name, columns, buckets);
  if (!speaks || size > MOST_CELLS) return `It speaks for some of ${size} possible answers.`;
  const values: string[] = [];
  for (let cell = 0; cell < size; cell++) {
    const codes: number[] = [];
    for (let rest = cell, i = attributes.length - 1; i >= 0; i--) {
      codes[i] = rest % attributes[i]!.labels.length;
      rest = Math.floor(rest / attributes[i]!.labels.length);
    }
    if (speaks(Number(view.input(codes, domain)))) values.push(codes.map((code, i) => attributes[i]!.labels[code]).join(" · "));
  }
  if (!values.length) return "It speaks for no answer.";
  const more = values.length > MOST_VALUES ? ` or ${values.length - MOST_VALUES} more` : "";
  const named = values.slice(0, MOST_VALUES).join(" or ");
  return `It speaks for ${named}${more}, of ${size} possible answers. By chance your own may be missing.`;
}

/** What reports cost for now, and until when: one sentence each. */
export function costs({ policy, totals }: DeviceState, now: number): string[] {
  if (!policy) return [];
  const span = policy.span_days * 86_400;
  const counts = totals.recent.map(([end, epsilon]) => [end + span, epsilon] as const).filter(([until]) => until > now);
  return [
    `In any ${policy.span_days} days all reports together cost at most ε = ${policy.span_epsilon}.`,
    ...counts.slice(0, MOST_VALUES).map(([until, epsilon]) => `ε = ${epsilon} of it counts until ${new Date(until * 1000).toLocaleDateString()}.`),
  ];
}
