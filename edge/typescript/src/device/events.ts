/** What a recorder keeps of one lineage: the same rules as Python's `device/events.py`, which says why. */

import { utf8 } from "../bytes.js";
import type { Plan } from "../plan/model.js";
import { MAX_DAYS, type Recorded } from "../plan/recorded.js";

export const DAY = 86_400;
const TRUSTED_DAYS = 2;
const MAX_BYTES = 64 << 10;
const MAX_VALUE_BYTES = 1024;
const MAX_AMOUNT = 1e15;
const MAX_EXACT = 2 ** 53;

/** What recorders keep, by lineage: a `Book` each. */
export type Documents = Readonly<Record<string, unknown>>;

/** A day of one event: day, number of events, sum, largest and last value. */
type Row = [number, number, number, number, number];
type State = string | number | string[];

export interface Book {
  latest: number | null;
  behind: number | null;
  events: Record<string, { first: number; days: Row[] }>;
  states: Record<string, State>;
  dropped: Record<string, number>;
}

export function newBook(): Book {
  return { latest: null, behind: null, events: {}, states: {}, dropped: {} };
}

/** The value of an event as a number; undefined for all that is none. */
export function amount(value: unknown): number | undefined {
  const number = typeof value === "bigint" ? Number(value) : value;
  return typeof number === "number" && Math.abs(number) <= MAX_AMOUNT ? number : undefined;
}

/** A state's value as it is kept; undefined for what is no text, number or list of texts. */
export function stateValue(value: unknown): State | undefined {
  if (!Array.isArray(value)) return typeof value === "string" ? (bytes(value) <= MAX_VALUE_BYTES ? value : undefined) : amount(value);
  const texts = value.filter((each): each is string => typeof each === "string");
  const short = sum(texts.map((each) => bytes(each) + 3)) <= MAX_VALUE_BYTES;
  return short && texts.length === value.length ? texts : undefined;
}

export function drop(book: Book, reason: string, times = 1): void {
  book.dropped[reason] = Math.min((book.dropped[reason] ?? 0) + times, MAX_EXACT);
}

/** Move the book to the clock's day; whether what happens now is counted. */
export function countsOn(book: Book, day: number): boolean {
  if (book.latest !== null && day < book.latest) {
    if (day >= book.latest - MAX_DAYS) return false;
    if (book.behind === null || day < book.behind) book.behind = day;
    if (day < book.behind + TRUSTED_DAYS) return false;
    book.events = filtered(book.events, (_, each) => each.first <= day);
    keepDays(book, (each) => each <= day);
  }
  [book.latest, book.behind] = [day, null];
  return true;
}

export function add(book: Book, event: string, day: number, [n, total, largest, last]: readonly number[]): void {
  if (!Object.hasOwn(book.events, event)) put(book.events, event, { first: day, days: [] });
  const { days } = book.events[event]!;
  const row = days[days.length - 1];
  if (!row || row[0] !== day) days.push([day, n!, total!, largest!, last!]);
  else row.splice(1, 4, Math.min(row[1] + n!, MAX_EXACT), row[2] + total!, Math.max(row[3], largest!), last!);
}

/** Set a state; undefined, and what has no room, leaves it without a value. */
export function setState(book: Book, state: string, value: State | undefined): void {
  const states = filtered(book.states, (name) => name !== state);
  if (value !== undefined) {
    if (stateBytes(states) + stateBytes({ [state]: value }) <= MAX_BYTES / 2) put(states, state, value);
    else drop(book, "room");
  }
  book.states = states;
}

/** Forget what the plan does not name, and the oldest days beyond `days` and the room. */
export function fit(book: Book, events: ReadonlySet<string>, states: ReadonlySet<string>, days: number): void {
  book.events = filtered(book.events, (name) => events.has(name));
  book.states = filtered(book.states, (name) => states.has(name));
  const sizes = new Map<number, number>();
  for (const row of Object.values(book.events).flatMap((each) => each.days)) {
    sizes.set(row[0], (sizes.get(row[0]) ?? 0) + 10 + sum(row.map(numberBytes)));
  }
  const names = Object.keys(book.events).map((name) => bytes(name) + 40);
  let size = sum([...sizes.values()]) + stateBytes(book.states) + sum(names);
  let left = sizes.size;
  const old = new Set<number>();
  for (const day of [...sizes.keys()].sort((a, b) => a - b)) {
    if (left <= days) {
      if (size <= MAX_BYTES) break;
      drop(book, "room");
    }
    left -= 1;
    size -= sizes.get(day)!;
    old.add(day);
  }
  keepDays(book, (day) => !old.has(day));
  if (size > MAX_BYTES) book.events = filtered(book.events, (_, each) => each.days.length > 0);
}

/** The record for a window, by field; what has no value is left out. */
export function recordOf(book: Book, plan: Plan, window: number): Record<string, State> {
  const lastDay = Math.floor((plan.start + window * plan.window) / DAY) - 1;
  const record: Record<string, State> = {};
  for (const { field, labels, recorded = { name: field, days: 0 } } of plan.domain) {
    let value = taken(book, recorded, lastDay);
    if (recorded.take === "any" && labels.includes("no") && labels.includes("yes")) value = value ? "yes" : "no";
    if (value !== undefined) put(record, field, value);
  }
  return record;
}

/** The value of an attribute; `lastDay` is the last that counts. */
export function taken(book: Book, { name, take, days }: Recorded, lastDay: number): State | undefined {
  if (!take) return Object.hasOwn(book.states, name) ? book.states[name] : undefined;
  const entry = Object.hasOwn(book.events, name) ? book.events[name]! : { first: lastDay + 1, days: [] };
  const before = lastDay - days;
  const rows = entry.days.filter(([day]) => before < day && day <= lastDay);
  const last = rows[rows.length - 1];
  if (take === "count") return Math.min(sum(rows.map((row) => row[1])), MAX_EXACT);
  if (take === "days") return rows.length;
  if (take === "any") return Number(rows.length > 0);
  if (take === "sum") return sum(rows.map((row) => row[2]));
  if (take === "max") return last && Math.max(...rows.map((row) => row[3]));
  if (take === "last") return last?.[4];
  if (entry.first > lastDay) return undefined;
  const since = take === "days_since_first" ? entry.first : (last?.[0] ?? before);
  return Math.min(lastDay - since, days);
}

function keepDays(book: Book, keep: (day: number) => boolean): void {
  for (const each of Object.values(book.events)) each.days = each.days.filter(([day]) => keep(day));
}

function filtered<T>(all: Record<string, T>, keep: (name: string, each: T) => boolean): Record<string, T> {
  return Object.fromEntries(Object.entries(all).filter(([name, each]) => keep(name, each)));
}

/** Set a field of any name, `__proto__` too. */
export function put<T>(all: Record<string, T>, name: string, value: T): void {
  Object.defineProperty(all, name, { value, enumerable: true, configurable: true, writable: true });
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

/** Size of a text; of one that UTF-8 cannot represent more than any limit. */
function bytes(text: string): number {
  return /\p{Surrogate}/u.test(text) ? MAX_BYTES : utf8(text).length;
}

function numberBytes(number: number): number {
  return Number.isInteger(number) && Math.abs(number) <= MAX_EXACT ? String(number).length : 24;
}

function stateBytes(states: Record<string, State>): number {
  const size = (value: State) =>
    Array.isArray(value) ? sum(value.map((each) => bytes(each) + 3)) : typeof value === "string" ? bytes(value) : numberBytes(value);
  return sum(Object.entries(states).map(([name, value]) => 8 + bytes(name) + size(value)));
}
