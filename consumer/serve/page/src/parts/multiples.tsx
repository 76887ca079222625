/** Small multiples: every label over windows, with its band. */

import { useState } from "preact/hooks";
import type { Series, SeriesWindow, Tracked } from "../api/types";
import { Band, type Point } from "../charts/band";
import { combinations, mood } from "../charts/model";
import { count, counted, decimals, half, percent, span, Z95 } from "../text/format";
import { visible } from "../text/names";
import { Names } from "./names";

const PANELS = 12;
const MORE = 48;

interface Track {
  readonly title: string;
  /** What it is now where that is known, else the finals. */
  readonly points: readonly Point[];
  /** The finals beside what it is now. */
  readonly dots: readonly Point[];
}

function tracks(series: Series): Track[] {
  return combinations(series.labels).map((labels, cell) => ({
    title: labels.map(visible).join(" · "),
    points: series.windows.map((window) => point(window, window.current ?? window, cell)),
    dots: series.windows.filter((window) => window.current && window.table).map((window) => point(window, window, cell)),
  }));
}

function point(window: SeriesWindow, known: SeriesWindow | Tracked, cell: number): Point {
  return {
    start: window.start,
    value: known.table?.[cell] ?? NaN,
    stderr: known.stderr?.[cell] ?? NaN,
    mood: known.reports === 0 ? "plain" : mood(known.flags),
  };
}

/** All labels of a series; one cursor reads them at the same window. */
export function Multiples({ series, seconds }: { series: Series; seconds: number }) {
  const [cursor, setCursor] = useState<number | null>(null);
  const [own, setOwn] = useState(false);
  const [limit, setLimit] = useState(PANELS);
  const all = tracks(series).sort((a, b) => mean(b) - mean(a));
  const shown = all.slice(0, limit);
  const at = cursor ?? series.windows.length - 1;
  const common = bounds(shown);
  const shared = {
    at,
    cursor,
    onCursor: setCursor,
    seconds,
    digits: decimals(series.windows.flatMap((w) => w.stderr ?? [])),
  };
  return (
    <article class="card time" aria-label={series.attributes.join(" and ")}>
      <header>
        <div>
          <h2>
            <Names of={series.attributes} />
          </h2>
          <p class="about">
            <output>{windowWords(series, at)}</output>
          </p>
        </div>
        <label class="switch">
          <input type="checkbox" checked={own} onChange={() => setOwn(!own)} /> Own scale each
        </label>
      </header>
      <Warnings series={series} />
      <Slider series={series} at={at} onCursor={setCursor} />
      <div class="multiples">
        {shown.map((track) => (
          <One key={track.title} track={track} range={own ? bounds([track]) : common} {...shared} />
        ))}
      </div>
      {all.length > limit && (
        <button type="button" class="more" onClick={() => setLimit(limit + MORE)}>
          Show {count(Math.min(MORE, all.length - limit))} more of {count(all.length)}
        </button>
      )}
    </article>
  );
}

function Slider({ series, at, onCursor }: { series: Series; at: number; onCursor: (index: number) => void }) {
  const move = (event: Event) => onCursor(Number((event.currentTarget as HTMLInputElement).value));
  return (
    <label class="slider">
      <span class="sr">Window</span>
      <input
        type="range"
        min="0"
        max={series.windows.length - 1}
        value={at}
        aria-valuetext={windowWords(series, at)}
        onInput={move}
      />
    </label>
  );
}

interface OneProps {
  readonly track: Track;
  readonly at: number;
  readonly digits: number;
  readonly range: readonly [number, number];
  readonly cursor: number | null;
  readonly onCursor: (index: number | null) => void;
  readonly seconds: number;
}

function One({ track, at, digits, range: [bottom, top], ...rest }: OneProps) {
  const point = track.points[at]!;
  const known = Number.isFinite(point.value);
  return (
    <section class="multiple">
      <h3>
        <bdi>{track.title}</bdi>
      </h3>
      <p class={`value ${point.mood}`}>
        {known ? (
          <>
            <strong>{percent(point.value, digits)}</strong> <span>{half(point.stderr, digits)}</span>
          </>
        ) : (
          <span>no table</span>
        )}
        {known && point.mood !== "plain" && <em>{point.mood}</em>}
      </p>
      <Band points={track.points} dots={track.dots} bottom={bottom} top={top} {...rest} />
    </section>
  );
}

function Warnings({ series }: { series: Series }) {
  const noisy = series.windows.filter((w) => w.reports > 0 && mood(w.flags) === "noise").length;
  const forged = series.windows.filter((w) => mood(w.flags) === "suspicious").length;
  const none = series.windows.filter((w) => w.reports === 0).length;
  const tracked = series.windows.some((w) => w.current);
  return (
    <p class="legend">
      <span>
        <i class="key line" />
        {tracked ? "now: the window, with what earlier ones say" : "estimate"}
      </span>
      {tracked && (
        <span>
          <i class="key dot" />
          the window alone
        </span>
      )}
      <span>
        <i class="key area" />
        95 % interval
      </span>
      {noisy > 0 && (
        <span>
          <i class="key noise" />
          noise: draw no conclusion ({counted(noisy, "window")})
        </span>
      )}
      {forged > 0 && (
        <span>
          <i class="key suspicious" />
          suspicious ({counted(forged, "window")})
        </span>
      )}
      {none > 0 && <span>gap: no reports ({counted(none, "window")})</span>}
      {series.truncated && <span class="error">The server stopped early; some windows are missing.</span>}
    </p>
  );
}

function windowWords(series: Series, at: number): string {
  const window = series.windows[at]!;
  return `Window ${window.window} (${span(window.start, window.end)}) · ${counted(window.reports, "report")}`;
}

function mean(track: Track): number {
  const known = track.points.filter((p) => Number.isFinite(p.value));
  return known.reduce((sum, p) => sum + p.value, 0) / Math.max(1, known.length);
}

/** Lowest and highest end of the bands, without the widest ones that are noise. */
function bounds(shown: readonly Track[]): [number, number] {
  const points = shown.flatMap((t) => t.points).filter((p) => Number.isFinite(p.value));
  const calm = points.filter((p) => p.mood === "plain");
  const used = calm.length ? calm : points;
  const low = Math.min(...used.map((p) => p.value - Z95 * p.stderr), 1);
  const high = Math.max(...used.map((p) => p.value + Z95 * p.stderr), 1e-6);
  return [shown.length > 1 ? 0 : Math.max(0, low), Math.min(1, high)];
}
