/** One attribute in a list: its commonest labels, as a strip. */

import type { Answer, Attribute } from "../api/types";
import { digitsOf, mood, ordered, panels, type Row } from "../charts/model";
import { useSession } from "../state/context";
import { useResource, useSeen } from "../state/hooks";
import { queued } from "../state/queue";
import { link } from "../state/route";
import { counted, half, percent } from "../text/format";
import { joined, visible } from "../text/names";

const PARTS = 4;

export function Glance({ attribute }: { attribute: Attribute }) {
  const { client, plan, newest } = useSession();
  const [ref, seen] = useSeen<HTMLLIElement>();
  const published = plan.published.some((names) => names.length === 1 && names[0] === attribute.name);
  const question = { attributes: [attribute.name], windows: "current", minus: "", group: "", given: [] };
  const wanted = seen && published ? `glance ${plan.digest} ${attribute.name}` : null;
  const answer = useResource(wanted, newest, (signal) =>
    queued(signal, () => client.table(plan.name, question, signal)),
  );
  return (
    <li ref={ref} class="glance">
      <a href={link(plan.name, "tables", { attributes: joined([attribute.name]), windows: "current" })}>
        <span class="glance-name">
          <bdi>{visible(attribute.name)}</bdi>
        </span>
        <small>{counted(attribute.labels.length, "label")}</small>
        {answer.data ? (
          <Strip answer={answer.data} />
        ) : (
          <Labels attribute={attribute} waiting={wanted !== null && !answer.error} />
        )}
      </a>
    </li>
  );
}

function Strip({ answer }: { answer: Answer }) {
  const rows = ordered(panels(answer)[0]?.rows ?? [], "size").slice(0, PARTS);
  const feeling = mood(answer.flags);
  const digits = Math.min(1, digitsOf(answer));
  const sum = Math.max(
    1,
    rows.reduce((total, row) => total + row.value, 0),
  );
  return (
    <>
      <span class={`strip ${feeling}`} aria-hidden="true">
        {rows.map((row, i) => (
          <i key={row.place} class={`part-${i}`} style={{ width: `${(100 * Math.max(0, row.value)) / sum}%` }} />
        ))}
      </span>
      <span class="glance-words">
        {feeling === "plain" ? (
          rows.slice(0, 2).map((row) => <Part key={row.place} row={row} digits={digits} />)
        ) : (
          <em>{feeling}</em>
        )}
      </span>
    </>
  );
}

function Part({ row, digits }: { row: Row; digits: number }) {
  return (
    <span>
      <bdi>{visible(row.label)}</bdi> {percent(row.value, digits)}{" "}
      <small>{half(row.stderr, digits)}</small>
    </span>
  );
}

function Labels({ attribute, waiting }: { attribute: Attribute; waiting: boolean }) {
  return (
    <>
      <span class={`strip ${waiting ? "waiting" : "empty"}`} aria-hidden="true" />
      <span class="glance-words">
        <span>
          <bdi>{attribute.labels.slice(0, 3).join(", ")}</bdi>
        </span>
      </span>
    </>
  );
}
