/** What changed, by the server's tests of the raw counts. */

import { useState } from "preact/hooks";
import type { ChangeTests, Plan, TableChange } from "../api/types";
import { Bars } from "../charts/bars";
import { extent, mood, noise, type Row } from "../charts/model";
import { link } from "../state/route";
import { chance, count, counted, decimals, span } from "../text/format";
import { joined, visible } from "../text/names";
import { Flags } from "./flags";
import { Names } from "./names";

/** Of the tables called changed, so large a share is a false finding on average. */
const FALSE_SHARE = 0.05;
const CARDS = 8;
const ROWS = 8;
const TAGS = 60;

export function TestedChanges({ tests, plan }: { tests: ChangeTests; plan: Plan }) {
  const [all, setAll] = useState(false);
  const changed = tests.tables
    .filter(isChanged)
    .sort((a, b) => a.attributes.length - b.attributes.length || a.p_adjusted! - b.p_adjusted!);
  const tested = tests.tables.filter((table) => table.p_adjusted !== null);
  const windows = { windows: range(tests.window), minus: range(tests.against) };
  const href = (table: TableChange) => link(plan.name, "tables", { attributes: joined(table.attributes), ...windows });
  return (
    <>
      <p class="about">
        Compares {side(tests.window, tests.reports[0])} with {side(tests.against, tests.reports[1])}
      </p>
      <p class="summary">
        <strong>
          {changed.length
            ? `${count(changed.length)} of ${counted(tested.length, "table")} changed.`
            : `None of ${counted(tested.length, "table")} changed.`}
        </strong>{" "}
        The tests use the raw counts. Of the tables called changed, one in twenty is a false finding on average.
      </p>
      <Flags flags={tests.flags} />
      <div class="change-cards">
        {changed.slice(0, all ? undefined : CARDS).map((table) => (
          <Card key={joined(table.attributes)} table={table} href={href(table)} />
        ))}
      </div>
      {changed.length > CARDS && !all && (
        <button type="button" class="more" onClick={() => setAll(true)}>
          Show all {changed.length}
        </button>
      )}
      <Tags title="No change found" tables={tested.filter((table) => !isChanged(table))} href={href} />
      <NotTested tables={tests.tables.filter((table) => table.p_adjusted === null)} />
    </>
  );
}

function isChanged(table: TableChange): boolean {
  return table.p_adjusted !== null && table.p_adjusted < FALSE_SHARE;
}

function range({ first, last }: ChangeTests["window"]): string {
  return first === last ? String(first) : `${first}..${last}`;
}

function side(windows: ChangeTests["window"], reports: number): string {
  const which =
    windows.first === windows.last ? `window ${windows.first}` : `windows ${windows.first} to ${windows.last}`;
  return `${which} (${span(windows.start, windows.end)}, ${counted(reports, "report")})`;
}

function Card({ table, href }: { table: TableChange; href: string }) {
  const rows = clearest(table);
  const errors = table.differences.map((cell) => cell.stderr);
  return (
    <section class="card change">
      <h2>
        <a href={href}>
          <Names of={table.attributes} />
        </a>
      </h2>
      <p class="about">
        {chance(table.p_adjusted!)} after correction for the number of tables{dependence(table)}
      </p>
      <Flags flags={table.flags.filter((flag) => flag === "partial" || flag === "left-out")} />
      <Bars
        rows={rows}
        caption={`Changes of ${table.attributes.join(" and ")}`}
        domain={extent(rows, true)}
        noise={noise(errors)}
        digits={decimals(errors)}
        mood={mood(table.flags)}
        change
      />
      {table.differences.length > rows.length && (
        <p class="rest">
          <span>
            The clearest {rows.length} of {counted(table.differences.length, "cell")}
          </span>
          <a href={href}>All cells</a>
        </p>
      )}
    </section>
  );
}

/** Whether more than the margins of a pair moved. */
function dependence({ dependence_p: p }: TableChange): string {
  if (p === null) return "";
  return p < FALSE_SHARE ? `; the dependence changed (${chance(p)})` : "; no sign that the dependence changed";
}

/** The cells with the largest changes in standard errors. */
function clearest(table: TableChange): Row[] {
  const rows = table.differences.map(({ labels, value, stderr }, place) => ({
    label: labels.map(visible).join(" · "),
    value,
    stderr,
    place,
  }));
  const size = (row: Row) => (row.stderr > 0 ? Math.abs(row.value) / row.stderr : 0);
  return rows.sort((a, b) => size(b) - size(a)).slice(0, ROWS);
}

function Tags({
  title,
  tables,
  href,
}: {
  title: string;
  tables: readonly TableChange[];
  href: (table: TableChange) => string;
}) {
  if (!tables.length) return null;
  return (
    <section class="card">
      <h2>{title}</h2>
      <ul class="tags">
        {tables.slice(0, TAGS).map((table) => (
          <li key={joined(table.attributes)}>
            <a href={href(table)}>
              <Names of={table.attributes} />
            </a>
          </li>
        ))}
      </ul>
      {tables.length > TAGS && <p class="hint">and {counted(tables.length - TAGS, "more table")}</p>}
    </section>
  );
}

function NotTested({ tables }: { tables: readonly TableChange[] }) {
  if (!tables.length) return null;
  const reasons = new Map<string, number>();
  for (const { reason } of tables) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  return (
    <section class="card">
      <h2>Not tested</h2>
      <ul class="reasons">
        {[...reasons].map(([reason, number]) => (
          <li key={reason}>
            {counted(number, "table")}: <bdi>{reason}</bdi>
          </li>
        ))}
      </ul>
    </section>
  );
}
