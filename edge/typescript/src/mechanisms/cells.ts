/** Mechanisms over the cells of one table. */

import { Coins, RESPONSE_BYTES, coinsBytes, respond } from "../draws.js";
import type { JsonObject } from "../json.js";
import { uniform, uniformBytes, uniformWide, word, type Source } from "../random.js";
import { OTHER, weight } from "../weights.js";
import { MAX_CELLS, Fields, bits, int, workOf, type Column, type Mechanism, type Values, type Work } from "./base.js";
import { bucket, mix, parity } from "./hashing.js";

/** What these mechanisms share: a number of cells that a JavaScript number holds. */
abstract class Oracle implements Mechanism {
  readonly name: string;
  readonly cells: bigint;
  protected readonly size: number;
  protected readonly own: bigint;
  abstract readonly columns: readonly Column[];
  abstract readonly work: Work;

  constructor(fields: Fields, epsilon: string, most: number = MAX_CELLS) {
    this.name = fields.name;
    this.own = weight(epsilon);
    this.size = fields.integer("cells", 2, most);
    this.cells = BigInt(this.size);
  }

  get width(): bigint {
    return this.cells;
  }

  largestCount = () => 1n;

  abstract perturb(x: bigint, source: Source): Values;

  check(): void {}
}

class Grr extends Oracle {
  readonly columns = [int("v", this.size)];
  readonly work = workOf(this.columns, RESPONSE_BYTES);

  perturb(x: bigint, source: Source): Values {
    return { v: respond(Number(x), this.size, this.own, source) };
  }
}

/** Replace one bit of packed bits. */
function replace(row: Uint8Array, place: number, bit: number): void {
  row[place >> 3] = (row[place >> 3]! & ~(1 << (place & 7))) | (bit << (place & 7));
}

class Oue extends Oracle {
  readonly columns = [bits("b", this.size)];
  readonly work = workOf(this.columns, coinsBytes((this.size + 7) >> 3) + 1);
  private coins: Coins | undefined;

  perturb(x: bigint, source: Source): Values {
    this.coins ??= new Coins(OTHER, this.own);
    const row = this.coins.row(this.size, source);
    const place = Number(x);
    replace(row, place, (word(1, source) >> (place & 7)) & 1);
    return { b: row };
  }
}

class Sue extends Oracle {
  readonly columns = [bits("b", this.size)];
  readonly work = workOf(this.columns, coinsBytes((this.size + 7) >> 3) + coinsBytes(1));
  private readonly half: bigint;
  private coins: [Coins, Coins] | undefined;

  constructor(fields: Fields, epsilon: string) {
    super(fields, epsilon);
    this.half = weight(epsilon, 2);
  }

  perturb(x: bigint, source: Source): Values {
    this.coins ??= [new Coins(OTHER, this.half), new Coins(this.half, OTHER)];
    const row = this.coins[0].row(this.size, source);
    replace(row, Number(x), this.coins[1].coin(source));
    return { b: row };
  }
}

class Olh extends Oracle {
  private readonly buckets: number;
  private readonly seeds: number;
  readonly columns: readonly Column[];
  readonly work: Work;

  constructor(fields: Fields, epsilon: string) {
    super(fields, epsilon);
    this.buckets = fields.integer("buckets", 2, 1 << 24);
    this.seeds = 2 ** fields.integer("seed_bits", 1, 32);
    this.columns = [int("s", this.seeds), int("y", this.buckets)];
    this.work = workOf(this.columns, uniformBytes(BigInt(this.seeds)) + RESPONSE_BYTES, 1);
  }

  perturb(x: bigint, source: Source): Values {
    const s = uniform(this.seeds, source);
    return { s, y: respond(bucket(s, Number(x), this.buckets), this.buckets, this.own, source) };
  }
}

class HadamardCoefficient extends Oracle {
  readonly columns = [int("s", 2)];
  readonly work = workOf(this.columns, coinsBytes(1));
  private coins: Coins | undefined;

  constructor(fields: Fields, epsilon: string) {
    super(fields, epsilon, 2);
  }

  override get width(): bigint {
    return 1n;
  }

  perturb(x: bigint, source: Source): Values {
    this.coins ??= new Coins(OTHER, this.own);
    return { s: Number(x) ^ this.coins.coin(source) };
  }
}

class HadamardResponse extends Oracle {
  private readonly rows = 2 ** (32 - Math.clz32(this.size - 1));
  readonly columns = [int("r", this.rows), int("s", 2)];
  readonly work = workOf(this.columns, uniformBytes(BigInt(this.rows)) + coinsBytes(1));
  private coins: Coins | undefined;

  override get width(): bigint {
    return BigInt(2 * this.rows);
  }

  perturb(x: bigint, source: Source): Values {
    this.coins ??= new Coins(OTHER, this.own);
    const r = uniform(this.rows, source);
    return { r, s: parity(r & Number(x)) ^ this.coins.coin(source) };
  }
}

class HadamardSketch extends Oracle {
  private readonly hashes: number;
  private readonly buckets: number;
  private readonly seed: number;
  readonly columns: readonly Column[];
  readonly work: Work;
  private coins: Coins | undefined;

  constructor(fields: Fields, epsilon: string) {
    super(fields, epsilon);
    this.hashes = fields.integer("hashes", 1, 64);
    this.buckets = fields.integer("buckets", 2, 4096);
    this.seed = fields.integer("seed", 0, 2 ** 32 - 1);
    if (this.buckets & (this.buckets - 1)) fields.refuse("buckets must be a power of two");
    this.columns = [int("h", this.hashes), int("r", this.buckets), int("s", 2)];
    const draws = uniformBytes(BigInt(this.hashes)) + uniformBytes(BigInt(this.buckets)) + coinsBytes(1);
    this.work = workOf(this.columns, draws, 1);
  }

  override get width(): bigint {
    return BigInt(2 * this.hashes * this.buckets);
  }

  perturb(x: bigint, source: Source): Values {
    this.coins ??= new Coins(OTHER, this.own);
    const h = uniform(this.hashes, source);
    const r = uniform(this.buckets, source);
    const own = bucket(mix((this.seed + h) | 0), Number(x), this.buckets);
    return { h, r, s: parity(r & own) ^ this.coins.coin(source) };
  }
}

class SubsetSelection extends Oracle {
  private readonly held: number;
  private readonly certain: bigint;
  private readonly all: bigint;
  readonly columns = [bits("b", this.size)];
  readonly work: Work;

  constructor(fields: Fields, epsilon: string) {
    super(fields, epsilon, 1 << 14);
    this.held = fields.integer("size", 1, this.size - 1);
    this.certain = (this.own - OTHER) * BigInt(this.held);
    this.all = this.certain + OTHER * this.cells;
    this.work = workOf(this.columns, uniformBytes(this.all) + uniformBytes(this.cells | 1n, this.held));
  }

  /** Floyd's sampling on positions relative to the own cell, which is the last one. */
  perturb(x: bigint, source: Source): Values {
    const row = new Uint8Array((this.size + 7) >> 3);
    const first = Number(x) + 1;
    const place = (position: number) => (position + first) % this.size;
    const taken = (cell: number) => (row[cell >> 3]! >> (cell & 7)) & 1;
    const keep = uniformWide(this.all, source) < this.certain;
    for (let last = this.size - this.held; last < this.size; last++) {
      let cell = place(uniform(last + 1, source));
      if (taken(cell) || (last === this.size - 1 && keep)) cell = place(last);
      replace(row, cell, 1);
    }
    return { b: row };
  }
}

const KINDS: Record<string, [new (fields: Fields, epsilon: string) => Mechanism, readonly string[]]> = {
  grr: [Grr, []],
  oue: [Oue, []],
  sue: [Sue, []],
  olh: [Olh, ["buckets", "seed_bits"]],
  "hadamard-coefficient": [HadamardCoefficient, []],
  "hadamard-response": [HadamardResponse, []],
  "hadamard-sketch": [HadamardSketch, ["hashes", "buckets", "seed"]],
  "subset-selection": [SubsetSelection, ["size"]],
};

/** The mechanism that a document names; undefined where it is none of these. */
export function cellMechanism(name: string, document: JsonObject, epsilon: string): Mechanism | undefined {
  if (!Object.hasOwn(KINDS, name)) return undefined;
  const [Kind, parameters] = KINDS[name]!;
  return new Kind(new Fields(name, document, ["cells", ...parameters]), epsilon);
}
