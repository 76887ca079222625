/** A table as bars with 95 % intervals: a table for screen readers, too. */

import { scaleLinear } from "d3-scale";
import { half, percent, points, Z95 } from "../text/format";
import { weak, type Mood, type Row } from "./model";
import { visible } from "../text/names";

export interface BarsProps {
  readonly rows: readonly Row[];
  readonly caption: string;
  readonly domain: readonly [number, number];
  /** Standard error of a typical cell; the noise floor is 1.96 of it. */
  readonly noise: number;
  readonly digits: number;
  readonly mood: Mood;
  readonly change: boolean;
}

type Position = (value: number) => string;

export function Bars(props: BarsProps) {
  const scale = scaleLinear().domain(props.domain).nice(5).range([0, 100]).clamp(true);
  const at: Position = (value) => `${scale(value).toFixed(3)}%`;
  const ticks = scale.ticks(5);
  return (
    <div class={`bars ${props.mood}`} role="table" aria-label={props.caption}>
      <div class="bars-head" role="row">
        <span role="columnheader">Label</span>
        <span role="columnheader" class="bars-axis">
          <span class="sr">Bar</span>
          <Axis ticks={ticks} at={at} change={props.change} />
        </span>
        <span role="columnheader" class="bars-number">
          {props.change ? "Change, points" : "Proportion"}
        </span>
        <span role="columnheader" class="bars-half">
          ± 95 %
        </span>
      </div>
      {props.rows.map((row) => (
        <BarRow key={`${row.place}`} row={row} at={at} ticks={ticks} {...props} />
      ))}
    </div>
  );
}

function Axis({ ticks, at, change }: { ticks: number[]; at: Position; change: boolean }) {
  return (
    <svg class={ticks.length > 6 ? "axis many" : "axis"} aria-hidden="true">
      {ticks.map((tick, i) => (
        <text
          key={tick}
          x={at(tick)}
          y="12"
          text-anchor={i === 0 ? "start" : i === ticks.length - 1 ? "end" : "middle"}
        >
          {change ? points(tick, step(ticks)) : percent(tick, step(ticks))}
        </text>
      ))}
    </svg>
  );
}

/** Decimals that distinguish the ticks. */
function step(ticks: readonly number[]): number {
  const gap = 100 * Math.abs((ticks[1] ?? 1) - (ticks[0] ?? 0));
  return gap >= 1 ? 0 : gap >= 0.1 ? 1 : 2;
}

function BarRow(props: BarsProps & { row: Row; at: Position; ticks: number[] }) {
  const { row, at, digits, change } = props;
  return (
    <div class={`bar-row${weak(row) ? " weak" : ""}`} role="row">
      <span role="rowheader" class="bar-label" title={visible(row.label)}>
        <bdi>{visible(row.label)}</bdi>
      </span>
      <span role="cell" class="bar-track">
        <Bar row={row} at={at} ticks={props.ticks} noise={props.noise} change={change} />
      </span>
      <span role="cell" class="bars-number">
        {change ? points(row.value, digits) : percent(row.value, digits)}
      </span>
      <span role="cell" class="bars-half">
        {Number.isFinite(row.stderr) ? half(row.stderr, digits) : "–"}
        {weak(row) && <span class="sr">, not distinguishable from zero</span>}
      </span>
    </div>
  );
}

function Bar({
  row,
  at,
  ticks,
  noise,
  change,
}: {
  row: Row;
  at: Position;
  ticks: number[];
  noise: number;
  change: boolean;
}) {
  const floor = Z95 * noise;
  const [low, high] = [Math.min(0, row.value), Math.max(0, row.value)];
  const reach = Z95 * row.stderr;
  return (
    <svg aria-hidden="true">
      {ticks.map((tick) => (
        <line key={tick} class="grid" x1={at(tick)} x2={at(tick)} y1="0" y2="100%" />
      ))}
      <rect
        class="floor"
        x={at(change ? -floor : 0)}
        width={width(at, change ? -floor : 0, floor)}
        y="0"
        height="100%"
      />
      <rect class="bar" x={at(low)} width={width(at, low, high)} y="22%" height="56%" rx="2" />
      {Number.isFinite(row.stderr) && (
        <Whisker from={at(change ? row.value - reach : Math.max(0, row.value - reach))} to={at(row.value + reach)} />
      )}
      {change && <line class="zero" x1={at(0)} x2={at(0)} y1="0" y2="100%" />}
    </svg>
  );
}

function width(at: Position, low: number, high: number): string {
  return `${Math.max(0, parseFloat(at(high)) - parseFloat(at(low))).toFixed(3)}%`;
}

function Whisker({ from, to }: { from: string; to: string }) {
  return (
    <g class="whisker">
      <line x1={from} x2={to} y1="50%" y2="50%" />
      <line x1={from} x2={from} y1="34%" y2="66%" />
      <line x1={to} x2={to} y1="34%" y2="66%" />
    </g>
  );
}
