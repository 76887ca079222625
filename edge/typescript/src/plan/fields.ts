/** Typed reading of the objects in a plan document, with the path of what is wrong. */

import { PlanError } from "../errors.js";
import { Fraction, quoted, type Json, type JsonObject } from "../json.js";

export type Kind = "string" | "integer" | "boolean" | "list" | "object";

const WORDS: Record<Kind, string> = {
  string: "a string",
  integer: "an integer",
  boolean: "true or false",
  list: "a list",
  object: "an object",
};

/** Integers are those that a JavaScript number holds exactly. */
function kindOf(value: Json): Kind | undefined {
  if (Array.isArray(value)) return "list";
  if (value instanceof Map) return "object";
  if (typeof value === "number") return "integer";
  if (typeof value === "string" || typeof value === "boolean") return typeof value as "string" | "boolean";
  return undefined;
}

/** An object with exactly these fields, each of its kind; some are optional. */
export class Entry {
  private constructor(
    private readonly fields: JsonObject,
    readonly where: string,
  ) {}

  static of(
    value: Json | undefined,
    where: string,
    required: Record<string, Kind>,
    optional: Record<string, Kind> = {},
  ): Entry {
    if (!(value instanceof Map)) throw new PlanError(`${where}: expected an object`);
    for (const [name, entry] of value) {
      const kind = own(required, name) ?? own(optional, name);
      if (!kind) throw new PlanError(`${where}: unknown field ${quoted(name)}`);
      if (kindOf(entry) !== kind) throw new PlanError(`${where}.${name}: expected ${WORDS[kind]}`);
    }
    for (const name of Object.keys(required)) {
      if (!value.has(name)) throw new PlanError(`${where}: missing field ${quoted(name)}`);
    }
    return new Entry(value, where);
  }

  has(name: string): boolean {
    return this.fields.has(name);
  }

  string(name: string): string {
    return this.fields.get(name) as string;
  }

  integer(name: string): number {
    return this.fields.get(name) as number;
  }

  boolean(name: string): boolean {
    return this.fields.get(name) as boolean;
  }

  list(name: string): Json[] {
    return this.fields.get(name) as Json[];
  }

  object(name: string): JsonObject {
    return this.fields.get(name) as JsonObject;
  }

  /** A list of non-negative integers. */
  naturals(name: string): number[] {
    return naturals(this.list(name), `${this.where}.${name}`);
  }
}

function own(kinds: Record<string, Kind>, name: string): Kind | undefined {
  return Object.hasOwn(kinds, name) ? kinds[name] : undefined;
}

/** A list of non-negative integers. */
export function naturals(value: Json | undefined, where: string): number[] {
  if (!Array.isArray(value) || !value.every((x) => typeof x === "number" && x >= 0)) {
    throw new PlanError(`${where}: expected a list of non-negative integers`);
  }
  return value as number[];
}

/** Whether a value holds an integer beyond 2^53 - 1, or a fraction. */
export function inexact(value: Json): boolean {
  if (Array.isArray(value)) return value.some(inexact);
  if (value instanceof Map) return [...value.values()].some(inexact);
  return typeof value === "bigint" || value instanceof Fraction;
}

/** Whether the entries ascend without repetition. */
export function ascending(row: readonly number[]): boolean {
  return row.every((value, i) => i === 0 || row[i - 1]! < value);
}
