/** What changed, by the differences of two estimates: for servers without tests of change. */

import type { Answer, Final, Plan } from "../api/types";
import { Bars } from "../charts/bars";
import { extent, mood, noise, panels, type Row } from "../charts/model";
import { Flags } from "./flags";
import { link } from "../state/route";
import { count, counted, decimals, span } from "../text/format";
import { joined, visible } from "../text/names";

/** Standard errors beyond which a change counts as clear. */
const CLEAR = 3;
/** Share of values without a change that lie beyond: of a normal distribution. */
const BY_CHANCE = 0.0027;

export interface Change {
  readonly name: string;
  readonly answer: Answer | null;
  readonly why: string;
}

export interface Differences {
  readonly newer: Final;
  readonly older: Final;
  readonly changes: readonly Change[];
}

export function SimpleChanges({ data, plan }: { data: Differences; plan: Plan }) {
  const { newer, older, changes } = data;
  const answered = changes.filter((c) => c.answer !== null);
  const cells = answered.reduce((sum, c) => sum + c.answer!.table.length, 0);
  const clear = answered.filter((c) => clearRows(c.answer!).length > 0);
  const quiet = answered.filter((c) => !clear.includes(c));
  const failed = changes.filter((c) => c.answer === null);
  const windows = { windows: String(newer.window), minus: String(older.window) };
  const href = (name: string) => link(plan.name, "tables", { attributes: joined([name]), ...windows });
  return (
    <>
      <p class="about">
        Window {newer.window} ({span(newer.start, newer.end)}, {counted(newer.reports, "report")}) minus window{" "}
        {older.window} ({counted(older.reports, "report")})
      </p>
      {answered.length > 0 && (
        <p class="summary">
          <strong>{summary(clear.length, answered.length)}</strong> A change is clear beyond {CLEAR} standard
          errors. Of {counted(cells, "cell")} about {(BY_CHANCE * cells).toFixed(1)} would be beyond by chance alone.
        </p>
      )}
      <div class="change-cards">
        {clear.map((c) => (
          <Card key={c.name} answer={c.answer!} href={href(c.name)} />
        ))}
      </div>
      <Quiet names={quiet.map((c) => c.name)} href={href} />
      <Failed changes={failed} />
      <p class="hint">
        This compares two estimates. The command calmstream changes tests all tables, with a stated rate of false
        alarms.
      </p>
      {plan.attributes.length > changes.length && (
        <p class="hint">
          The first {count(changes.length)} of {count(plan.attributes.length)} attributes are compared.
        </p>
      )}
    </>
  );
}

function Quiet({ names, href }: { names: readonly string[]; href: (name: string) => string }) {
  if (!names.length) return null;
  return (
    <section class="card">
      <h2>No clear change</h2>
      <ul class="tags">
        {names.map((name) => (
          <li key={name}>
            <a href={href(name)}>
              <bdi>{visible(name)}</bdi>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Failed({ changes }: { changes: readonly Change[] }) {
  if (!changes.length) return null;
  return (
    <section class="card">
      <h2>Not compared</h2>
      <ul class="reasons">
        {reasons(changes).map(([why, names]) => (
          <li key={why}>
            <bdi>{names.map(visible).join(", ")}</bdi>: <bdi>{why}</bdi>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Card({ answer, href }: { answer: Answer; href: string }) {
  const rows = clearRows(answer);
  const digits = decimals(answer.stderr);
  return (
    <section class="card change">
      <h2>
        <a href={href}>
          <bdi>{visible(answer.attributes[0]!)}</bdi>
        </a>
      </h2>
      <Flags flags={answer.flags.filter((flag) => flag === "noise" || flag === "suspicious")} />
      <Bars
        rows={rows}
        caption={`Clear changes of ${answer.attributes[0]}`}
        domain={extent(rows, true)}
        noise={noise(answer.stderr)}
        digits={digits}
        mood={mood(answer.flags)}
        change
      />
    </section>
  );
}

/** Rows that changed clearly, the clearest first. */
function clearRows(answer: Answer): Row[] {
  const sigma = (row: Row) => Math.abs(row.value) / row.stderr;
  const rows = panels(answer)[0]?.rows ?? [];
  return rows
    .filter((row) => sigma(row) > CLEAR)
    .sort((a, b) => sigma(b) - sigma(a))
    .slice(0, 8);
}

function summary(clear: number, all: number): string {
  if (clear === 0) return `None of ${counted(all, "attribute")} changed clearly.`;
  return `${count(clear)} of ${counted(all, "attribute")} changed clearly.`;
}

function reasons(failed: readonly Change[]): [string, string[]][] {
  const found = new Map<string, string[]>();
  for (const { name, why } of failed) found.set(why, [...(found.get(why) ?? []), name]);
  return [...found];
}
