"""Shares of words: which of a list of candidates devices reported for a hashed attribute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.history import Answer, History
from calmstream.consumer.read.ranges import NoAnswer, Windows
from calmstream.consumer.subscribe.frame import FrameColumns
from calmstream.estimators.analysis.words import bucket_shares, candidates, decode, kind_of, reports
from calmstream.estimators.plan import Plan

MAX_SHARES = 1 << 22  # maximum number of candidates times labels of the given attribute


@dataclass(frozen=True, slots=True, eq=False)
class WordShares(Answer):
    """Shares of candidates, a row for each label of a given attribute."""

    # Shaped as the table: whether a share is far above 0, and may be of another word as well.
    seen: NDArray[np.bool_]
    collides: NDArray[np.bool_]
    # By label: the smallest share that would be seen, and one that explains what no word does.
    limits: tuple[float, ...]
    unexplained: tuple[float, ...]

    def columns(self) -> FrameColumns:
        found = Answer.columns(self)
        pairs = zip(self.seen.ravel().tolist(), self.collides.ravel().tolist(), strict=True)
        rows = [[*self.flags, *["seen"] * s, *["collision"] * c] for s, c in pairs]
        return found._replace(data={**found.data, "flags": rows})

    def to_json(self) -> dict[str, Any]:
        return Answer.to_json(self) | {
            "seen": self.seen.ravel().tolist(),
            "collision": self.collides.ravel().tolist(),
            "limits": list(self.limits),
            "unexplained": list(self.unexplained),
        }


def given_place(plan: Plan, name: str, given: Sequence[str]) -> int | None:
    """Return the position of the given attribute, which devices must report with the words."""
    kind_of(plan, name)
    if not given:
        return None
    place = plan.domain.index(given)[0]
    pair = (place, plan.domain.hashed[name][0])
    if len(given) > 1 or not any(
        view.attributes == pair for group in plan.groups for view in group.views
    ):
        raise InvalidInput(f"given: no device reports {name} together with {', '.join(given)}")
    return place


def word_shares(
    history: History,
    name: str,
    texts: Sequence[str],
    windows: str | Windows = "total",
    *,
    given: Sequence[str] = (),
) -> WordShares:
    """Return the shares of candidates for a hashed attribute; repeated and empty ones are left out.

    With an ordinary attribute ``given``, they are shares within each of its labels.
    """
    plan = history.plan
    place = given_place(plan, name, given)
    words, raw = candidates(texts)
    labels = () if place is None else plan.domain.attributes[place].labels
    if len(words) * max(len(labels), 1) > MAX_SHARES:
        raise InvalidInput(f"{len(words):,} candidates in {len(labels)} labels; name fewer")
    counted = history.counted(windows)
    populations = bucket_shares(plan, counted.tallies, name, place)  # all devices, or each label
    if not (count := reports(plan, counted.tallies, name, place)):
        raise NoAnswer("no_reports", f"{counted.windows} has no reports about {name}")
    places = kind_of(plan, name).all_buckets(raw)
    found = [decode(one, places) for one in populations]
    # Within a label: of its own devices. A label that nobody has is left as it is.
    scale = [one.share if labels and one.share > 0 else 1.0 for one in populations]
    shape = (*([len(labels)] if labels else []), len(words))
    each = list(zip(found, scale, strict=True))
    return WordShares(
        attributes=(*given, name),
        labels=(*((labels,) if labels else ()), tuple(words)),
        table=np.minimum(np.array([one.shares / s for one, s in each]), 1.0).reshape(shape),
        stderr=np.array([one.stderr / s for one, s in each]).reshape(shape),
        flags=("words", *(("conditional",) if labels else ()), *counted.flags),
        reports=count,
        windows=(counted.windows,),
        revision=counted.revision,
        plan=plan,
        seen=np.array([one.seen for one in found]).reshape(shape),
        collides=np.array([one.collides for one in found]).reshape(shape),
        limits=tuple(one.limit / s for one, s in each),
        unexplained=tuple(one.unexplained / s for one, s in each),
    )
