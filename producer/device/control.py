"""Changes to a stored state: by the application (its policy) and by the person."""

from __future__ import annotations

from dataclasses import replace

from calmstream.common.errors import InvalidInput
from calmstream.producer.device.history import Sent
from calmstream.producer.device.ledger import DeviceState
from calmstream.producer.device.policy import Policy
from calmstream.producer.device.store import DeviceStore


def install(store: DeviceStore, policy: Policy | None) -> DeviceState:
    """Write the policy, or the strict default, into a store that has none; return the state."""
    state = store.read()
    if state.policy is None:
        chosen = policy or Policy()
        state = store.update(lambda s: s if s.policy else replace(s, policy=chosen))
    if policy is not None and state.policy != policy:
        raise InvalidInput(
            "the device's store holds another policy; call set_policy before, or give none"
        )
    return state


def set_policy(store: DeviceStore, policy: Policy) -> None:
    """Make this the store's policy, durably, also of an empty store. What was spent stays spent.

    Call it at every start, before a `Reporter` is made: nothing is written where the store has this
    policy already. Where ``span_days`` becomes longer, what had expired counts again, from the
    latest report on.
    """

    def change(state: DeviceState) -> DeviceState:
        if state.policy == policy:
            return state
        longer = state.policy is not None and policy.span_days > state.policy.span_days
        totals = state.totals.restored() if longer else state.totals
        return replace(state, policy=policy, totals=totals)

    store.update(change)


def withdraw(store: DeviceStore) -> None:
    """Stop all reports of all plans until `rejoin`; durable on return.

    Reports that wait are dropped, and what recorders keep is erased. Ledger and history stay. A
    store that is deleted is a new device, which has not withdrawn. By the number of withdrawals a
    running recorder sees one even after a `rejoin`. Where the state is damaged, an error says so,
    and what recorders keep is erased nevertheless.
    """
    try:
        store.update(
            lambda s: replace(s, withdrawn=True, withdrawals=s.withdrawals + 1, waiting=())
        )
    finally:
        store.erase_events()


def rejoin(store: DeviceStore) -> None:
    """Allow reports again, at once. What was spent before still counts."""
    store.update(lambda state: replace(state, withdrawn=False))


def history(store: DeviceStore) -> tuple[Sent, ...]:
    """Return the latest reports of this device, oldest first, also those that no gateway took."""
    return store.read().history
