/** From the cells of an answer to the rows of a chart. */

import type { Answer, Attribute } from "../api/types";
import { NOISE, SUSPICIOUS } from "../text/flags";
import { decimals, Z95 } from "../text/format";

export interface Row {
  readonly label: string;
  readonly value: number;
  /** NaN where it is unknown. */
  readonly stderr: number;
  /** Position in the plan's order. */
  readonly place: number;
}

export interface Panel {
  /** Labels of all attributes but the last; empty for a table of one attribute. */
  readonly title: readonly string[];
  readonly rows: readonly Row[];
}

export type Mood = "plain" | "noise" | "suspicious";

export function mood(flags: readonly string[]): Mood {
  if (flags.includes(SUSPICIOUS)) return "suspicious";
  return flags.includes(NOISE) || flags.includes("uniform") ? "noise" : "plain";
}

/** One panel for each combination of the first attributes, with the last attribute as rows. */
export function panels(answer: Pick<Answer, "labels" | "table" | "stderr">): Panel[] {
  const last = answer.labels.at(-1) ?? [];
  return combinations(answer.labels.slice(0, -1)).map((title, number) => ({
    title,
    rows: last.map((label, place) => {
      const cell = number * last.length + place;
      return { label, value: answer.table[cell] ?? 0, stderr: answer.stderr[cell] ?? NaN, place };
    }),
  }));
}

export function combinations(labels: readonly (readonly string[])[]): string[][] {
  return labels.reduce<string[][]>(
    (found, own) => found.flatMap((title) => own.map((label) => [...title, label])),
    [[]],
  );
}

/** An answer about a number and another attribute with the number last, so that a panel is a histogram. */
export function numberLast(answer: Answer, attributes: readonly Attribute[]): Answer {
  const [first, last] = answer.attributes.map((name) => attributes.find((one) => one.name === name)?.kind === "number");
  const swap = answer.attributes.length === 2 && first && !last && !answer.flags.includes("conditional");
  if (!swap) return answer;
  const columns = answer.labels[1]!.length;
  const turned = (cells: readonly number[]) =>
    cells.map((_, i) => {
      const rows = cells.length / columns;
      return cells[(i % rows) * columns + Math.floor(i / rows)]!;
    });
  return {
    ...answer,
    attributes: [...answer.attributes].reverse(),
    labels: [...answer.labels].reverse(),
    table: turned(answer.table),
    stderr: turned(answer.stderr),
  };
}

/** Root mean square of the standard errors: the noise of a typical cell. */
export function noise(stderr: readonly number[]): number {
  const known = stderr.filter(Number.isFinite);
  return known.length ? Math.sqrt(known.reduce((sum, e) => sum + e * e, 0) / known.length) : 0;
}

/** Whether 0 lies in the 95 % interval. */
export function weak(row: Pick<Row, "value" | "stderr">): boolean {
  return Math.abs(row.value) < Z95 * row.stderr;
}

/** The ends of all intervals, cut to what a proportion can be. */
export function extent(rows: readonly Row[], change: boolean): [number, number] {
  let [low, high] = [0, 0];
  for (const { value, stderr } of rows) {
    const reach = Z95 * (Number.isFinite(stderr) ? stderr : 0);
    low = Math.min(low, value - (change ? reach : 0));
    high = Math.max(high, value + reach);
  }
  // An interval may end beyond 100 %, where there is nothing to see.
  return [low, Math.max(change ? high : Math.min(high, 1), low + 1e-6)];
}

export type Order = "plan" | "size";

export function ordered(rows: readonly Row[], order: Order): Row[] {
  if (order === "plan") return [...rows];
  return [...rows].sort((a, b) => Math.abs(b.value) - Math.abs(a.value) || a.place - b.place);
}

export function digitsOf(answer: Pick<Answer, "stderr">): number {
  return decimals(answer.stderr);
}
