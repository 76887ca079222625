/** Attributes and their labels. */

import { PlanError } from "../errors.js";
import type { Json } from "../json.js";

const MAX_LABELS = 4_096;
const MAX_ATTRIBUTES = 1_024;

export interface Attribute {
  readonly name: string;
  readonly labels: readonly string[];
  /** Code that unknown labels map to; undefined where the attribute has none. */
  readonly other: number | undefined;
}

/** Read the attributes of a plan; `canonical` becomes false where a field says nothing. */
export function readDomain(entries: readonly Json[], canonical: { value: boolean }): Attribute[] {
  if (entries.length < 1 || entries.length > MAX_ATTRIBUTES) {
    throw new PlanError(`a domain has 1 to ${MAX_ATTRIBUTES} attributes, got ${entries.length}`);
  }
  const attributes = entries.map((entry, i) => readAttribute(entry, `domain[${i}]`, canonical));
  if (new Set(attributes.map((attribute) => attribute.name)).size < attributes.length) {
    throw new PlanError("domain: attribute names must be unique");
  }
  return attributes;
}

function readAttribute(entry: Json, where: string, canonical: { value: boolean }): Attribute {
  if (!(entry instanceof Map)) throw new PlanError(`${where}: expected an object with name and labels`);
  for (const field of entry.keys()) {
    if (field !== "name" && field !== "labels" && field !== "other") throw new PlanError(`${where}: unknown field`);
  }
  const name = entry.get("name");
  const labels = entry.get("labels");
  const other = entry.get("other");
  if (typeof name !== "string" || !name) throw new PlanError(`${where}.name: expected a string that is not empty`);
  if (!Array.isArray(labels) || !labels.every((label) => typeof label === "string")) {
    throw new PlanError(`${where}.labels: expected a list of strings`);
  }
  if (labels.length < 2 || labels.length > MAX_LABELS || new Set(labels).size < labels.length) {
    throw new PlanError(`${where}.labels: expected 2 to ${MAX_LABELS} different labels`);
  }
  if (other === null) canonical.value = false;
  if (other === undefined || other === null) return { name, labels, other: undefined };
  if (typeof other !== "string" || !labels.includes(other)) throw new PlanError(`${where}.other: not one of the labels`);
  return { name, labels, other: labels.indexOf(other) };
}

/** Code of a label, the attribute's `other`, or undefined where it has neither. */
export function code(attribute: Attribute, label: unknown): number | undefined {
  const text = spelled(label);
  const found = text === undefined ? -1 : attribute.labels.indexOf(text);
  return found < 0 ? attribute.other : found;
}

/** The text that a label stands for: itself, or the digits of an integer. */
function spelled(label: unknown): string | undefined {
  if (typeof label === "string") return label;
  if (typeof label === "bigint" || Number.isSafeInteger(label)) return String(label);
  return undefined;
}
