/** The plan: one immutable document that all parties read, whose digest is its id. */

import { hex, sha256, text, type Bytes } from "../bytes.js";
import { above } from "../decimal.js";
import { PlanError } from "../errors.js";
import { parse, type Json } from "../json.js";
import { build } from "../mechanisms/registry.js";
import { seen } from "../text.js";
import { parseEpsilon } from "../weights.js";
import { checkWork } from "./bounds.js";
import { ordinaryOf, readDomain, type Attribute } from "./domain.js";
import { Entry, ascending, inexact, naturals, type Kind } from "./fields.js";
import type { Group, Plan } from "./model.js";
import { stateRecordBytes } from "./state_size.js";
import { View } from "./view.js";

export const MAX_PLAN_BYTES = 8 << 20;
const MAX_GROUPS = 256;
const MAX_VIEWS = 1 << 16;
const MAX_PARTITIONS = 1_024;
const MAX_TIME = 2 ** 40;
const MAX_WINDOWS = 2 ** 32;
const MAX_NAME = 128;
const MAX_STATE_BYTES = 8n << 20n;

const FIELDS: Record<string, Kind> = {
  version: "integer", name: "string", purpose: "string", owner: "string", lineage: "string",
  domain: "list", epsilon: "string", lineage_epsilon: "string", guarantee: "object", k: "integer",
  method: "object", groups: "list", start: "integer", expires: "integer", window: "integer",
  grace: "integer", skew: "integer", partitions: "integer", wire: "integer", users: "integer",
  marginals: "list", limits: "object",
};
const OPTIONAL: Record<string, Kind> = {
  analysis: "boolean", lineage_name: "string", continues: "list",
  early: "boolean", summaries: "list",
};

/** A plan with whether its bytes are in the canonical form. */
export interface ReadPlan {
  plan: Plan;
  canonical: boolean;
}

/**
 * Read a plan that nobody vouches for; any bytes are read or refused at a bounded cost.
 *
 * Throws a PlanError with one line where the bytes are no plan that a device reads.
 */
export async function readAny(raw: Bytes): Promise<ReadPlan> {
  if (raw.length > MAX_PLAN_BYTES) throw new PlanError(`plan: ${raw.length} bytes; a device reads ${MAX_PLAN_BYTES}`);
  let source: string;
  try {
    source = text(raw);
  } catch {
    throw new PlanError("plan: not UTF-8");
  }
  const { value, canonical, fractions } = parse(source);
  const noticed = { value: canonical };
  const plan = planOf(value, fractions, noticed);
  return { plan: { ...plan, digest: hex(await sha256(raw)) }, canonical: noticed.value };
}

/** Read a plan without signature from its canonical bytes. */
export async function readPlan(raw: Bytes): Promise<Plan> {
  const { plan, canonical } = await readAny(raw);
  if (!canonical) {
    throw new PlanError("plan: not in its canonical form; take it from a gateway or sign it");
  }
  return plan;
}

function planOf(document: Json, fractions: boolean, canonical: { value: boolean }): Omit<Plan, "digest"> {
  if (fractions) throw new PlanError("plan: fractions are decimal strings");
  const entry = Entry.of(document, "plan", FIELDS, OPTIONAL);
  if (entry.integer("version") !== 1) throw new PlanError("version: expected 1");
  if (entry.has("analysis") && !entry.boolean("analysis")) canonical.value = false;
  if (entry.has("early") && entry.boolean("early")) canonical.value = false;
  const domain = readDomain(entry.list("domain"), canonical);
  const epsilon = entry.string("epsilon");
  const groups = readGroups(entry.list("groups"), epsilon, canonical);
  checkWork(groups);
  const method = Entry.of(entry.object("method"), "method", { name: "string", parameters: "object" });
  const plan = {
    domain,
    epsilon,
    groups,
    ...names(entry, canonical),
    ...times(entry),
    guarantee: readGuarantee(entry.object("guarantee")),
    ...lineages(entry),
  };
  checkLimits(entry, method);
  checkDomain(entry, domain, groups);
  checkSizes(entry, plan);
  return plan;
}

function readGroups(entries: readonly Json[], epsilon: string, canonical: { value: boolean }): Group[] {
  if (entries.length < 1 || entries.length > MAX_GROUPS) {
    throw new PlanError(`groups: expected 1 to ${MAX_GROUPS}, got ${entries.length}`);
  }
  let views = 0;
  return entries.map((value, g) => {
    const where = `groups[${g}]`;
    const entry = Entry.of(value, where, { mechanism: "object", views: "list" });
    const listed = entry.list("views");
    views += listed.length;
    if (!listed.length) throw new PlanError(`${where}.views: expected at least one`);
    if (views > MAX_VIEWS) throw new PlanError(`more than ${MAX_VIEWS} views`);
    return {
      mechanism: build(entry.object("mechanism"), epsilon),
      views: listed.map((view, v) => View.read(view, `${where}.views[${v}]`, canonical)),
    };
  });
}

function readGuarantee(value: Json): Plan["guarantee"] {
  const entry = Entry.of(value, "guarantee", { kind: "string", windows: "integer" });
  const kind = entry.string("kind");
  const windows = entry.integer("windows");
  if (kind === "once" && windows === 1) return { kind, windows };
  if (kind === "w-event" && windows >= 2 && windows <= 10_000) return { kind, windows };
  throw new PlanError("guarantee: expected once, or w-event with 2 to 10000 windows");
}

function names(entry: Entry, canonical: { value: boolean }) {
  const name = entry.string("name");
  const lineage = entry.string("lineage");
  const epsilon = entry.string("epsilon");
  const stated = entry.string("lineage_epsilon");
  if (!stated) canonical.value = false;
  const lineageEpsilon = stated || epsilon;
  if (!/^[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?$/.test(name)) {
    throw new PlanError("name: expected 1 to 48 lower-case letters, digits and hyphens");
  }
  if (!/^[0-9a-f]{32}$/.test(lineage)) throw new PlanError("lineage: expected 32 lower-case hexadecimal digits");
  if (above(parseEpsilon(epsilon), parseEpsilon(lineageEpsilon))) {
    throw new PlanError("lineage_epsilon: below epsilon");
  }
  if (entry.integer("wire") !== 1) throw new PlanError("wire: this package speaks major 1");
  for (const text of ["purpose", "owner"]) {
    if (!seen(entry.string(text))) throw new PlanError(`${text}: a character that cannot be seen`);
  }
  return { name, lineage, lineageEpsilon, purpose: entry.string("purpose"), owner: entry.string("owner") };
}

function times(entry: Entry) {
  const [start, expires, window, grace, skew] = (["start", "expires", "window", "grace", "skew"] as const).map(
    (name) => entry.integer(name),
  ) as [number, number, number, number, number];
  if (window < 1 || grace < 0 || skew < 0) {
    throw new PlanError("window must be at least 1 s, grace and skew at least 0 s");
  }
  if (start < 0 || expires <= start || (expires - start) % window) {
    throw new PlanError("expires must lie a whole number of windows, at least one, after start");
  }
  if (skew > 1000 * window || grace > 1000 * window) {
    throw new PlanError("grace and skew may not exceed a thousand windows");
  }
  const partitions = entry.integer("partitions");
  if (partitions < 1 || partitions > MAX_PARTITIONS) throw new PlanError(`partitions: expected 1 to ${MAX_PARTITIONS}`);
  if (entry.integer("users") < 1) throw new PlanError("users: expected at least 1 report per window");
  return { start, expires, window, grace, windows: (expires - start) / window };
}

function lineages(entry: Entry) {
  return { lineageName: lineageName(entry), continues: texts(entry, "continues", /^[0-9a-f]{32}$/) };
}

function checkLimits(entry: Entry, method: Entry): void {
  const limits = Entry.of(entry.object("limits"), "limits", { batch_reports: "integer", batches: "integer" });
  const within = (name: string, most: number) => limits.integer(name) >= 1 && limits.integer(name) <= most;
  if (!within("batch_reports", (1 << 16) - 1) || !within("batches", 2 ** 32)) throw new PlanError("limits: out of range");
  if (inexact(method.object("parameters"))) throw new PlanError("method.parameters: integers lie below 2^53");
  texts(entry, "summaries", /^(mean|median|rank|q0\.\d{0,8}[1-9])$/);
}

function lineageName(entry: Entry): string {
  if (!entry.has("lineage_name")) return "";
  const name = entry.string("lineage_name");
  if (!name || [...name].length > MAX_NAME || !seen(name)) {
    throw new PlanError(`lineage_name: expected 1 to ${MAX_NAME} characters that can be seen`);
  }
  return name;
}

/** Up to 8 different strings of a form, none of them the plan's lineage; without the field none. */
function texts(entry: Entry, name: string, form: RegExp): string[] {
  if (!entry.has(name)) return [];
  const found = entry.list(name);
  const different = new Set([entry.string("lineage"), ...found]).size > found.length;
  if (found.length < 1 || found.length > 8 || !different || !found.every((each) => typeof each === "string" && form.test(each))) {
    throw new PlanError(`${name}: expected 1 to 8 different ones`);
  }
  return found as string[];
}

function checkDomain(entry: Entry, domain: readonly Attribute[], groups: readonly Group[]): void {
  const k = entry.integer("k");
  const ordinary = ordinaryOf(domain);
  const most = new Set(domain.slice(ordinary).map(({ field }) => field)).size + ordinary;
  if (k < 1 || k > most) throw new PlanError(`k: expected 1 to ${most}, the number of attributes`);
  const hashes = groups.map(({ views }) => views.map((view) => view.hashes(ordinary)));
  const order = hashes.every((own, g) => own.every((each) => each === own[0] && each <= 1 && each >= (hashes[g - 1]?.[0] ?? 0)));
  if (!order || hashes[0]![0] !== 0) throw new PlanError("groups: the last ones have the tables with one hash, no others have any");
  groups.forEach(({ mechanism, views }, g) => {
    mechanism.check();
    for (const view of views) {
      view.check(domain);
      if (view.cells(domain) !== mechanism.cells) {
        throw new PlanError(`groups[${g}]: mechanism and view have different numbers of cells`);
      }
    }
  });
  const marginals = entry.list("marginals").map((each) => naturals(each, "marginals"));
  if (!marginals.length || new Set(marginals.map(String)).size < marginals.length) {
    throw new PlanError("marginals: expected at least one, and none twice");
  }
  for (const marginal of marginals) {
    if (!marginal.length || !ascending(marginal) || marginal.at(-1)! >= ordinary) {
      throw new PlanError("marginals: an entry is not a set of attributes");
    }
  }
}

function checkSizes(entry: Entry, plan: Omit<Plan, "digest">): void {
  if (plan.expires > MAX_TIME || plan.windows > MAX_WINDOWS) throw new PlanError("expires: too late, or too many windows");
  for (const value of entry.list("groups")) {
    if (inexact((value as Map<string, Json>).get("mechanism")!)) throw new PlanError("a mechanism has no fractions");
  }
  if (plan.groups.some((group) => group.views.some((view) => view.modulus > 2 ** 32))) {
    throw new PlanError("a modulus is at most 2^32");
  }
  const size = stateRecordBytes(plan, entry.integer("users"), entry.integer("skew"));
  if (size > MAX_STATE_BYTES) throw new PlanError(`a partition's state record could reach ${size} bytes`);
}
