import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Connection } from "../state/live";
import type { PlanEntry } from "../api/types";
import { link, VIEWS, type Route, type View } from "../state/route";
import { visible } from "../text/names";

const TITLES: Readonly<Record<View, string>> = {
  overview: "Overview",
  tables: "Tables",
  time: "Over time",
  associations: "Associations",
  changes: "Changes",
};

interface ShellProps {
  readonly plans: readonly PlanEntry[];
  readonly route: Route;
  readonly name: string;
  readonly connection: Connection;
  readonly newest: number | null;
  /** Whether no window is to come. */
  readonly ended?: boolean;
  readonly children: ComponentChildren;
}

/** Head, navigation and the place of the view. */
export function Shell({ plans, route, name, connection, newest, ended = false, children }: ShellProps) {
  const main = useRef<HTMLElement>(null);
  const nav = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    // A new view begins at its top; the keyboard continues from there.
    if (!first.current) {
      main.current?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    first.current = false;
    nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [route.view, route.plan]);
  return (
    <>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to content
      </button>
      <header class="top">
        <div class="top-row">
          <a class="brand" href={link(name, "overview")}>
            <Logo />
            calmstream
          </a>
          <PlanSwitch plans={plans} route={route} name={name} />
          <Live connection={ended ? "ended" : connection} newest={newest} />
        </div>
        <nav ref={nav} aria-label="Views">
          {VIEWS.map((view) => (
            <a key={view} href={link(name, view)} aria-current={view === route.view ? "page" : undefined}>
              {TITLES[view]}
            </a>
          ))}
        </nav>
      </header>
      <main ref={main} tabIndex={-1} aria-label={TITLES[route.view]}>
        {children}
      </main>
      <footer class="foot">
        Estimates from reports that devices perturbed under local differential privacy. The records stay on the devices.
      </footer>
    </>
  );
}

function PlanSwitch({ plans, route, name }: { plans: readonly PlanEntry[]; route: Route; name: string }) {
  if (plans.length < 2)
    return (
      <span class="plan-name">
        <bdi>{visible(name)}</bdi>
      </span>
    );
  const change = (event: Event) => {
    location.hash = link((event.currentTarget as HTMLSelectElement).value, route.view);
  };
  return (
    <select class="plan-name" aria-label="Plan" onChange={change} value={name}>
      {plans.map((plan) => (
        <option key={plan.digest} value={plan.name}>
          {plan.name}
        </option>
      ))}
    </select>
  );
}

const STATES = {
  live: "Live",
  connecting: "Connecting",
  waiting: "Reconnecting",
  refused: "Not live",
  ended: "Ended",
};

function Live({ connection, newest }: { connection: Connection | "ended"; newest: number | null }) {
  const known = connection === "live" || connection === "ended";
  return (
    <span class={`live ${connection === "live" ? "on" : connection}`} role="status">
      <i aria-hidden="true" />
      {STATES[connection]}
      {known && newest !== null && <span class="live-window">window {newest}</span>}
    </span>
  );
}

function Logo() {
  return (
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <path d="M3 9c3-4 6-4 9 0s6 4 9 0M3 16c3-4 6-4 9 0s6 4 9 0" />
    </svg>
  );
}
