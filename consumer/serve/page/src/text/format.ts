/** How numbers, times and intervals are written. */

const SPACE = "\u00a0";
/** 95 % of normal values lie within so many standard errors. */
export const Z95 = 1.96;

const COUNT = new Intl.NumberFormat("en-GB");

export function count(value: number): string {
  return COUNT.format(value);
}

/** "1 report", "2 reports". */
export function counted(value: number, noun: string): string {
  return `${count(value)}${SPACE}${noun}${value === 1 ? "" : "s"}`;
}

/** Decimals of percentages with such standard errors: one, and more where errors are small. */
export function decimals(errors: readonly number[]): number {
  const sorted = errors.filter((e) => Number.isFinite(e)).sort((a, b) => a - b);
  const half = Z95 * (sorted[Math.floor(sorted.length / 2)] ?? 0.01);
  if (half >= 0.004) return 1;
  return half >= 0.0004 ? 2 : 3;
}

export function percent(value: number, digits: number): string {
  return `${fixed(100 * value, digits)}${SPACE}%`;
}

/** A change in percentage points, with its sign. */
export function points(value: number, digits: number): string {
  const text = fixed(100 * value, digits);
  return value > 0 && !/^[0.]+$/.test(text) ? `+${text}` : text;
}

export function half(stderr: number, digits: number): string {
  return `±${SPACE}${fixed(100 * Z95 * stderr, digits)}`;
}

function fixed(value: number, digits: number): string {
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
const SECONDS = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZone: "UTC",
});

/** "22 Nov 2026, 10:00–11:00 UTC" */
export function span(start: number, end: number): string {
  const from = new Date(1000 * start);
  const to = new Date(1000 * end);
  const clock = start % 60 === 0 && end % 60 === 0 ? TIME : SECONDS;
  if (start % 86_400 === 0 && end % 86_400 === 0) {
    const last = new Date(1000 * (end - 86_400));
    return start + 86_400 === end ? DAY.format(from) : `${DAY.format(from)}${SPACE}– ${DAY.format(last)}`;
  }
  if (end % 86_400 === 0 && end - start <= 86_400) return `${DAY.format(from)}, ${clock.format(from)}–24:00 UTC`;
  if (DAY.format(from) === DAY.format(to)) return `${DAY.format(from)}, ${clock.format(from)}–${clock.format(to)} UTC`;
  return `${DAY.format(from)}, ${clock.format(from)} – ${DAY.format(to)}, ${clock.format(to)} UTC`;
}

export function moment(seconds: number): string {
  const date = new Date(1000 * seconds);
  return `${DAY.format(date)}, ${(seconds % 60 === 0 ? TIME : SECONDS).format(date)} UTC`;
}

/** "8 seconds", "1 hour", "3 days" */
export function duration(seconds: number): string {
  for (const [unit, size] of [
    ["day", 86_400],
    ["hour", 3_600],
    ["minute", 60],
  ] as const) {
    if (seconds >= size && seconds % size === 0) return counted(seconds / size, unit);
  }
  return counted(seconds, "second");
}

/** A short number for an axis: 12 k, 3 M. */
export function short(value: number): string {
  if (value >= 1e6) return `${trimmed(value / 1e6)}${SPACE}M`;
  return value >= 1e4 ? `${trimmed(value / 1e3)}${SPACE}k` : count(value);
}

const FOUR = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 4 });

/** A number with four digits: 12.35, 1,235. */
export function number(value: number): string {
  return FOUR.format(value).replace("-", "−");
}

function trimmed(value: number): string {
  return String(Number(value.toFixed(1)));
}

/** A probability of chance: "p = 0.03", "p < 0.001". */
export function chance(p: number): string {
  return p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(p < 0.1 ? 3 : 2)}`;
}
