/** Where the labels of a number stand on an axis. */

import type { Attribute } from "../api/types";

/** A label with its place on the axis, 0 to 1. */
export interface Bin {
  readonly from: number;
  readonly to: number;
  /** Whether it lies on the scale of the edges; values beyond all edges and what is no number lie beside it. */
  readonly inside: boolean;
}

export interface Tick {
  readonly at: number;
  readonly value: number;
}

export interface Scale {
  readonly bins: readonly Bin[];
  readonly ticks: readonly Tick[];
  readonly log: boolean;
  /** Whether all bins inside are equally wide, so that heights are proportions. */
  readonly even: boolean;
}

/** Width of a bin beside the scale, and of the gap before it. */
const BESIDE = 0.05;
const GAP = 0.02;
const TICKS = 6;
/** A log scale stands for edges whose ratio is at least so large and whose widths grow. */
const LOG_RATIO = 20;

/** The axis of a number; null for attributes that are none. */
export function scaleOf(attribute: Attribute | undefined): Scale | null {
  if (attribute?.kind !== "number" || !attribute.edges) return null;
  const { edges, labels } = attribute;
  const grid = attribute.rounding === "grid";
  const log = isLog(edges);
  const on = (value: number) => (log ? Math.log(value) : value);
  const bounds = grid ? middles(edges.map(on)) : edges.map(on);
  const before = attribute.below ? 1 : 0;
  const after = labels.length - before - (bounds.length - 1);
  if (after < 0) return null;
  const left = before * (BESIDE + GAP);
  const width = 1 - left - after * (BESIDE + GAP);
  const [low, high] = [bounds[0]!, bounds.at(-1)!];
  const at = (place: number) => left + (width * (place - low)) / (high - low);
  const inside = bounds.slice(1).map((to, i) => ({ from: at(bounds[i]!), to: at(to), inside: true }));
  const beside = Array.from({ length: after }, (_, i) => {
    const from = left + width + i * (BESIDE + GAP) + GAP;
    return { from, to: from + BESIDE, inside: false };
  });
  const widths = inside.map((bin) => bin.to - bin.from);
  return {
    bins: [...(before ? [{ from: 0, to: BESIDE, inside: false }] : []), ...inside, ...beside],
    ticks: spread(edges.map((value) => ({ at: at(on(value)), value }))),
    log,
    even: Math.max(...widths) <= 1.02 * Math.min(...widths),
  };
}

function isLog(edges: readonly number[]): boolean {
  const [first, last] = [edges[0]!, edges.at(-1)!];
  if (first <= 0 || last < LOG_RATIO * first) return false;
  const n = edges.length;
  return edges[n - 1]! - edges[n - 2]! > 4 * (edges[1]! - first);
}

/** The middles between points, and the first and last point with half a step beyond. */
function middles(points: readonly number[]): number[] {
  const inner = points.slice(1).map((point, i) => (points[i]! + point) / 2);
  const [first, last] = [points[0]!, points.at(-1)!];
  return [2 * first - inner[0]!, ...inner, 2 * last - inner.at(-1)!];
}

/** As many ticks as have room, among them the first and the last. */
function spread(all: readonly Tick[]): Tick[] {
  const least = (all.at(-1)!.at - all[0]!.at) / TICKS;
  const found: Tick[] = [];
  for (const tick of all) {
    if (!found.length || tick.at - found.at(-1)!.at >= 0.99 * least) found.push(tick);
  }
  const end = all.at(-1)!;
  if (found.at(-1) !== end) {
    if (found.length > 1 && end.at - found.at(-1)!.at < 0.6 * least) found.pop();
    found.push(end);
  }
  return found;
}

/** Heights of bars and ends of their intervals: proportions, divided by how wide a bin is against the average. */
export function heights(
  scale: Scale,
  rows: readonly { readonly value: number; readonly stderr: number }[],
  z: number,
): { value: number; low: number; high: number; by: number }[] {
  const inside = scale.bins.filter((bin) => bin.inside);
  const average = inside.reduce((sum, bin) => sum + bin.to - bin.from, 0) / inside.length;
  return rows.map(({ value, stderr }, i) => {
    const bin = scale.bins[i]!;
    const by = bin.inside ? average / (bin.to - bin.from) : 1;
    const reach = Number.isFinite(stderr) ? z * stderr : 0;
    return {
      value: by * Math.max(0, value),
      low: by * Math.max(0, value - reach),
      high: by * Math.max(0, Math.min(1, value + reach)),
      by,
    };
  });
}
