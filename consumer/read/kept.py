"""Reads kept counts: which final windows have their counts, and what is known from them."""

from __future__ import annotations

import contextlib
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker, Partition
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError, ForeignRecord, InvalidInput
from calmstream.consumer.read.ranges import NoAnswer, Windows
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter, key_of
from calmstream.consumer.runtime.read_topics import TopicReader
from calmstream.estimators import methods
from calmstream.estimators.analysis.grouped import GroupedTable, conditional, first_groups, grouped
from calmstream.estimators.analysis.grouping import Grouping, Groups, of_question
from calmstream.estimators.analysis.poisoning import examine
from calmstream.estimators.domain import Domain
from calmstream.estimators.methods.base import Model
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.tracking.tracker import Current, Tracker
from calmstream.estimators.wire import counts
from calmstream.estimators.wire.snapshot import Revision

_LOG = logging.getLogger("calmstream.history")
RANGES = 8  # ranges of windows whose counts and models are kept, the last used ones
DEPENDENT = "dependent"


@dataclass(frozen=True, eq=False)
class Counted:
    """The counts of some windows: one tally per group, flags of the reports, and what fits them."""

    plan: Plan
    windows: Windows
    revision: Revision
    tallies: tuple[Tally, ...]
    flags: tuple[str, ...]
    now: Current | None  # of `current` windows; it is fitted instead of the tallies

    @cached_property
    def model(self) -> Model:
        if self.now is not None:
            return self.now.model(self.plan)
        return methods.fit(self.plan, self.tallies, total=self.windows.total)

    def table(
        self,
        attributes: Sequence[str],
        group: Groups = "",
        *,
        given: Sequence[str] = (),
        where: Groups = "",
    ) -> GroupedTable:
        """Return a table with its covariance, without the flags of the reports."""
        domain = self.plan.domain
        groupings, only = part_of(domain, attributes, group, given, where)
        names, given = list(dict.fromkeys((*attributes, *only))), (*given, *only)
        found = grouped(self.model, domain, names, groupings)
        return first_groups(conditional(found, given), only) if given else found


def part_of(
    domain: Domain,
    attributes: Sequence[str],
    group: Groups = "",
    given: Sequence[str] = (),
    where: Groups = "",
) -> tuple[dict[int, Grouping], tuple[str, ...]]:
    """Check what a table is asked for, and return its groupings and the attributes of ``where``."""
    groupings, only = of_question(group, where, domain)
    if given and not (set(given) < set(attributes) and len(set(given)) == len(given)):
        raise InvalidInput("given: name some, not all, of the attributes that are asked for, once")
    if twice := [name for name in given if name in only]:
        raise InvalidInput(f"where: {twice[0]!r} is given as well; leave it out of one of them")
    if only and {*given, *only} >= set(attributes):
        raise InvalidInput("where: an attribute must be left to ask about")
    return groupings, only


class KeptCounts:
    """The counts of final windows in the counts topic, compressed; for one thread.

    Counts are written of windows that all partitions have closed: one with all groups is final.
    """

    def __init__(self, plan: Plan, broker: Broker, names: TopicNames, clock: Clock) -> None:
        self._plan = plan
        # By window and group the header of a record and its bytes.
        self._records: dict[int, dict[int, tuple[counts.CountsHeader, bytes]]] = {}
        self._counted: OrderedDict[tuple[Windows, Revision], Counted] = OrderedDict()
        self._foreign = ForeignRecordCounter(_LOG.warning)
        # What `current` follows, and the windows that it has, by their revision.
        self._tracker: Tracker | None = None
        self._added: dict[int, Revision] = {}
        self._topic = TopicReader(
            broker,
            [Partition(names.counts, 0)],
            clock,
            missing="the plan was retired with its counts, or has none yet (create it: calmstream "
            "topics)",
        )
        self.close = self._topic.close

    def refresh(self) -> None:
        """Read on to the end of the topic. Cost of the first call: all its records."""
        for record in self._topic.to_end():
            with self._foreign.reading(record):
                header = counts.read_record(self._plan, key_of(record), record.value)
                assert record.value is not None
                self._records.setdefault(header.window, {})[header.group] = header, record.value

    def kept(self, window: int) -> bool:
        return len(self._records.get(window, ())) == len(self._plan.groups)

    def windows(self) -> list[int]:
        return [window for window in sorted(self._records) if self.kept(window)]

    def revision(self, window: int) -> Revision:
        """Return the revision of a window: those of its groups, one after another."""
        records = self._records.get(window, {})
        return tuple(chain.from_iterable(records[group][0].revision for group in sorted(records)))

    def suspicious(self, window: int) -> bool:
        return any(header.suspicious for header, _ in self._records.get(window, {}).values())

    def tallies(self, window: int) -> tuple[list[Tally], list[Tally]]:
        """Return the tallies of a window, and those of all windows through it."""
        if not self.kept(window):
            raise NoAnswer(
                "not_kept",
                f"window {window} is not kept: its counts are missing from the counts topic",
            )
        records = self._records[window]
        found = [
            counts.decode_counts(self._plan, records[group][1])
            for group in range(len(self._plan.groups))
        ]
        return [one.tally for one in found], [one.total for one in found]

    def current(self, window: int) -> Current:
        """Return what is known of a kept window from all kept windows through it.

        The first question takes time for all windows, later ones for those that are new.
        """
        wanted = {w: self.revision(w) for w in self.windows() if w <= window}
        changed = any(wanted.get(w) != revision for w, revision in self._added.items())
        if self._tracker is None or changed:
            # An earlier window was asked for, or a window was counted again.
            self._tracker, self._added = Tracker(self._plan), {}
        for number in sorted(wanted.keys() - self._added.keys()):
            # Damaged counts are left out, as a publisher does.
            with contextlib.suppress(ForeignRecord):
                self._tracker.add(number, self.tallies(number)[0])
            self._added[number] = wanted[number]
        return self._tracker.current()

    def counted(self, windows: Windows) -> Counted:
        """Return the counts of some windows, without those of a pilot; the last ones are kept."""
        place = (windows, self.revision(windows.last))
        if place not in self._counted:
            self._counted[place] = self._count(windows)
            while len(self._counted) > RANGES:
                self._counted.popitem(last=False)
        self._counted.move_to_end(place)
        return self._counted[place]

    def _count(self, windows: Windows) -> Counted:
        now = None
        if windows.current:
            self.tallies(windows.last)  # for its error
            now = self.current(windows.last)
        tallies = self._tallies(windows) if now is None else now.reduced()
        if not any(tally.reports for tally in (tallies if now is None else now.tallies)):
            raise NoAnswer("no_reports", f"{windows} received no reports")
        flags = []
        forged = any(self.suspicious(w) for w in range(windows.first, windows.last + 1))
        # What a discount leaves of forged counts looks like no forged window.
        if not (forged or windows.current):
            forged = examine(self._plan, tallies, len(windows)).suspicious
        if forged:
            flags.append("suspicious")
        if 1 < self._plan.guarantee.windows < len(windows):
            flags.append(DEPENDENT)
        revision = self.revision(windows.last)
        return Counted(self._plan, windows, revision, tuple(tallies), tuple(flags), now)

    def _tallies(self, windows: Windows) -> list[Tally]:
        """Take the difference of two totals where both are kept; else add all windows."""
        own, last = self.tallies(windows.last)
        if windows.first in (0, windows.last):
            return own if windows.first else last
        if self.kept(windows.first - 1):
            before = self.tallies(windows.first - 1)[1]
            return [_minus(a, b) for a, b in zip(last, before, strict=True)]
        for window in range(windows.first, windows.last):
            own = [a + b for a, b in zip(own, self.tallies(window)[0], strict=True)]
        return own


def _minus(total: Tally, earlier: Tally) -> Tally:
    found = Tally(total.n - earlier.n, total.counts - earlier.counts)
    if (found.n < 0).any() or (found.counts < 0).any():
        raise FatalError("running totals in the counts topic decrease: they are of two logs")
    return found
