/** Words of a hashed attribute: which of a pasted list devices reported. */

import { useState } from "preact/hooks";
import type { HashedAttribute, WordShares } from "../api/types";
import { useSession } from "../state/context";
import { useResource } from "../state/hooks";
import { count, counted, decimals, half, percent } from "../text/format";
import { visible } from "../text/names";
import { Loaded } from "./states";

/** Most bytes of a list: an address has no more. */
const MOST_BYTES = 12_000;

interface Asked {
  readonly candidates: string;
  readonly given: string;
}

export function Words({ of: { name, given } }: { of: HashedAttribute }) {
  const [text, setText] = useState("");
  const [within, setWithin] = useState("");
  const [asked, setAsked] = useState<Asked | null>(null);
  const size = encodeURIComponent(text).length;
  const ask = (event: Event) => {
    event.preventDefault();
    setAsked({ candidates: text, given: within });
  };
  return (
    <section class="card words-asked">
      <h2>
        Words of <bdi>{visible(name)}</bdi>
      </h2>
      <form class="field" onSubmit={ask}>
        <label for={`words-${name}`}>Paste candidates, one a line: names from release notes, symbol tables, app lists.</label>
        <textarea id={`words-${name}`} rows={6} spellcheck={false} value={text} onInput={(e) => setText(e.currentTarget.value)} />
        {size > MOST_BYTES && (
          <p class="hint suspicious" role="alert">
            The list is too long for this page. calmstream query --candidates takes up to a million words.
          </p>
        )}
        <div class="question-row">
          {given.length > 0 && (
            <select aria-label="Within each label of" value={within} onChange={(e) => setWithin(e.currentTarget.value)}>
              <option value="">Of all devices</option>
              {given.map((one) => (
                <option key={one} value={one}>
                  Within each {visible(one)}
                </option>
              ))}
            </select>
          )}
          <button class="primary" disabled={!text.trim() || size > MOST_BYTES}>
            Ask
          </button>
        </div>
      </form>
      {asked && <Shares name={name} asked={asked} />}
    </section>
  );
}

function Shares({ name, asked }: { name: string; asked: Asked }) {
  const { client, plan, newest } = useSession();
  const key = `words ${plan.digest} ${name} ${JSON.stringify(asked)}`;
  const found = useResource(key, newest, (signal) => client.words(plan.name, name, asked.candidates, asked.given, signal));
  return (
    <Loaded of={found} lines={4}>
      {(answer) => (answer.attributes.length > 1 ? answer.labels[0]! : [""]).map((label, v) => <Population key={label} {...{ answer, label, v }} />)}
    </Loaded>
  );
}

function Population({ answer, label, v }: { answer: WordShares; label: string; v: number }) {
  const words = answer.labels.at(-1)!;
  const rows = words.map((word, s) => ({ word, cell: v * words.length + s })).filter(({ cell }) => answer.seen[cell]);
  rows.sort((a, b) => answer.table[b.cell]! - answer.table[a.cell]!);
  const digits = decimals(rows.map(({ cell }) => answer.stderr[cell]!));
  const unexplained = answer.unexplained[v]!;
  return (
    <div>
      {label && (
        <h3>
          <bdi>{visible(`${answer.attributes[0]} ${label}`)}</bdi>
        </h3>
      )}
      {rows.length > 0 && (
        <table class="grid-table">
          <thead>
            <tr>
              <th scope="col">Word</th>
              <th scope="col" class="number">Share</th>
              <th scope="col" class="number">± 95 %</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ word, cell }) => (
              <tr key={word}>
                <td>
                  <bdi>{visible(word)}</bdi>
                  {answer.collision[cell] && <span class="flag" title="Another word of the list may be meant, or an unknown one got in the way.">collision</span>}
                </td>
                <td class="number">{percent(answer.table[cell]!, digits)}</td>
                <td class="number">{half(answer.stderr[cell]!, digits)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p class="hint">
        {count(rows.length)} of {counted(words.length, "candidate")} seen; a share of about {percent(answer.limits[v]!, digits)} would be.
        {unexplained > 0 && ` Unexplained: as much as one more word of ${percent(unexplained, digits)}.`}
      </p>
    </div>
  );
}
