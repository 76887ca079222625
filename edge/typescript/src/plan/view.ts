/** What a device reports on, as a function from a record to a mechanism's input. */

import { PlanError } from "../errors.js";
import type { Json } from "../json.js";
import { parity } from "../mechanisms/hashing.js";
import type { Attribute } from "./domain.js";
import { Entry, ascending } from "./fields.js";

const MAX_SHARE = 2 ** 32;

export class View {
  private constructor(
    /** Positions of the attributes, ascending. */
    readonly attributes: readonly number[],
    readonly share: number,
    private readonly kind: "cell" | "parity" | "character",
    private readonly factors: readonly number[],
    readonly modulus: number,
  ) {}

  static read(value: Json, where: string, canonical: { value: boolean }): View {
    const optional = { parity: "list", character: "list", modulus: "integer" } as const;
    const entry = Entry.of(value, where, { attributes: "list", share: "integer" }, optional);
    const attributes = entry.naturals("attributes");
    const kinds = (["parity", "character"] as const).filter((kind) => entry.has(kind));
    if (kinds.length > 1) throw new PlanError(`${where}: a view is a parity or a character, not both`);
    const kind = kinds[0] ?? "cell";
    const factors = kind === "cell" ? [] : entry.naturals(kind);
    const modulus = entry.has("modulus") ? entry.integer("modulus") : 0;
    if (entry.has("modulus") && modulus === 0) canonical.value = false;
    const share = entry.integer("share");
    if (!attributes.length || !ascending(attributes)) {
      throw new PlanError(`${where}: a view's attributes ascend without repetition`);
    }
    const fits = factors.length === attributes.length && factors.every((factor) => factor >= 1);
    if (kind === "cell" ? modulus !== 0 : !fits) throw new PlanError(`${where}: one positive factor per attribute`);
    if ((kind === "character") !== modulus >= 2) {
      throw new PlanError(`${where}: a modulus of at least 2 goes with a character view, and only there`);
    }
    if (share < 1 || share > MAX_SHARE) throw new PlanError(`${where}.share: expected 1 to 2^32`);
    return new View(attributes, share, kind, factors, modulus);
  }

  /** Throw a PlanError where the view does not exist over this domain. */
  check(domain: readonly Attribute[]): void {
    if (this.attributes.at(-1)! >= domain.length) {
      throw new PlanError("a view names an attribute that the domain does not have");
    }
    this.factors.forEach((factor, i) => {
      const r = domain[this.attributes[i]!]!.labels.length;
      const bits = 2 ** (32 - Math.clz32(r - 1));
      const bad = this.kind === "parity" ? factor >= bits : this.modulus % r !== 0 || factor >= r;
      if (bad) throw new PlanError(`a factor of a ${this.kind} view does not fit attribute ${this.attributes[i]}`);
    });
  }

  /** Number of hashed attributes, which come after the ordinary ones; infinite where the view is no table. */
  hashes(ordinary: number): number {
    const count = this.attributes.filter((i) => i >= ordinary).length;
    return count && this.kind !== "cell" ? Infinity : count;
  }

  /** Number of inputs. */
  cells(domain: readonly Attribute[]): bigint {
    if (this.kind === "parity") return 2n;
    if (this.kind === "character") return BigInt(this.modulus);
    return this.attributes.reduce((whole, i) => whole * BigInt(domain[i]!.labels.length), 1n);
  }

  /** The input of a record, whose codes stand in the order of `attributes`. */
  input(codes: readonly number[], domain: readonly Attribute[]): bigint {
    const sizes = this.attributes.map((i) => domain[i]!.labels.length);
    if (this.kind === "parity") {
      return BigInt(codes.reduce((odd, code, i) => odd ^ parity(code & this.factors[i]!), 0));
    }
    const modulus = BigInt(this.modulus);
    if (this.kind === "character") {
      const scaled = codes.map((code, i) => BigInt(this.factors[i]! * code) * (modulus / BigInt(sizes[i]!)));
      return scaled.reduce((sum, term) => sum + term, 0n) % modulus;
    }
    return codes.reduce((whole, code, i) => whole * BigInt(sizes[i]!) + BigInt(code), 0n);
  }
}
