/** What every mechanism is to a device. */

import { PlanError } from "../errors.js";
import { quoted, type Json, type JsonObject } from "../json.js";
import type { Source } from "../random.js";

/** One column of a report: an integer below `bound`, or `bound` bits packed, the lowest first. */
export interface Column {
  name: string;
  kind: "int" | "bits";
  bound: bigint;
}

/** One value per column: an integer, or packed bits. */
export type Values = Record<string, number | Uint8Array>;

/** Upper bounds of what the first report costs a device. */
export interface Work {
  bytes: number;
  randomBytes: number;
  hashes: number;
  comparisons: number;
}

export interface Mechanism {
  readonly name: string;
  /** Number of inputs. */
  readonly cells: bigint;
  readonly columns: readonly Column[];
  readonly work: Work;
  /** Counters of one view, and the most that one report adds to one: a service's state needs them. */
  readonly width: bigint;
  readonly largestCount: () => bigint;
  /** Perturb one input, below `cells`. */
  perturb(x: bigint, source: Source): Values;
  /** Slower checks than those of the constructor; throws a PlanError. */
  check(): void;
}

export const MAX_CELLS = 1 << 24;

/** The columns of a device's mechanism as text have names, brackets and digits or base64. */
export function workOf(columns: readonly Column[], randomBytes: number, hashes = 0, comparisons = 0): Work {
  const size = (column: Column) =>
    column.kind === "int"
      ? String(column.bound - 1n).length
      : 4 * Math.ceil(Number(column.bound) / 24);
  const bytes = columns.reduce((sum, column) => sum + column.name.length + 6 + size(column), 0);
  return { bytes, randomBytes, hashes, comparisons };
}

export function int(name: string, bound: number | bigint): Column {
  return { name, kind: "int", bound: BigInt(bound) };
}

export function bits(name: string, bound: number): Column {
  return { name, kind: "bits", bound: BigInt(bound) };
}

/** Read the fields of a mechanism's document, each by its name. */
export class Fields {
  constructor(
    readonly name: string,
    private readonly given: JsonObject,
    known: readonly string[],
  ) {
    for (const field of given.keys()) {
      if (field !== "name" && !known.includes(field)) {
        throw new PlanError(`mechanism ${name} has no field ${quoted(field)}`);
      }
    }
    for (const field of known) {
      if (!given.has(field)) throw new PlanError(`mechanism ${name} lacks its field ${field}`);
    }
  }

  /** An integer in [low, high]. */
  integer(field: string, low: number, high: number): number {
    return Number(this.wide(field, BigInt(low), BigInt(high)));
  }

  /** An integer in [low, high], of up to 64 bits. */
  wide(field: string, low: bigint, high: bigint): bigint {
    const value = this.given.get(field);
    const fits = typeof value === "number" || typeof value === "bigint";
    if (!fits || value < low || value > high) {
      throw new PlanError(`${this.name}.${field} must be an integer from ${low} to ${high}`);
    }
    return BigInt(value);
  }

  /** Throw a PlanError about this mechanism. */
  refuse(why: string): never {
    throw new PlanError(`${this.name}: ${why}`);
  }

  /** A list of non-negative integers. */
  row(field: string): number[] {
    return row(`${this.name}.${field}`, this.given.get(field));
  }

  /** A list of lists of non-negative integers. */
  rows(field: string): number[][] {
    const value = this.given.get(field);
    if (!Array.isArray(value)) throw new PlanError(`${this.name}.${field}: expected a list of lists of integers`);
    return value.map((each) => row(`${this.name}.${field}`, each));
  }
}

function row(where: string, value: Json | undefined): number[] {
  if (!Array.isArray(value) || !value.every(natural)) {
    throw new PlanError(`${where}: expected a list of non-negative integers`);
  }
  return value as number[];
}

function natural(value: Json): boolean {
  return typeof value === "number" && value >= 0;
}
