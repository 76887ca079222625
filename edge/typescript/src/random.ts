/** Sources of random bytes, and exact uniform integers from them. */

import type { Bytes } from "./bytes.js";

/** A source of independent uniform bytes. */
export interface Source {
  /** Exactly `count` bytes; the caller does not keep them. */
  bytes(count: number): Uint8Array;
}

/** Most bytes that the generator of a browser gives in one call. */
const MOST_PER_CALL = 65_536;
const POOL = 1_024;

/** The cryptographic generator of the system: the only source that may perturb a real record. */
export class SystemSource implements Source {
  private readonly pool: Bytes = new Uint8Array(POOL);
  private at = POOL;

  bytes(count: number): Uint8Array {
    if (count > POOL) return fresh(count);
    if (this.at + count > POOL) {
      crypto.getRandomValues(this.pool);
      this.at = 0;
    }
    const taken = this.pool.slice(this.at, this.at + count);
    this.pool.fill(0, this.at, this.at + count);
    this.at += count;
    return taken;
  }
}

/** Return random bytes of the system's generator. */
export function fresh(count: number): Bytes {
  const found = new Uint8Array(count);
  for (let at = 0; at < count; at += MOST_PER_CALL) {
    crypto.getRandomValues(found.subarray(at, Math.min(at + MOST_PER_CALL, count)));
  }
  return found;
}

/** Bytes that are given beforehand, read from the front: for comparisons with other languages. */
export class GivenSource implements Source {
  private at = 0;

  constructor(private readonly data: Uint8Array) {}

  bytes(count: number): Uint8Array {
    if (this.at + count > this.data.length) throw new RangeError("the given random bytes are used up");
    this.at += count;
    return this.data.subarray(this.at - count, this.at);
  }

  /** How many bytes have not been read. */
  get left(): number {
    return this.data.length - this.at;
  }
}

/** Read a little-endian word of 1, 2 or 4 bytes. */
export function word(bytes: 1 | 2 | 4, source: Source): number {
  const raw = source.bytes(bytes);
  let value = 0;
  for (let i = bytes - 1; i >= 0; i--) value = value * 256 + raw[i]!;
  return value;
}

/** Read a little-endian word of 8 bytes. */
function wideWord(source: Source): bigint {
  const low = BigInt(word(4, source));
  return (BigInt(word(4, source)) << 32n) | low;
}

/** Draw an integer that is exactly uniform below `bound`, 1 to 2^53: docs/perturbing.md. */
export function uniform(bound: number, source: Source): number {
  if (bound > 65_536) return Number(uniformWide(BigInt(bound), source));
  const wordBytes = isPower(bound) ? (bound <= 256 ? 1 : 2) : 4;
  const all = 2 ** (8 * wordBytes);
  const most = all - (all % bound);
  for (;;) {
    const drawn = word(wordBytes, source);
    if (drawn < most) return drawn % bound;
  }
}

/** Draw an integer that is exactly uniform below `bound`, more than 2^16 and up to 2^63. */
export function uniformWide(bound: bigint, source: Source): bigint {
  if (bound <= 65_536n) return BigInt(uniform(Number(bound), source));
  const power = (bound & (bound - 1n)) === 0n;
  if (power && bound <= 1n << 32n) return BigInt(word(4, source)) % bound;
  const most = (1n << 64n) - ((1n << 64n) % bound);
  for (;;) {
    const drawn = wideWord(source);
    if (drawn < most) return drawn % bound;
  }
}

/** Return the most random bytes that a draw below `bound` takes, but for a chance below 2^-60. */
export function uniformBytes(bound: bigint, draws = 1): number {
  const power = (bound & (bound - 1n)) === 0n;
  if (power) return draws * (bound <= 256n ? 1 : bound <= 65_536n ? 2 : bound <= OTHER ? 4 : 8);
  return (bound <= 65_536n ? 4 : 8) * (2 * draws + 64);
}

const OTHER = 1n << 32n;

function isPower(value: number): boolean {
  return (value & (value - 1)) === 0;
}
