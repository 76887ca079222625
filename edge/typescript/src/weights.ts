/** Weights of true inputs: powers of e, rounded down, from integers only. */

import { above, decimal, type Decimal } from "./decimal.js";
import { PlanError } from "./errors.js";
import { quoted } from "./json.js";

/** Weight of every input other than the true one. */
export const OTHER = 1n << 32n;

const EPSILON = /^(0|[1-9][0-9]{0,3})(\.[0-9]{1,20})?$/;
const LEAST = decimal("0.001");
const MOST = decimal("128");
const MOST_PART = 16n;
const MAX_DIVISOR = 4096;

/** Bits after the point of the fixed-point numbers below. */
const BITS = 256n;
/** The sum of all rounding errors is far below 2^-BITS times this. */
const SLACK = 1n << 96n;

/** Read an epsilon of a plan; throws a PlanError where it is malformed or out of range. */
export function parseEpsilon(text: unknown): Decimal {
  if (typeof text !== "string" || !EPSILON.test(text)) {
    const shown = typeof text === "string" ? quoted(text) : typeof text;
    throw new PlanError(`epsilon must be a decimal number in a string such as "0.5", got ${shown}`);
  }
  const value = decimal(text);
  if (above(LEAST, value) || above(value, MOST)) {
    throw new PlanError(`epsilon must lie between 0.001 and 128, got ${text}`);
  }
  return value;
}

const known = new Map<string, bigint>();

/** Return floor(e^(epsilon / parts) · 2^32). */
export function weight(epsilon: string, parts = 1): bigint {
  const key = `${epsilon}/${parts}`;
  const before = known.get(key);
  if (before !== undefined) return before;
  const found = computed(epsilon, parts);
  if (known.size >= 256) known.clear();
  known.set(key, found);
  return found;
}

function computed(epsilon: string, parts: number): bigint {
  if (!(parts >= 1 && parts <= MAX_DIVISOR)) {
    throw new PlanError(`epsilon is spent in 1 to ${MAX_DIVISOR} parts, got ${parts}`);
  }
  const { units, places } = parseEpsilon(epsilon);
  const over = 10n ** BigInt(places) * BigInt(parts);
  if (units > MOST_PART * over) {
    throw new PlanError(`epsilon ${epsilon} in ${parts} parts is above ${MOST_PART} a part`);
  }
  // The Taylor series in fixed point. Terms rise for at most 16 steps and fall fast from then on.
  let term = 1n << (BITS + 32n);
  let power = term;
  for (let n = 1n; term > 0n; n++) {
    term = (term * units) / (over * n);
    power += term;
  }
  const found = power >> BITS;
  // A power of e is never a fraction: the next digits say on which side of an integer it lies.
  if ((power + SLACK) >> BITS !== found) throw new PlanError(`epsilon ${epsilon}: too near an integer`);
  return found;
}

/** Return floor(e^(epsilon · own / all) · 2^32), rounded down at every step. */
export function shareWeight(epsilon: string, own: number, all: number): bigint {
  const common = gcd(own, all);
  const power = BigInt(own / common);
  const found = weight(epsilon, all / common) ** power >> (32n * (power - 1n));
  if (found > weight("16")) throw new PlanError(`${own} of ${all} parts of epsilon ${epsilon} are above 16`);
  return found;
}

function gcd(a: number, b: number): number {
  return b ? gcd(b, a % b) : a;
}
