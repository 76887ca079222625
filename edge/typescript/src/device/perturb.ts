/** From a record to a perturbed report. */

import type { Values } from "../mechanisms/base.js";
import { code } from "../plan/domain.js";
import type { Plan } from "../plan/model.js";
import { uniform, type Source } from "../random.js";
import type { Place } from "./place.js";

/** A record: names of fields to labels, numbers or lists of options; own properties count, inherited ones do not. */
export type DeviceRecord = Readonly<Record<string, unknown>> | ReadonlyMap<string, unknown>;

/** Perturb what the device's view asks of a record; total, whatever the record is. */
export function perturb(plan: Plan, where: Place, record: DeviceRecord, source: Source): Values {
  const { mechanism, views } = plan.groups[where.group]!;
  const view = views[where.view]!;
  const codes = view.attributes.map((j) => {
    const attribute = plan.domain[j]!;
    const found = code(attribute, label(record, attribute.field), source);
    return found ?? uniform(attribute.labels.length, source);
  });
  return mechanism.perturb(view.input(codes, plan.domain), source);
}

function label(record: DeviceRecord, name: string): unknown {
  try {
    if (record instanceof Map) return record.get(name);
    return Object.hasOwn(record, name) ? (record as Record<string, unknown>)[name] : undefined;
  } catch {
    return undefined; // a getter may throw
  }
}
