/** The hash of the wire contract: 32-bit unsigned arithmetic. */

export function mix(x: number): number {
  x ^= x >>> 16;
  x = Math.imul(x, 0x85ebca6b);
  x ^= x >>> 13;
  x = Math.imul(x, 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

/** Bucket of a cell under a seed, in [0, count); `count` is at most 2^21. */
export function bucket(seed: number, cell: number, count: number): number {
  const hash = mix(seed ^ mix((cell + 0x9e3779b9) | 0));
  return count <= 1 << 21
    ? Math.floor((hash * count) / 2 ** 32)
    : Number((BigInt(hash) * BigInt(count)) >> 32n);
}

/** 1 if the number, below 2^32, has an odd number of 1 bits, otherwise 0. */
export function parity(n: number): number {
  n ^= n >>> 16;
  n ^= n >>> 8;
  n ^= n >>> 4;
  return (0x6996 >>> (n & 15)) & 1;
}

/** Number of 1 bits of a number below 2^32. */
export function popcount(n: number): number {
  n -= (n >>> 1) & 0x55555555;
  n = (n & 0x33333333) + ((n >>> 2) & 0x33333333);
  return Math.imul((n + (n >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}
