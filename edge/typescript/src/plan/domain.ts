/** Attributes and their labels. */

import { PlanError } from "../errors.js";
import type { Json } from "../json.js";
import type { Source } from "../random.js";
import { seen } from "../text.js";
import { readHashed, type Hashed } from "./hashed.js";
import { readNumber, readOptions, type Coder } from "./kinds.js";
import { readRecorded, type Recorded } from "./recorded.js";

const MAX_LABELS = 4_096;
const MAX_ATTRIBUTES = 1_024;

/** Fields of an entry by its kind, beside `name`, `kind` and `other`. */
const FIELDS = new Map<unknown, readonly string[]>([
  ["category", ["labels"]],
  ["ordered", ["labels"]],
  ["number", ["unit", "edges", "below", "above", "rounding"]],
  ["choices", ["options"]],
  ["hashed", ["buckets", "hashes"]],
]);

export interface Attribute {
  readonly name: string;
  readonly labels: readonly string[];
  /** Code that unknown labels map to; undefined where the attribute has none. */
  readonly other: number | undefined;
  /** Name of the field of a record that holds the value. */
  readonly field: string;
  /** How values become codes where they are not labels. */
  readonly coder?: Coder;
  /** The hash whose buckets are the codes. */
  readonly hashed?: Hashed;
  /** What a recorder takes the value from. */
  readonly recorded?: Recorded;
}

/** Read the attributes of a plan; `canonical` becomes false where a field says nothing. */
export function readDomain(entries: readonly Json[], canonical: { value: boolean }): Attribute[] {
  const attributes = entries
    .slice(0, MAX_ATTRIBUTES + 1)
    .flatMap((entry, i) => readEntry(entry, `domain[${i}]`, canonical));
  if (!attributes.every(({ name }) => seen(name))) throw new PlanError("domain: a name with a character that cannot be seen");
  const names = new Set(attributes.map((attribute) => attribute.name)).size;
  if (names < 1 || names < attributes.length || names > MAX_ATTRIBUTES) {
    throw new PlanError(`a domain has 1 to ${MAX_ATTRIBUTES} attributes with different names`);
  }
  const ordinary = ordinaryOf(attributes);
  if (!ordinary || attributes.slice(0, ordinary).some(({ hashed }) => hashed)) {
    throw new PlanError("hashed attributes come last, after at least one of another kind");
  }
  return attributes;
}

/** Number of attributes that are not hashed; they come first. */
export function ordinaryOf(attributes: readonly Attribute[]): number {
  return attributes.filter(({ hashed }) => !hashed).length;
}

function readEntry(entry: Json, where: string, canonical: { value: boolean }): Attribute[] {
  if (!(entry instanceof Map)) throw new PlanError(`${where}: expected an object`);
  const kind = entry.has("kind") ? entry.get("kind") : "category";
  const fields = FIELDS.get(kind);
  if (!fields) throw new PlanError(`${where}.kind: expected another`);
  if (kind === "category" && entry.has("kind")) canonical.value = false;
  for (const field of entry.keys()) {
    if (!["name", "kind", "other", "from", ...fields].includes(field)) throw new PlanError(`${where}: unknown field`);
  }
  const name = entry.get("name");
  if (typeof name !== "string" || !name) throw new PlanError(`${where}.name: expected a string, not empty`);
  const recorded = entry.has("from") ? readRecorded(entry.get("from"), `${where}.from`) : undefined;
  if (kind === "choices") {
    if (recorded?.take) throw new PlanError(`${where}.from: a choice is recorded from a state`);
    return readOptions(entry, where, canonical).map(([option, coder]) => ({
      name: `${name}=${option}`, labels: ["no", "yes"], other: undefined, field: name, coder, ...(recorded && { recorded }),
    }));
  }
  if (kind === "hashed") {
    if (recorded?.take || entry.has("other")) throw new PlanError(`${where}: a text is recorded from a state, and has no other`);
    return readHashed(entry, name, where).map((hashed) => ({
      name: `${name}#${hashed.place}`, labels: Array.from({ length: hashed.buckets }, (_, bucket) => `${bucket}`),
      other: undefined, field: name, hashed, ...(recorded && { recorded }),
    }));
  }
  const [texts, coder] = kind === "number" ? readNumber(entry, where, canonical) : [entry.get("labels")];
  const other = entry.get("other") ?? undefined;
  if (entry.has("other") && other === undefined) canonical.value = false;
  // The label of what is not a number comes last.
  const labels = coder && other !== undefined ? [...(texts as Json[]), other] : texts;
  const different = Array.isArray(labels) && labels.every((label) => typeof label === "string") ? new Set(labels).size : 0;
  if (!Array.isArray(labels) || different < labels.length || different < 2 || different > MAX_LABELS) {
    throw new PlanError(`${where}.labels: expected 2 to ${MAX_LABELS} different strings`);
  }
  if (other !== undefined && !labels.includes(other)) throw new PlanError(`${where}.other: not one of the labels`);
  const any = kind === "number" || recorded?.take !== "any" || [["no", "yes"], ["0", "1"]].some((pair) => pair.every((label) => labels.includes(label)));
  if (!any) throw new PlanError(`${where}.labels: any gives yes or no, or 1 or 0`);
  const place = other === undefined ? undefined : labels.indexOf(other);
  return [{ name, labels: labels as string[], other: place, field: name, ...(coder && { coder }), ...(recorded && { recorded }) }];
}

/** Code of a value, the attribute's `other`, or undefined where it has neither; `source` rounds numbers. */
export function code(attribute: Attribute, value: unknown, source: Source): number | undefined {
  if (attribute.coder) return attribute.coder(value, source) ?? attribute.other;
  const text = spelled(value);
  const found = text === undefined ? -1 : attribute.labels.indexOf(text);
  return found < 0 ? attribute.other : found;
}

/** The text that a label stands for: itself, or the digits of an integer. */
function spelled(label: unknown): string | undefined {
  if (typeof label === "string") return label;
  if (typeof label === "bigint" || Number.isSafeInteger(label)) return String(label);
  return undefined;
}
