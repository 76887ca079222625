/** Exact choices by the digits of a uniform number: docs/perturbing.md. */

import { word, type Source } from "./random.js";
import { OTHER } from "./weights.js";

/** Bytes of coins that are drawn together: first digits first. */
const COIN_BLOCK = 65_536;
/** Most random bytes of one response, but for a chance below 2^-60. */
export const RESPONSE_BYTES = 16;

/** Return the most random bytes of a row of so many bytes of coins, but for a chance below 2^-60. */
export function coinsBytes(bytes: number): number {
  return 2 * bytes + 2 * (Math.floor(bytes / 8) + 64);
}

/** Read digits after the first one until they leave one outcome only. */
function settle(
  first: number,
  digitBytes: 2 | 4,
  total: bigint,
  outcome: (place: bigint) => number,
  source: Source,
): number {
  const width = BigInt(8 * digitBytes);
  let bits = width;
  let number = BigInt(first);
  for (;;) {
    const low = outcome((number * total) >> bits);
    // The last place that the digits allow: ceil((number + 1) · total / 2^bits) - 1.
    if (low === outcome(((number + 1n) * total - 1n) >> bits)) return low;
    number = (number << width) | BigInt(word(digitBytes, source));
    bits += width;
  }
}

/** Report a cell: `x` with weight `own`, every other of `cells` cells with weight 2^32. */
export function respond(x: number, cells: number, own: bigint, source: Source): number {
  const total = own + BigInt(cells - 1) * OTHER;
  const outcome = (place: bigint) => (place < own ? 0 : 1 + Number((place - own) >> 32n));
  const chosen = settle(word(4, source), 4, total, outcome, source);
  if (chosen === 0) return x;
  return chosen - 1 < x ? chosen - 1 : chosen;
}

/** Coins of which each is 1 with odds `one` : `zero`, eight at a time. */
export class Coins {
  private readonly ends: bigint[] = [];
  private readonly total: bigint;
  /** First digits from which on a value is passed: a digit below `firsts[v]` lies at or before v. */
  private readonly firsts = new Uint32Array(256);

  constructor(one: bigint, zero: bigint) {
    let end = 0n;
    for (let value = 0; value < 256; value++) {
      const ones = BigInt(ONES[value]!);
      end += one ** ones * zero ** (8n - ones);
      this.ends.push(end);
    }
    this.total = end;
    // A digit lies whole within the values up to v if (digit + 1) / 2^16 <= end / total.
    this.ends.forEach((e, value) => (this.firsts[value] = Number((e << 16n) / this.total)));
  }

  /** Draw a row of `bits` coins, packed; bit i is bit i mod 8 of byte i div 8. */
  row(bits: number, source: Source): Uint8Array {
    const packed = new Uint8Array((bits + 7) >> 3);
    for (let start = 0; start < packed.length; start += COIN_BLOCK) {
      this.fill(packed.subarray(start, start + COIN_BLOCK), source);
    }
    if (bits % 8) packed[packed.length - 1]! &= (1 << bits % 8) - 1;
    return packed;
  }

  /** Draw one coin: 0 or 1. */
  coin(source: Source): number {
    return this.row(8, source)[0]! >> 7;
  }

  private fill(block: Uint8Array, source: Source): void {
    const digits = source.bytes(2 * block.length).slice();
    const open: number[] = [];
    for (let i = 0; i < block.length; i++) {
      const digit = digits[2 * i]! + 256 * digits[2 * i + 1]!;
      const value = this.decided(digit);
      if (value < 0) open.push(i);
      else block[i] = value;
    }
    const outcome = (place: bigint) => search((value) => place < this.ends[value]!);
    for (const i of open) {
      const digit = digits[2 * i]! + 256 * digits[2 * i + 1]!;
      block[i] = settle(digit, 2, this.total, outcome, source);
    }
  }

  /** The value that a first digit leaves, or -1 where it may leave several. */
  private decided(digit: number): number {
    const value = search((v) => digit < this.firsts[v]!);
    // The digit is whole below the end of `value`; it must not begin before the end of the last.
    return value === 0 || digit > this.firsts[value - 1]! ? value : -1;
  }
}

/** Bits set in every byte. */
export const ONES = new Uint8Array(256);
for (let value = 1; value < 256; value++) ONES[value] = ONES[value >> 1]! + (value & 1);

/** The smallest of 256 values for which a condition holds; it holds from there on. */
function search(holds: (value: number) => boolean): number {
  let low = 0;
  let high = 256;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
