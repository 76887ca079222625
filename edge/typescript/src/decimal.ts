/** Exact decimal numbers: epsilon and its sums. */

/** The number `units` / 10^`places`; `places` says how it is written. */
export interface Decimal {
  units: bigint;
  places: number;
}

export const ZERO: Decimal = { units: 0n, places: 0 };

/** Return the number that a plain decimal string spells; the caller has checked its form. */
export function decimal(spelled: string): Decimal {
  const [whole, part = ""] = spelled.split(".");
  return { units: BigInt(whole! + part), places: part.length };
}

/** Return both numbers with the larger number of places. */
function aligned(a: Decimal, b: Decimal): [bigint, bigint, number] {
  const places = Math.max(a.places, b.places);
  const widened = (x: Decimal) => x.units * 10n ** BigInt(places - x.places);
  return [widened(a), widened(b), places];
}

export function add(a: Decimal, b: Decimal): Decimal {
  const [x, y, places] = aligned(a, b);
  return { units: x + y, places };
}

export function subtract(a: Decimal, b: Decimal): Decimal {
  return add(a, { units: -b.units, places: b.places });
}

export function times(count: number, a: Decimal): Decimal {
  return { units: BigInt(count) * a.units, places: a.places };
}

export function sum(amounts: Iterable<Decimal>): Decimal {
  let whole = ZERO;
  for (const amount of amounts) whole = add(whole, amount);
  return whole;
}

/** Return whether `a` is larger than `b`. */
export function above(a: Decimal, b: Decimal): boolean {
  const [x, y] = aligned(a, b);
  return x > y;
}

/** Return the smallest of several numbers. */
export function least(first: Decimal, ...others: Decimal[]): Decimal {
  return others.reduce((a, b) => (above(a, b) ? b : a), first);
}

/** Return the number as a plain decimal string. */
export function spelled(a: Decimal): string {
  const digits = (a.units < 0n ? -a.units : a.units).toString().padStart(a.places + 1, "0");
  const point = digits.length - a.places;
  const text = a.places ? `${digits.slice(0, point)}.${digits.slice(point)}` : digits;
  return a.units < 0n ? `-${text}` : text;
}
