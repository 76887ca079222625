"""What the application and the person decide about a device: policy, withdrawal, history."""

from __future__ import annotations

from dataclasses import replace

from estimators.errors import InvalidInput
from producer.device.history import Sent
from producer.device.ledger import DeviceState
from producer.device.policy import Policy
from producer.device.store import DeviceStore


def install(store: DeviceStore, policy: Policy | None) -> DeviceState:
    """Write the policy into a store that has none; return the state.

    Args:
        store: of the device.
        policy: the application's; None takes the stored one, or the strict default, which trusts
            no root, where there is none.

    Raises:
        InvalidInput: the store has another policy; only :func:`set_policy` changes it.
        CalmstreamError: the store cannot be read or written.
    """
    state = store.read()
    if state.policy is None:
        chosen = policy or Policy()
        state = store.update(lambda s: s if s.policy else replace(s, policy=chosen))
    if policy is not None and state.policy != policy:
        raise InvalidInput(
            "the device's store holds another policy; call set_policy to change it, or give none"
        )
    return state


def set_policy(store: DeviceStore, policy: Policy) -> None:
    """Replace the policy, durably on return. What was spent stays spent.

    Where the span becomes longer, reports that had been dropped count again.

    Raises:
        CalmstreamError: the store cannot be read or written.
    """

    def change(state: DeviceState) -> DeviceState:
        longer = state.policy is not None and policy.span_days > state.policy.span_days
        totals = state.totals.restored() if longer else state.totals
        return replace(state, policy=policy, totals=totals)

    store.update(change)


def withdraw(store: DeviceStore) -> None:
    """Stop all reports, durably on return, until :func:`rejoin`. The ledger stays.

    Raises:
        CalmstreamError: the store cannot be read or written.
    """
    store.update(lambda state: replace(state, withdrawn=True))


def rejoin(store: DeviceStore) -> None:
    """Allow reports again. What was spent before stays spent.

    Raises:
        CalmstreamError: the store cannot be read or written.
    """
    store.update(lambda state: replace(state, withdrawn=False))


def history(store: DeviceStore) -> tuple[Sent, ...]:
    """Return the latest reports that left this device, oldest first.

    Raises:
        CalmstreamError: the store cannot be read.
    """
    return store.read().history
