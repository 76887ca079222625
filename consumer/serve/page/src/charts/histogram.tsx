/** A table of a number as a histogram over its edges, with 95 % intervals. */

import type { Attribute } from "../api/types";
import { half, number, percent, Z95 } from "../text/format";
import { visible } from "../text/names";
import { heights, type Scale } from "./bins";
import { noise, weak, type Mood, type Row } from "./model";

interface HistogramProps {
  readonly attribute: Attribute;
  readonly scale: Scale;
  readonly rows: readonly Row[];
  readonly caption: string;
  /** The largest height of all panels. */
  readonly top: number;
  readonly digits: number;
  readonly mood: Mood;
}

/** Intervals are drawn up to so many bars, and their caps up to fewer. */
const MARKED = 256;
const CAPPED = 40;

export function Histogram({ attribute, scale, rows, caption, top, digits, mood }: HistogramProps) {
  const bars = heights(scale, rows, Z95);
  const x = (at: number) => `${(100 * at).toFixed(3)}%`;
  const y = (height: number) => `${(100 * (1 - Math.min(height / top, 1))).toFixed(3)}%`;
  const size = (from: number, to: number) => `${(100 * Math.max(to - from, 0)).toFixed(3)}%`;
  const floor = Z95 * noise(rows.map((row) => row.stderr));
  const unit = attribute.unit ? `, ${visible(attribute.unit)}` : "";
  const words = `${caption}: histogram of ${rows.length} labels; the table has all numbers`;
  return (
    <figure class={`histogram ${mood}`}>
      <div class="histogram-plot">
        {scale.even && <span class="histogram-top">{percent(top, top < 0.1 ? 1 : 0)}</span>}
        <svg role="img" aria-label={words}>
          {scale.ticks.map(({ at }) => (
            <line key={at} class="grid" x1={x(at)} x2={x(at)} y1="0" y2="100%" />
          ))}
          {rows.map((row, i) => {
            const [bin, bar] = [scale.bins[i]!, bars[i]!];
            const middle = (bin.from + bin.to) / 2;
            const cap = Math.min(0.008, (bin.to - bin.from) / 4);
            return (
              <g key={row.place} class={weak(row) ? "bar-row weak" : "bar-row"}>
                <title>{`${visible(row.label)}: ${percent(row.value, digits)} ${half(row.stderr, digits)}`}</title>
                <rect
                  class="floor"
                  x={x(bin.from)}
                  width={size(bin.from, bin.to)}
                  y={y(bar.by * floor)}
                  height={size(0, Math.min((bar.by * floor) / top, 1))}
                />
                <rect
                  class={bin.inside ? "bar" : "bar beside"}
                  x={x(bin.from)}
                  width={size(bin.from, bin.to)}
                  y={y(bar.value)}
                  height={size(0, Math.min(bar.value / top, 1))}
                />
                {rows.length <= MARKED && Number.isFinite(row.stderr) && (
                  <g class="whisker">
                    <line x1={x(middle)} x2={x(middle)} y1={y(bar.low)} y2={y(bar.high)} />
                    {rows.length <= CAPPED &&
                      [bar.low, bar.high].map((end, which) => (
                        <line key={which} x1={x(middle - cap)} x2={x(middle + cap)} y1={y(end)} y2={y(end)} />
                      ))}
                  </g>
                )}
              </g>
            );
          })}
          <line class="zero" x1="0" x2="100%" y1="100%" y2="100%" />
        </svg>
      </div>
      <svg class={scale.ticks.length > 4 ? "axis many" : "axis"} aria-hidden="true">
        {scale.ticks.map(({ at, value }, i) => (
          <text key={at} x={x(at)} y="12" text-anchor={anchor(at, i, scale.ticks.length)}>
            {number(value)}
          </text>
        ))}
      </svg>
      <figcaption>
        <bdi>{visible(attribute.name)}</bdi>
        {unit}
        {scale.log && ", logarithmic"}
        {!scale.even && "; the area of a bar is its proportion"}
        <Beside labels={rows.filter((_, i) => !scale.bins[i]!.inside).map((row) => row.label)} />
      </figcaption>
    </figure>
  );
}

/** The first and last number stay within the picture. */
function anchor(at: number, place: number, count: number): "start" | "middle" | "end" {
  if (place === 0 && at < 0.03) return "start";
  return place === count - 1 && at > 0.97 ? "end" : "middle";
}

function Beside({ labels }: { labels: readonly string[] }) {
  if (!labels.length) return null;
  return <>; beside the scale: {labels.map(visible).join(", ")}</>;
}
