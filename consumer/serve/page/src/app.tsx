import { useEffect, useMemo, useState } from "preact/hooks";
import { Client } from "./api/client";
import type { Plan, PlanEntry } from "./api/types";
import { Shell } from "./parts/shell";
import { Empty, Loading, Refused } from "./parts/states";
import { TokenPrompt } from "./parts/token";
import { SessionContext, type Session } from "./state/context";
import { useResource, useRoute } from "./state/hooks";
import { useLive } from "./state/live";
import type { Route } from "./state/route";
import { ended } from "./text/windows";
import { Associations } from "./views/associations";
import { Changes } from "./views/changes";
import { Overview } from "./views/overview";
import { Tables } from "./views/tables";
import { Time } from "./views/time";
import { Hatches } from "./charts/hatches";

const PAGES = { overview: Overview, tables: Tables, time: Time, associations: Associations, changes: Changes };

export function App() {
  const [key, setKey] = useState(0);
  const client = useMemo(() => {
    const made = new Client();
    made.onUnauthorized = () => setKey((n) => n + 1);
    return made;
  }, []);
  const route = useRoute();
  const plans = useResource(`plans ${key}`, 0, (signal) => client.plans(signal));
  const unlock = (token: string) => {
    client.token = token;
    setKey(key + 1);
  };
  if (plans.error?.status === 401) return <TokenPrompt refused={client.token !== ""} onToken={unlock} />;
  if (plans.error)
    return (
      <main class="alone">
        <h1 class="sr">calmstream</h1>
        <Refused problem={plans.error} again={plans.again} />
      </main>
    );
  if (!plans.data || !plans.fresh)
    return (
      <main class="alone">
        <Loading lines={3} />
      </main>
    );
  return <WithPlans key={key} client={client} route={route} plans={plans.data.plans} />;
}

interface WithPlansProps {
  readonly client: Client;
  readonly route: Route;
  readonly plans: readonly PlanEntry[];
}

function WithPlans({ client, route, plans }: WithPlansProps) {
  const chosen = plans.find((p) => p.name === route.plan || p.digest === route.plan);
  const name = route.plan || plans[0]?.name || "";
  const plan = useResource(name ? `plan ${name}` : null, 0, (signal) => client.plan(name, signal));
  if (!name)
    return (
      <main class="alone">
        <h1 class="sr">calmstream</h1>
        <Empty title="No plan">This server was started without a plan.</Empty>
      </main>
    );
  return (
    <>
      <Hatches />
      {plan.fresh && plan.data ? (
        <WithPlan key={plan.data.digest} client={client} route={route} plans={plans} plan={plan.data} />
      ) : (
        <Shell plans={plans} route={route} name={chosen?.name ?? name} connection="connecting" newest={null}>
          <h1 class="sr">{name}</h1>
          {plan.error ? <Refused problem={plan.error} again={plan.again} /> : <Loading lines={8} />}
        </Shell>
      )}
    </>
  );
}

function WithPlan({
  client,
  route,
  plans,
  plan,
}: {
  client: Client;
  route: Route;
  plans: readonly PlanEntry[];
  plan: Plan;
}) {
  const known = plans.find((one) => one.digest === plan.digest)?.newest ?? null;
  const live = useLive(client, plan, known);
  useEffect(() => {
    document.title = `${plan.name} · calmstream`;
  }, [plan.name]);
  const session: Session = { client, plan, ...live };
  const Page = PAGES[route.view];
  return (
    <SessionContext.Provider value={session}>
      <Shell plans={plans} route={route} name={plan.name} connection={live.connection} newest={live.newest} ended={ended(plan, live.newest)}>
        <Page words={route.words} />
      </Shell>
    </SessionContext.Provider>
  );
}
