"""The rule which set replaces which in a target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from calmstream.consumer.subscribe.assembler import Snapshot, above
from calmstream.estimators.wire.snapshot import Kind, Revision


class SetId(NamedTuple):
    """What identifies a set within one plan and output namespace."""

    window: int
    kind: Kind


def set_id(one: Snapshot) -> SetId:
    return SetId(one.window, one.kind)


def replaces(new: Snapshot, stored: Mapping[SetId, Revision]) -> bool:
    """Return whether a set is newer than what is stored; an early set never follows its final."""
    window, kind = set_id(new)
    if kind is Kind.EARLY and SetId(window, Kind.FINAL) in stored:
        return False
    return above(new.revision, stored.get(set_id(new)))


def replaced(new: Snapshot) -> tuple[SetId, ...]:
    window, kind = set_id(new)
    if kind is Kind.FINAL:
        return (set_id(new), SetId(window, Kind.EARLY))
    return (set_id(new),)


def newest(sets: Iterable[Snapshot], stored: Mapping[SetId, Revision]) -> list[Snapshot]:
    now, chosen = dict(stored), dict[SetId, Snapshot]()
    for new in sets:
        if replaces(new, now):
            for old in replaced(new):
                now.pop(old, None)
                chosen.pop(old, None)
            now[set_id(new)] = new.revision
            chosen[set_id(new)] = new
    return list(chosen.values())
