/** One proportion over windows: a line with its 95 % band. */

import { scaleLinear, type ScaleLinear } from "d3-scale";
import { area, line } from "d3-shape";
import { percent, Z95 } from "../text/format";
import type { Mood } from "./model";

export interface Point {
  readonly start: number;
  readonly value: number;
  readonly stderr: number;
  readonly mood: Mood;
}

const WIDTH = 400;
const HEIGHT = 120;
const MINUTE = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
const SECOND = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZone: "UTC",
});
const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

export interface BandProps {
  readonly points: readonly Point[];
  /** Drawn as dots. */
  readonly dots: readonly Point[];
  readonly top: number;
  readonly bottom: number;
  readonly cursor: number | null;
  readonly onCursor: (index: number | null) => void;
  readonly seconds: number;
}

interface Scales {
  readonly x: (point: Point) => number;
  readonly y: ScaleLinear<number, number>;
}

export function Band({ points, dots, top, bottom, cursor, onCursor, seconds }: BandProps) {
  const first = points[0]!.start;
  const last = Math.max(points.at(-1)!.start, first + seconds);
  const time = scaleLinear().domain([first, last]).range([0, WIDTH]);
  const y = scaleLinear().domain([bottom, top]).nice(3).range([HEIGHT, 0]).clamp(true);
  const scales: Scales = { x: (point) => time(point.start), y };
  const move = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    onCursor(nearest(points, time.invert((WIDTH * (event.clientX - box.left)) / box.width)));
  };
  const chosen = cursor === null ? undefined : points[cursor];
  return (
    <div class="band">
      <Levels y={y} />
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        aria-hidden="true"
        onPointerMove={move}
        onPointerLeave={() => onCursor(null)}
      >
        {y.ticks(3).map((tick) => (
          <line key={tick} class="grid" x1="0" x2={WIDTH} y1={y(tick)} y2={y(tick)} />
        ))}
        {marks(points, scales.x, WIDTH)}
        {dots.map((dot) => (
          <path key={dot.start} class="dot" d={`M${scales.x(dot)},${y(dot.value)}h0`} />
        ))}
        <Curve points={points} scales={scales} />
        {chosen && <line class="cursor" x1={scales.x(chosen)} x2={scales.x(chosen)} y1="0" y2={HEIGHT} />}
      </svg>
      <div class="band-x" aria-hidden="true">
        <span>{tick(first, seconds)}</span>
        <span>{tick(points.at(-1)!.start, seconds)}</span>
      </div>
    </div>
  );
}

function Levels({ y }: { y: Scales["y"] }) {
  return (
    <div class="band-y" aria-hidden="true">
      {y.ticks(3).map((tick) => (
        <span key={tick} style={{ top: `${(100 * y(tick)) / HEIGHT}%` }}>
          {percent(tick, y.domain()[1]! < 0.05 ? 1 : 0)}
        </span>
      ))}
    </div>
  );
}

/** Band and line; a bar for each point between gaps. */
function Curve({ points, scales: { x, y } }: { points: readonly Point[]; scales: Scales }) {
  const known = (p: Point) => Number.isFinite(p.value);
  const low = (p: Point) => y(p.value - Z95 * p.stderr);
  const high = (p: Point) => y(p.value + Z95 * p.stderr);
  const band = area<Point>().defined(known).x(x).y0(low).y1(high);
  const path = line<Point>()
    .defined(known)
    .x(x)
    .y((p) => y(p.value));
  return (
    <>
      <path class="area" d={band(points as Point[]) ?? ""} />
      <path class="line" d={path(points as Point[]) ?? ""} />
      {lone(points).map((p) => (
        <line key={p.start} class="lone" x1={x(p)} x2={x(p)} y1={low(p)} y2={high(p)} />
      ))}
    </>
  );
}

/** Columns behind windows that are suspicious or only noise. */
function marks(points: readonly Point[], at: (p: Point) => number, width: number) {
  const wide = Math.max(2, width / points.length);
  return points.flatMap((p, i) =>
    p.mood === "plain"
      ? []
      : [<rect key={i} class={`mark ${p.mood}`} x={at(p) - wide / 2} width={wide} y="0" height={HEIGHT} />],
  );
}

/** Points between gaps, which a line does not show. */
function lone(points: readonly Point[]): Point[] {
  const known = (p: Point | undefined) => p !== undefined && Number.isFinite(p.value);
  return points.filter((p, i) => known(p) && !known(points[i - 1]) && !known(points[i + 1]));
}

function nearest(points: readonly Point[], time: number): number {
  let best = 0;
  points.forEach((p, i) => {
    if (Math.abs(p.start - time) < Math.abs(points[best]!.start - time)) best = i;
  });
  return best;
}

function tick(start: number, seconds: number): string {
  const date = new Date(1000 * start);
  if (seconds >= 86_400) return DATE.format(date);
  return `${DATE.format(date)}, ${(seconds % 60 ? SECOND : MINUTE).format(date)}`;
}
