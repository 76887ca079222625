/** Mechanisms that perturb a whole record: the input is a mixed-radix number over axes. */

import { Coins, RESPONSE_BYTES, coinsBytes, respond } from "../draws.js";
import type { JsonObject } from "../json.js";
import type { Source } from "../random.js";
import { OTHER, parseEpsilon, shareWeight, weight } from "../weights.js";
import { Fields, bits, int, workOf, type Column, type Mechanism, type Values, type Work } from "./base.js";
import { Filters } from "./bloom.js";

const MAX_RECORD_CELLS = 1n << 62n;
const MAX_BLOCK_CELLS = 1n << 30n;
const MAX_TABLE_CELLS = 1n << 26n;

function product(factors: readonly number[]): bigint {
  return factors.reduce((whole, factor) => whole * BigInt(factor), 1n);
}

/** Codes of every axis of a mixed-radix number, the last axis fastest. */
function digits(x: bigint, axes: readonly number[]): number[] {
  const found = new Array<number>(axes.length);
  for (let i = axes.length - 1; i >= 0; i--) {
    const radix = BigInt(axes[i]!);
    found[i] = Number(x % radix);
    x /= radix;
  }
  return found;
}

function ascending(row: readonly number[]): boolean {
  return row.every((value, i) => i === 0 || row[i - 1]! < value);
}

function readAxes(fields: Fields): [number[], bigint] {
  const axes = fields.row("axes");
  if (!axes.length || axes.some((r) => r < 2)) fields.refuse("axes: expected cardinalities of at least 2");
  const cells = fields.wide("cells", 2n, MAX_RECORD_CELLS - 1n);
  if (axes.length > 62 || product(axes) !== cells) fields.refuse("the axes have another number of cells together");
  return [axes, cells];
}

/** Counters of all tables, each of `sizes` cells per axis. */
function readTables(fields: Fields, sizes: readonly number[]): { tables: number[][]; width: bigint } {
  const tables = fields.rows("tables");
  if (!tables.length || new Set(tables.map(String)).size !== tables.length) {
    fields.refuse("tables: expected at least one, and none twice");
  }
  let width = 0n;
  for (const table of tables) {
    if (!table.length || !ascending(table)) fields.refuse("tables: an entry does not ascend");
    if (table.at(-1)! >= sizes.length) fields.refuse("tables: an entry names an axis that is not there");
    width += product(table.map((i) => sizes[i]!));
  }
  if (width > MAX_TABLE_CELLS) fields.refuse("the tables have too many cells together");
  return { tables, width };
}

class ProductGrr implements Mechanism {
  readonly name: string;
  readonly cells: bigint;
  readonly columns: readonly Column[];
  readonly work: Work;
  readonly width: bigint;
  readonly largestCount = () => 1n;
  private readonly axes: number[];
  private readonly blocks: { axes: number[]; cells: number; own: bigint }[];

  constructor(fields: Fields, epsilon: string) {
    this.name = fields.name;
    const blocks = fields.rows("blocks");
    [this.axes, this.cells] = readAxes(fields);
    const inside = blocks.flat().sort((a, b) => a - b);
    if (inside.length !== this.axes.length || inside.some((axis, i) => axis !== i) || !blocks.every((b) => b.length)) {
      fields.refuse("blocks: every axis must stand in exactly one block");
    }
    this.blocks = blocks.map((axes) => {
      const cells = product(axes.map((i) => this.axes[i]!));
      if (!ascending(axes)) fields.refuse("blocks: an entry does not ascend");
      if (cells < 2n || cells > MAX_BLOCK_CELLS) fields.refuse("a block has too many cells");
      return { axes, cells: Number(cells), own: 0n };
    });
    this.width = readTables(fields, this.axes).width;
    for (const block of this.blocks) block.own = shareWeight(epsilon, block.axes.length, this.axes.length);
    this.columns = this.blocks.map((block, b) => int(`x${b}`, block.cells));
    this.work = workOf(this.columns, blocks.length * RESPONSE_BYTES);
  }

  perturb(x: bigint, source: Source): Values {
    const codes = digits(x, this.axes);
    const values: Values = {};
    this.blocks.forEach(({ axes, cells, own }, b) => {
      const cell = axes.reduce((whole, i) => whole * this.axes[i]! + codes[i]!, 0);
      values[`x${b}`] = respond(cell, cells, own, source);
    });
    return values;
  }

  check(): void {}
}

class BloomRr implements Mechanism {
  readonly name: string;
  readonly cells: bigint;
  readonly columns: readonly Column[];
  readonly work: Work;
  readonly width: bigint;
  private readonly epsilon: string;
  private readonly axes: number[];
  private readonly tables: number[][];
  private readonly bits: number;
  private readonly hashes: number;
  private made: { filters: Filters[]; coins: Coins } | undefined;

  constructor(fields: Fields, epsilon: string) {
    this.name = fields.name;
    this.epsilon = epsilon;
    [this.axes, this.cells] = readAxes(fields);
    this.bits = fields.integer("bits", 2, 1024);
    this.hashes = fields.integer("hashes", 1, 16);
    parseEpsilon(epsilon);
    const counted = readTables(fields, this.axes.map((r) => r + 1));
    this.tables = counted.tables;
    this.width = counted.width;
    this.columns = this.axes.map((_, i) => bits(`b${i}`, this.bits));
    const pairs = this.axes.reduce((sum, r) => sum + ((r * (r - 1)) / 2) * Math.ceil(this.bits / 64), 0);
    const hashed = this.hashes * (this.axes.reduce((sum, r) => sum + r, 0) + this.axes.length);
    const draws = this.axes.length * coinsBytes((this.bits + 7) >> 3);
    this.work = workOf(this.columns, draws, hashed, pairs);
  }

  /** A report with every bit set: the product of a table's largest filters. */
  largestCount = () => {
    const { filters } = this.prepared();
    const largest = this.tables.map((table) => product(table.map((i) => filters[i]!.heaviest)));
    return largest.reduce((a, b) => (a > b ? a : b));
  };

  perturb(x: bigint, source: Source): Values {
    const { filters, coins } = this.prepared();
    const values: Values = {};
    digits(x, this.axes).forEach((code, i) => {
      const row = coins.row(this.bits, source);
      for (const place of filters[i]!.places(code)) row[place >> 3]! ^= 1 << (place & 7);
      values[`b${i}`] = row;
    });
    return values;
  }

  check(): void {
    this.prepared();
  }

  private prepared(): { filters: Filters[]; coins: Coins } {
    if (this.made) return this.made;
    const filters = this.axes.map((r, i) => new Filters(i, r, this.bits, this.hashes));
    const distance = filters.reduce((sum, axis) => sum + axis.distance, 0);
    return (this.made = { filters, coins: new Coins(OTHER, weight(this.epsilon, distance)) });
  }
}

/** The mechanism that a document names; undefined where it is none of these. */
export function recordMechanism(name: string, document: JsonObject, epsilon: string): Mechanism | undefined {
  if (name === "product-grr") {
    return new ProductGrr(new Fields(name, document, ["cells", "axes", "blocks", "tables"]), epsilon);
  }
  if (name === "bloom-rr") {
    return new BloomRr(new Fields(name, document, ["cells", "axes", "bits", "hashes", "tables"]), epsilon);
  }
  return undefined;
}

