/** What a recorder takes the value of an attribute from: the field `from` of a plan. */

import { PlanError } from "../errors.js";
import type { Json } from "../json.js";
import { seen } from "../text.js";

const TAKES = ["count", "days", "any", "sum", "max", "last", "days_since_first", "days_since_last"] as const;
const MAX_NAME = 128;
export const MAX_DAYS = 90;

export interface Recorded {
  /** Name of the state that the application sets, or of the event that it notes. */
  readonly name: string;
  /** What is taken from the events; undefined for a state. */
  readonly take?: (typeof TAKES)[number];
  /** Complete days (UTC) that are looked at, before the window of the report. */
  readonly days: number;
}

export function readRecorded(entry: Json | undefined, where: string): Recorded {
  const fields = entry instanceof Map ? [...entry.keys()].sort().join() : "";
  if (!(entry instanceof Map) || (fields !== "state" && fields !== "event,over,take")) {
    throw new PlanError(`${where}: expected state, or event, take and over`);
  }
  const name = entry.get("state") ?? entry.get("event");
  if (typeof name !== "string" || !name || [...name].length > MAX_NAME || !seen(name)) {
    throw new PlanError(`${where}: a state or event has a name of 1 to ${MAX_NAME} characters`);
  }
  if (fields === "state") return { name, days: 0 };
  const [take, over] = [TAKES.find((each) => each === entry.get("take")), entry.get("over")];
  const days = typeof over === "string" && /^[1-9]\d?d$/.test(over) ? Number.parseInt(over, 10) : 0;
  if (!take || days < 1 || days > MAX_DAYS) throw new PlanError(`${where}: take, or over of 1d to ${MAX_DAYS}d`);
  return { name, take, days };
}
