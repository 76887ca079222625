/** Mean, median and other statistics of an answer, in a line above its chart. */

import type { Attribute, Question, Statistic, Summary } from "../api/types";
import { useSession } from "../state/context";
import { useResource } from "../state/hooks";
import { meaning } from "../text/flags";
import { number, percent } from "../text/format";
import { visible } from "../text/names";

const STANDARD = ["mean", "median"];
const NAMES: Readonly<Record<string, string>> = {
  mean: "Mean",
  median: "Median",
  rank: "Rank correlation",
  "share:yes": "Share",
};
const SHOWN = ["binned", "blurred"];

export interface Asked {
  readonly attributes: readonly string[];
  readonly given: readonly string[];
  readonly statistics: readonly string[];
}

/** What is asked about the attributes of a question; null where nothing fits. */
export function statisticsOf(
  question: Question,
  attributes: readonly Attribute[],
  published: readonly string[],
): Asked | null {
  if (question.minus || question.group || question.attributes.length > 2) return null;
  const found = question.attributes.map((name) => attributes.find((one) => one.name === name));
  const order = found.map(rank);
  const own = published.filter((name) => name !== "rank");
  const statistics = own.length ? own : STANDARD;
  if (order.length === 1) return order[0] === 2 ? { attributes: question.attributes, given: [], statistics } : null;
  if (order[0] === order[1]) {
    return order[0] === 2 ? { attributes: question.attributes, given: [], statistics: ["rank"] } : null;
  }
  const given = [question.attributes[order[0]! < order[1]! ? 0 : 1]!];
  const option = Math.max(...order) === 1;
  return { attributes: question.attributes, given, statistics: option ? ["share:yes"] : statistics };
}

/** 2 for numbers and ordered labels, 1 for options, 0 for categories. */
function rank(attribute: Attribute | undefined): number {
  if (attribute?.kind === "number" || attribute?.kind === "ordered") return 2;
  return attribute?.kind === "option" ? 1 : 0;
}

export function Statistics({ question }: { question: Question }) {
  const { client, plan, newest } = useSession();
  const asked = statisticsOf(question, plan.attributes, plan.summaries ?? []);
  const key = asked && `statistics ${plan.digest} ${question.windows} ${JSON.stringify(asked)}`;
  const found = useResource(key, newest, (signal) => client.summary(plan.name, asked!, question.windows, signal));
  // A server without statistics, or a table without reports: the table itself says why.
  if (!asked || !found.fresh || !found.data) return null;
  return <Shown summary={found.data} />;
}

function Shown({ summary }: { summary: Summary }) {
  const flags = summary.flags.filter((flag) => SHOWN.includes(flag));
  return (
    <div class="statistics">
      {summary.given.length ? <Given summary={summary} /> : <Line summary={summary} />}
      {flags.length > 0 && <p class="hint">{flags.map(meaning).join(" ")}</p>}
    </div>
  );
}

function Line({ summary }: { summary: Summary }) {
  return (
    <dl>
      {(summary.rows[0]?.statistics ?? []).map((one) => (
        <div key={one.statistic}>
          <dt>{nameOf(one)}</dt>
          <dd>
            <strong>{valueOf(one, summary.unit)}</strong> <span>{rangeOf(one)}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Given({ summary }: { summary: Summary }) {
  const names = summary.rows[0]?.statistics ?? [];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Statistics">
      <table class="grid-table">
        <thead>
          <tr>
            <th scope="col">
              <bdi>{visible(summary.given[0]!)}</bdi>
            </th>
            {names.map((one) => (
              <th key={one.statistic} scope="col" class="number">
                {nameOf(one)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {summary.rows.map((row) => (
            <tr key={row.labels.join("\n")}>
              <td>
                <bdi>{row.labels.map(visible).join(", ")}</bdi>
              </td>
              {row.statistics.map((one) => (
                <td key={one.statistic} class="number">
                  <strong>{valueOf(one, summary.unit)}</strong> <span>{rangeOf(one)}</span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function nameOf({ statistic }: Statistic): string {
  if (statistic.startsWith("q")) return `${number(100 * Number(statistic.slice(1)))} % quantile`;
  return NAMES[statistic] ?? statistic;
}

function valueOf({ statistic, value }: Statistic, unit: string): string {
  if (value === null) return "unknown";
  if (statistic.startsWith("share:")) return percent(value, 1);
  return unit ? `${number(value)}\u00a0${visible(unit)}` : number(value);
}

function rangeOf({ statistic, low, high }: Statistic): string {
  if (low === null || high === null) return "";
  if (statistic.startsWith("share:")) return `${percent(low, 1)} to ${percent(high, 1)}`;
  return `${number(low)} to ${number(high)}`;
}
