/** What the application and the person decide about a device: policy, withdrawal, history. */

import { InvalidInput } from "../errors.js";
import type { Store } from "../stores/store.js";
import type { Sent } from "./history.js";
import type { DeviceState } from "./ledger.js";
import { policyOf, samePolicy, type PolicyInput } from "./policy.js";
import { restored } from "./totals.js";

/** Write the policy into a store that has none; return the state. */
export async function install(store: Store, input: PolicyInput | undefined): Promise<DeviceState> {
  const stated = input && policyOf(input);
  let state = await store.read();
  if (!state.policy) {
    const policy = stated ?? policyOf();
    state = await store.update((s) => (s.policy ? s : { ...s, policy }));
  }
  if (stated && !samePolicy(stated, state.policy!)) {
    throw new InvalidInput("the device's store holds another policy; call setPolicy before, or give none");
  }
  return state;
}

/**
 * Make this the store's policy, durably, also of an empty store. What was spent stays spent.
 *
 * Call it at every start, before `Reporter.open`: nothing is written where the store has this policy already.
 * Where `span_days` becomes longer, what had expired counts again, from the latest report on.
 */
export async function setPolicy(store: Store, input: PolicyInput): Promise<void> {
  const policy = policyOf(input);
  await store.update((state) => {
    if (state.policy && samePolicy(policy, state.policy)) return state;
    const longer = state.policy !== null && policy.span_days > state.policy.span_days;
    return { ...state, policy, totals: longer ? restored(state.totals) : state.totals };
  });
}

/** How often the person withdrew by a store object in this page or process. */
const counted = new WeakMap<Store, number>();

/** How often the person withdrew by this store object, known without waiting: for pages that go away. */
export function withdrawals(store: Store): number {
  return counted.get(store) ?? 0;
}

/**
 * Stop all reports of all plans, durably, until `rejoin`.
 *
 * Reports that wait are dropped, and what recorders keep is erased. Ledger and history stay. A store that is
 * deleted is a new device, which has not withdrawn. Where the state is damaged, an error says so, and what
 * recorders keep is erased nevertheless.
 */
export async function withdraw(store: Store): Promise<void> {
  counted.set(store, withdrawals(store) + 1);
  try {
    await store.update((state) => ({ ...state, withdrawn: true, withdrawals: state.withdrawals + 1, waiting: [] }));
  } finally {
    await store.eraseEvents();
  }
}

/** Allow reports again, at once. What was spent before still counts. */
export async function rejoin(store: Store): Promise<void> {
  await store.update((state) => ({ ...state, withdrawn: false }));
}

/** The latest reports of this device, oldest first, also those that no gateway took. */
export async function history(store: Store): Promise<readonly Sent[]> {
  return (await store.read()).history;
}
