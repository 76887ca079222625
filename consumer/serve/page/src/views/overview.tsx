/** The plan in plain words, how many reports there are, and what can be looked at. */

import { useState } from "preact/hooks";
import type { Attribute, Plan, WindowList } from "../api/types";
import { Timeline } from "../charts/timeline";
import { Glance } from "../parts/glance";
import { matching } from "../parts/picker";
import { Empty, Loaded } from "../parts/states";
import { useSession } from "../state/context";
import { useResource } from "../state/hooks";
import { count, counted, duration, moment, span } from "../text/format";

const WINDOWS = 200;

export function Overview() {
  const { client, plan, pulse } = useSession();
  const windows = useResource(`windows ${plan.digest}`, pulse, (signal) => client.windows(plan.name, WINDOWS, signal));
  return (
    <div class="overview">
      <header class="hero">
        <h1>
          <bdi>{plan.name}</bdi>
        </h1>
        {plan.purpose && plan.owner && (
          <p class="lead">
            Collected <bdi>{purpose(plan)}</bdi>, by <bdi>{plan.owner}</bdi>.
          </p>
        )}
      </header>
      <Loaded of={windows} lines={4}>
        {(found) => <Numbers plan={plan} windows={found} />}
      </Loaded>
      <Words plan={plan} />
      <Attributes attributes={plan.attributes} />
    </div>
  );
}

/** "to learn X", or the purpose as it stands. */
function purpose({ purpose: text }: Plan): string {
  return /^(to|for)\s/i.test(text) ? text : `to learn: ${text}`;
}

function Numbers({ plan, windows }: { plan: Plan; windows: WindowList }) {
  const { finals, early } = windows;
  const reports = finals.reduce((sum, final) => sum + final.reports, 0);
  const last = finals.at(-1);
  const all = last !== undefined && finals[0]!.window === 0;
  return (
    <section aria-label="Numbers">
      <dl class="facts">
        <Fact
          name={all || !last ? "Reports counted" : `Reports, last ${count(finals.length)} windows`}
          value={count(reports)}
          more={
            early ? `${counted(early.reports, "report")} so far in window ${early.window}` : "in windows that are over"
          }
        />
        <Fact
          name="Newest window"
          value={last ? String(last.window) : "none"}
          more={last ? span(last.start, last.end) : "No window is over yet."}
        />
        <Fact name="Privacy cost of a report" value={`ε = ${plan.epsilon}`} more={cost(plan)} />
        <Fact
          name="Attributes"
          value={count(plan.attributes.length)}
          more={`${counted(plan.published.length, "published table")}; any other on request`}
        />
      </dl>
      {last ? <Reports windows={windows} /> : <Empty title="No window is over yet">{expectation(plan)}</Empty>}
    </section>
  );
}

function Fact({ name, value, more }: { name: string; value: string; more: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <strong>{value}</strong>
        <span>{more}</span>
      </dd>
    </div>
  );
}

function cost(plan: Plan): string {
  const most = `at most ${plan.loss.plan} over the whole plan`;
  return plan.guarantee === "once" ? "every device reports once" : most;
}

function expectation({ windows }: Plan): string {
  const first = windows.first_start + windows.seconds + windows.grace;
  return `The first window of ${duration(windows.seconds)} is over on ${moment(first)}. The tables appear here by themselves.`;
}

function Reports({ windows }: { windows: WindowList }) {
  const none = windows.finals.filter((f) => f.reports === 0).length;
  const suspicious = windows.finals.filter((f) => f.suspicious);
  return (
    <div class="card">
      <h2>Reports in each window</h2>
      <Timeline finals={windows.finals} />
      {none > 0 && <p class="hint">{counted(none, "window")} received no reports.</p>}
      {suspicious.length > 0 && (
        <p class="hint suspicious">
          The counts of {suspicious.length === 1 ? "window" : "windows"} {few(suspicious.map((f) => f.window))} look
          forged.
        </p>
      )}
    </div>
  );
}

function few(numbers: readonly number[]): string {
  const shown = numbers.slice(-8).join(", ");
  return numbers.length > 8 ? `${shown} and ${numbers.length - 8} more` : shown;
}

/** Sentences about the loss stand beside its numbers. */
const COST = /privacy|epsilon|loses|costs?\b/i;

function Words({ plan }: { plan: Plan }) {
  const cost = plan.words.filter((sentence) => COST.test(sentence));
  return (
    <div class="columns">
      <section class="card words">
        <h2>What is collected</h2>
        {plan.words
          .filter((sentence) => !cost.includes(sentence))
          .map((sentence) => (
            <p key={sentence}>
              <bdi>{sentence}</bdi>
            </p>
          ))}
      </section>
      <section class="card words">
        <h2>What it costs in privacy</h2>
        {cost.map((sentence) => (
          <p key={sentence}>
            <bdi>{sentence}</bdi>
          </p>
        ))}
        <table class="loss">
          <caption class="sr">Most privacy loss of one device</caption>
          <thead>
            <tr>
              <th scope="col">One device loses at most</th>
              <th scope="col">ε</th>
            </tr>
          </thead>
          <tbody>
            {losses(plan).map(([where, loss]) => (
              <tr key={where}>
                <th scope="row">{where}</th>
                <td>{loss}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </div>
  );
}

function losses({ loss, windows }: Plan): [string, string | number][] {
  return [
    ["by a report", loss.report],
    [`in a window of ${duration(windows.seconds)}`, loss.window],
    ["in any 365 days", loss.year],
    ["over the whole plan", loss.plan],
  ];
}

const AT_FIRST = 24;

function Attributes({ attributes }: { attributes: readonly Attribute[] }) {
  const [search, setSearch] = useState("");
  const [all, setAll] = useState(false);
  const found = matching(attributes, search);
  const shown = all ? found : found.slice(0, AT_FIRST);
  return (
    <section class="attributes" aria-labelledby="attributes">
      <header>
        <h2 id="attributes">Attributes</h2>
        <input
          type="search"
          placeholder="Search attributes and labels"
          aria-label="Search attributes and labels"
          value={search}
          onInput={(e) => setSearch(e.currentTarget.value)}
        />
        <span class="sr" role="status">
          {search && `${counted(found.length, "attribute")} found`}
        </span>
      </header>
      <ul>
        {shown.map((attribute) => (
          <Glance key={attribute.name} attribute={attribute} />
        ))}
      </ul>
      {found.length === 0 && <p class="hint">No attribute or label contains these letters.</p>}
      {found.length > shown.length && (
        <button type="button" class="more" onClick={() => setAll(true)}>
          Show all {found.length}
        </button>
      )}
    </section>
  );
}
