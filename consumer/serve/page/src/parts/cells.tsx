/** The cells of an answer as a table with search and pages. */

import { useMemo, useState } from "preact/hooks";
import type { Answer } from "../api/types";
import { combinations, weak } from "../charts/model";
import { count, half, percent, points } from "../text/format";
import { visible } from "../text/names";

const PAGE = 100;

interface Cell {
  readonly labels: readonly string[];
  readonly value: number;
  readonly stderr: number;
}

interface CellsProps {
  readonly answer: Answer;
  readonly change: boolean;
  readonly digits: number;
}

export function Cells(props: CellsProps) {
  const { answer } = props;
  const [search, setSearch] = useState("");
  const [bySize, setBySize] = useState(false);
  const [page, setPage] = useState(0);
  const cells = useMemo(() => cellsOf(answer), [answer]);
  const found = useMemo(() => select(cells, search, bySize), [cells, search, bySize]);
  const last = Math.max(0, Math.ceil(found.length / PAGE) - 1);
  const at = Math.min(page, last);
  const look = (letters: string) => {
    setSearch(letters);
    setPage(0);
  };
  return (
    <div class="cells">
      <div class="cells-tools">
        {cells.length > 12 && (
          <input
            type="search"
            placeholder="Search labels"
            aria-label="Search labels"
            value={search}
            onInput={(e) => look(e.currentTarget.value)}
          />
        )}
        <label>
          <input type="checkbox" checked={bySize} onChange={() => setBySize(!bySize)} /> Largest first
        </label>
        <span class="hint" role="status">
          {count(found.length)} of {count(cells.length)} cells
        </span>
      </div>
      <Grid cells={found.slice(at * PAGE, (at + 1) * PAGE)} {...props} />
      {last > 0 && <Pages at={at} last={last} onPage={setPage} />}
    </div>
  );
}

function cellsOf(answer: Answer): Cell[] {
  return combinations(answer.labels).map((labels, i) => ({
    labels,
    value: answer.table[i] ?? NaN,
    stderr: answer.stderr[i] ?? NaN,
  }));
}

function Grid({ cells, answer, change, digits }: CellsProps & { cells: readonly Cell[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Cells">
      <table class="grid-table">
        <thead>
          <tr>
            {answer.attributes.map((name) => (
              <th key={name} scope="col">
                <bdi>{visible(name)}</bdi>
              </th>
            ))}
            <th scope="col" class="number">
              {change ? "Change, points" : "Proportion"}
            </th>
            <th scope="col" class="number">
              ± 95 %
            </th>
          </tr>
        </thead>
        <tbody>
          {cells.map((cell) => (
            <Row key={cell.labels.join("\n")} cell={cell} change={change} digits={digits} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Pages({ at, last, onPage }: { at: number; last: number; onPage: (page: number) => void }) {
  return (
    <nav class="pages" aria-label="Pages of cells">
      <button type="button" disabled={at === 0} onClick={() => onPage(at - 1)}>
        Previous
      </button>
      <span>
        Page {count(at + 1)} of {count(last + 1)}
      </span>
      <button type="button" disabled={at === last} onClick={() => onPage(at + 1)}>
        Next
      </button>
    </nav>
  );
}

function Row({ cell, change, digits }: { cell: Cell; change: boolean; digits: number }) {
  return (
    <tr class={weak(cell) ? "weak" : ""}>
      {cell.labels.map((label, i) => (
        <td key={i}>
          <bdi>{visible(label)}</bdi>
        </td>
      ))}
      <td class="number">{change ? points(cell.value, digits) : percent(cell.value, digits)}</td>
      <td class="number">{Number.isFinite(cell.stderr) ? half(cell.stderr, digits) : "–"}</td>
    </tr>
  );
}

function select(cells: readonly Cell[], search: string, bySize: boolean): Cell[] {
  const letters = search.trim().toLocaleLowerCase();
  const found = letters
    ? cells.filter((cell) => cell.labels.some((label) => label.toLocaleLowerCase().includes(letters)))
    : [...cells];
  return bySize ? found.sort((a, b) => Math.abs(b.value) - Math.abs(a.value)) : found;
}
