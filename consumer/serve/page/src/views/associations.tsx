/** Which attributes depend on each other, how strongly, and how surely. */

import { Names } from "../parts/names";
import { useState } from "preact/hooks";
import type { Associations as Found, Pair } from "../api/types";
import { describe, isSure, Matrix } from "../charts/matrix";
import { Tree } from "../charts/tree";
import { Causes } from "../parts/causes";
import { Empty, Loaded } from "../parts/states";
import { useSession } from "../state/context";
import { useResource } from "../state/hooks";
import { link } from "../state/route";
import { chance, counted } from "../text/format";
import { joined } from "../text/names";

const LISTED = 12;

export function Associations({ words }: { words: Readonly<Record<string, string>> }) {
  const { client, plan, newest } = useSession();
  const windows = words["windows"] || "total";
  const found = useResource(`associations ${plan.digest} ${windows}`, newest, (signal) =>
    client.associations(plan.name, windows, signal),
  );
  return (
    <div class="associations">
      <header class="hero">
        <h1>What goes together</h1>
        <p class="lead">Pairs of attributes, by the strength of their association. 0 is none, 1 is complete.</p>
      </header>
      <Loaded of={found} lines={10}>
        {(data) => <Body data={data} plan={plan.name} names={plan.attributes.map((a) => a.name)} />}
      </Loaded>
    </div>
  );
}

type Href = (a: string, b: string) => string;

function Body({ data, plan, names }: { data: Found; plan: string; names: readonly string[] }) {
  if (!data.pairs.length)
    return <Empty title="No pairs">An association needs tables of two attributes, and reports about them.</Empty>;
  const href: Href = (a, b) => link(plan, "tables", { attributes: joined([a, b]) });
  const ranked = [...data.pairs].filter(isSure).sort((a, b) => b.strength - a.strength);
  const involved = names.filter((name) => data.pairs.some((pair) => pair.attributes.includes(name)));
  return (
    <>
      <p class="about">
        {counted(data.reports, "report")} · {ranked.length} of {counted(data.pairs.length, "pair")} dependent, tested at
        5 % each
      </p>
      <div class={`columns ${involved.length > 16 ? "one" : "uneven"}`}>
        <div class="stack">
          <PairMap names={involved} pairs={data.pairs} href={href} />
          {data.tree.length > 0 && (
            <section class="card" aria-label="Chow-Liu tree">
              <h2>Chow-Liu tree</h2>
              <p class="hint">
                The strongest associations that connect all attributes without a circle. Thicker lines carry more
                information.
              </p>
              <Tree edges={data.tree} href={href} />
            </section>
          )}
        </div>
        <Ranking pairs={ranked} href={href} />
      </div>
      <Causes causes={data.causes} />
    </>
  );
}

function PairMap({ names, pairs, href }: { names: readonly string[]; pairs: readonly Pair[]; href: Href }) {
  const [chosen, setChosen] = useState<Pair | null>(null);
  return (
    <section class="card" aria-label="Map">
      <h2>Map</h2>
      <Matrix
        names={names}
        pairs={pairs}
        href={(pair) => href(...pair.attributes)}
        chosen={chosen}
        onChoose={setChosen}
      />
      <p class="hint" aria-hidden="true">
        {chosen ? describe(chosen) : "Stronger colour, stronger association. A dot: independence is not rejected."}
      </p>
    </section>
  );
}

function Ranking({ pairs, href }: { pairs: readonly Pair[]; href: Href }) {
  const [all, setAll] = useState(false);
  return (
    <section class="card" aria-label="Strongest pairs">
      <h2>Strongest pairs</h2>
      {pairs.length === 0 && <p class="hint">Independence is rejected for no pair.</p>}
      <ol class="ranked">
        {pairs.slice(0, all ? undefined : LISTED).map((pair) => (
          <Ranked key={pair.attributes.join("\n")} pair={pair} href={href(...pair.attributes)} />
        ))}
      </ol>
      {pairs.length > LISTED && !all && (
        <button type="button" class="more" onClick={() => setAll(true)}>
          Show all {pairs.length}
        </button>
      )}
    </section>
  );
}

function Ranked({ pair, href }: { pair: Pair; href: string }) {
  const error = pair.stderr === null ? "" : ` ± ${(1.96 * pair.stderr).toFixed(2)}`;
  return (
    <li>
      <a href={href}>
        <span>
          <Names of={pair.attributes} />
        </span>
        <svg aria-hidden="true">
          <rect class="track" width="100%" height="100%" rx="3" />
          <rect class="bar" width={`${100 * pair.strength}%`} height="100%" rx="3" />
        </svg>
        <span class="number">
          <small>{pair.p === null ? pair.verdict : chance(pair.p)}</small> {pair.strength.toFixed(2)}
          {error}
        </span>
      </a>
    </li>
  );
}
