/** From a record to a perturbed report. */

import type { Values } from "../mechanisms/base.js";
import { code, type Attribute } from "../plan/domain.js";
import { bucketOf, textBytes } from "../plan/hashed.js";
import type { Plan } from "../plan/model.js";
import { uniform, type Source } from "../random.js";
import type { Place } from "./place.js";

/** A record: names of fields to labels, numbers or lists of options; own properties count, inherited ones do not. */
export type DeviceRecord = Readonly<Record<string, unknown>> | ReadonlyMap<string, unknown>;

/** Perturb what the device's view asks of a record; total, whatever the record is. */
export async function perturb(plan: Plan, where: Place, record: DeviceRecord, source: Source): Promise<Values> {
  const { mechanism, views } = plan.groups[where.group]!;
  const view = views[where.view]!;
  const codes: number[] = [];
  for (const j of view.attributes) {
    const attribute = plan.domain[j]!;
    const value = label(record, attribute.field);
    const { hashed } = attribute;
    const found = hashed ? await bucketOf(hashed, plan.lineage, value) : code(attribute, value, source);
    codes.push(found ?? uniform(attribute.labels.length, source));
  }
  return mechanism.perturb(view.input(codes, plan.domain), source);
}

/** What of a record is no value of its attribute, and what would be reported instead: one line a field. */
export function checkRecord({ domain }: Plan, record: DeviceRecord, source: Source): string[] {
  const names = record instanceof Map ? [...record.keys()] : Object.keys(record);
  const fields = new Map(domain.map((attribute) => [attribute.field, attribute]));
  const unknown = names.filter((name) => !fields.has(name)).map((name) => `${name}: the plan has no such attribute`);
  const trouble = (attribute: Attribute) => {
    const { field, name, coder, hashed, labels, other } = attribute;
    const value = label(record, field);
    if (hashed) {
      if (textBytes(value)) return "";
      return `${names.includes(field) ? "expected a text of at most 1,024 bytes" : "no value"}; reported is a random label`;
    }
    const choice = name !== field;
    if (choice && Array.isArray(value)) {
      const options = domain.filter((each) => each.field === field).map((each) => each.name.slice(field.length + 1));
      return value.every((each) => options.includes(each as string)) ? "" : "some options are unknown";
    }
    const own = coder ? coder(value, source) : code({ ...attribute, other: undefined }, value, source);
    if (own !== undefined) return "";
    const expected = choice ? "expected a list of options" : coder ? "expected a finite number" : "none of the labels";
    const why = names.includes(field) ? expected : "no value";
    return `${why}; reported is ${other === undefined ? "a random label" : labels[other]}`;
  };
  const found = [...fields].map(([field, attribute]) => [field, trouble(attribute)]);
  return [...unknown, ...found.filter(([, why]) => why).map((each) => each.join(": "))];
}

function label(record: DeviceRecord, name: string): unknown {
  try {
    if (record instanceof Map) return record.get(name);
    return Object.hasOwn(record, name) ? (record as Record<string, unknown>)[name] : undefined;
  } catch {
    return undefined; // a getter may throw
  }
}
