/** Map of associations: how strongly each pair of attributes depends, and how surely. */

import { useState } from "preact/hooks";
import type { Pair } from "../api/types";
import { chance } from "../text/format";
import { visible } from "../text/names";

const STEPS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

function clamp(value: number, most: number): number {
  return Math.min(Math.max(value, 0), most);
}

interface MatrixProps {
  readonly names: readonly string[];
  readonly pairs: readonly Pair[];
  readonly href: (pair: Pair) => string;
  readonly chosen: Pair | null;
  readonly onChoose: (pair: Pair | null) => void;
}

export function Matrix({ names, pairs, href, chosen, onChoose }: MatrixProps) {
  const found = new Map(pairs.map((pair) => [key(...pair.attributes), pair]));
  const top = Math.max(0.05, ...pairs.map((pair) => pair.strength));
  const rows = names.slice(1);
  const columns = names.slice(0, -1);
  const [at, setAt] = useState<readonly [number, number]>([0, 0]);
  const move = (event: KeyboardEvent) => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const row = clamp(at[0] + step[0], rows.length - 1);
    const next = [row, clamp(at[1] + step[1], row)] as const;
    setAt(next);
    (event.currentTarget as Element).querySelector<HTMLElement>(`[data-at="${next}"]`)?.focus();
  };
  const shared = { top, onChoose };
  return (
    <div
      class={`matrix ${names.length > 16 ? "dense" : names.length > 8 ? "crowded" : ""}`}
      role="region"
      aria-label="Map of associations; arrow keys move in it"
      onKeyDown={move}
    >
      <table style={{ "--columns": columns.length }}>
        <caption class="sr">Strength of association of each pair, 0 to 1</caption>
        <tbody>
          {rows.map((row, i) => (
            <tr key={row}>
              <th scope="row">
                <bdi>{visible(row)}</bdi>
              </th>
              {columns.slice(0, i + 1).map((column, j) => {
                const pair = found.get(key(row, column));
                const reached = i === at[0] && j === at[1];
                return (
                  <td key={column}>
                    {pair && (
                      <Cell
                        pair={pair}
                        href={href(pair)}
                        at={[i, j]}
                        reached={reached}
                        chosen={pair === chosen}
                        {...shared}
                      />
                    )}
                  </td>
                );
              })}
            </tr>
          ))}
          <Foot columns={columns} />
        </tbody>
      </table>
    </div>
  );
}

/** Names of the columns, as high as the longest needs. */
function Foot({ columns }: { columns: readonly string[] }) {
  const height = 14 + 5.4 * Math.min(22, Math.max(...columns.map((name) => [...name].length)));
  return (
    <tr class="matrix-foot">
      <td />
      {columns.map((column) => (
        <th scope="col" key={column} style={{ height: `${height}px` }}>
          <span>
            <bdi>{visible(column)}</bdi>
          </span>
        </th>
      ))}
    </tr>
  );
}

interface CellProps {
  readonly pair: Pair;
  readonly top: number;
  readonly at: readonly [number, number];
  readonly href: string;
  readonly chosen: boolean;
  /** Whether the tabulator key leads here; the arrow keys lead to all others. */
  readonly reached: boolean;
  readonly onChoose: (pair: Pair | null) => void;
}

function Cell({ pair, top, at, href, chosen, reached, onChoose }: CellProps) {
  const level = Math.round((10 * pair.strength) / top);
  const sure = isSure(pair);
  return (
    <a
      href={href}
      class={`cell level-${sure ? level : 0} ${sure ? "sure" : "unsure"} ${chosen ? "chosen" : ""}`}
      aria-label={describe(pair)}
      data-at={`${at}`}
      tabIndex={reached ? 0 : -1}
      onPointerEnter={() => onChoose(pair)}
      onFocus={() => onChoose(pair)}
    >
      <span aria-hidden="true">{sure ? pair.strength.toFixed(2).replace("0.", ".") : "·"}</span>
    </a>
  );
}

export function isSure(pair: Pair): boolean {
  return pair.verdict === "dependent";
}

export function describe(pair: Pair): string {
  const [a, b] = pair.attributes;
  const test = pair.p === null ? "" : `, ${chance(pair.p)}`;
  return `${a} and ${b}: ${pair.verdict}, strength ${pair.strength.toFixed(2)}${test}`;
}

export function key(a: string, b: string): string {
  return a < b ? `${a}\n${b}` : `${b}\n${a}`;
}
