/** Mechanisms by the name they have in a plan. */

import { PlanError } from "../errors.js";
import type { JsonObject } from "../json.js";
import type { Mechanism } from "./base.js";
import { cellMechanism } from "./cells.js";
import { recordMechanism } from "./records.js";

/** Read a mechanism as it stands in a plan; nothing is computed that takes long. */
export function build(document: JsonObject, epsilon: string): Mechanism {
  const name = document.get("name");
  if (typeof name !== "string") throw new PlanError("a mechanism has a name");
  const found = cellMechanism(name, document, epsilon) ?? recordMechanism(name, document, epsilon);
  if (!found) throw new PlanError("unknown mechanism");
  return found;
}
