"""The plan: the immutable document that devices, workers, publishers and readers follow.

Its digest identifies it. The constructor checks all fields; `document` reads and writes it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import orjson

from calmstream.common.errors import PlanError
from calmstream.common.text import unseen
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.plan.group import Group, Guarantee
from calmstream.estimators.plan.limits import STANDARD, PlanLimits, standard_limits
from calmstream.estimators.plan.numbers import MAX_INTEGER, exact_numbers
from calmstream.estimators.plan.state_size import record_bytes
from calmstream.estimators.randomness import parse_epsilon

PLAN_VERSION = 1
WIRE_MAJOR = 1
MAX_GROUPS = 256
MAX_STATE_RECORD_BYTES = 8 << 20  # of a partition's state record, which is one Kafka message
MAX_PARTITIONS = 1024
# All languages can represent these numbers.
MAX_WINDOWS = 1 << 32
MAX_TIME = 1 << 40
MAX_MODULUS = 1 << 32

MAX_NAME = 128
MAX_CONTINUES = 8
MAX_SUMMARIES = 8
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?")
_HEX = re.compile(r"[0-9a-f]{32}")
_SUMMARY = re.compile(r"mean|median|rank|q0\.[0-9]{0,8}[1-9]", re.ASCII)

FIELDS: dict[str, type] = {
    "version": int,
    "name": str,
    "purpose": str,
    "owner": str,
    "lineage": str,
    "domain": list,
    "epsilon": str,
    "lineage_epsilon": str,
    "guarantee": dict,
    "k": int,
    "method": dict,
    "groups": list,
    "start": int,
    "expires": int,
    "window": int,
    "grace": int,
    "skew": int,
    "partitions": int,
    "wire": int,
    "users": int,
    "marginals": list,
    "limits": dict,
}
"""Required fields of the document, in order, with the types of their values."""


@dataclass(frozen=True)
class Plan:
    """The document that all parties read.

    Window w is the time from start + w·window up to, but not including, start + (w+1)·window. The
    plan has ``windows`` of them and ends at ``expires``. The clock of a log is the largest append
    time of its records. A report of window w is accepted if the clock plus ``skew`` has reached the
    window's start and the clock has not passed the window's end plus ``grace``.
    """

    name: str  # lower case letters, digits and hyphens, at most 48; part of the topic names
    purpose: str  # why the statistics are collected, for the people concerned
    owner: str  # who is responsible for the collection
    # 32 hex digits that all plans which follow from one another share. Devices derive their group
    # from it and never exceed ``lineage_epsilon`` under it.
    lineage: str
    domain: Domain  # of a record
    epsilon: str  # total privacy loss of one report, decimal string
    k: int  # number of attributes of the marginals for which the method was designed
    method: str  # registry name
    parameters: Mapping[str, Any]  # of the method, JSON-ready
    groups: tuple[Group, ...]
    start: int  # of window 0, seconds since the epoch
    expires: int  # end of the last window, seconds since the epoch
    window: int  # seconds
    users: int  # number of reports expected per window
    marginals: tuple[Attributes, ...]  # tables that are published at every window
    guarantee: Guarantee = field(default_factory=Guarantee)
    grace: int = 60  # seconds for late reports
    skew: int = 60  # seconds by which reports can be early
    partitions: int = 1  # of every reports topic and of the state topic
    wire: int = WIRE_MAJOR  # major version of the format of reports
    # Most that a report may cost together with what the device spent under other plans of the
    # lineage, decimal string; epsilon by default. What it spent under w-event stops to count for a
    # plan with w-event after w windows. The smallest value among the plans that a device has
    # answered holds for ever.
    lineage_epsilon: str = ""
    analysis: bool = False  # whether snapshots have the association of all published pairs, a tree
    version: int = PLAN_VERSION
    limits: PlanLimits = STANDARD  # of what one window may receive; `standard_limits` by default
    lineage_name: str = ""  # the operator's name of the lineage; empty if it is a random number
    # Other lineages, 32 hex digits each; a device's loss under them counts under this one.
    continues: tuple[str, ...] = ()
    # Whether tables of open windows are published; without them, finals carry a central statement
    # (`plan.central_statement`).
    early: bool = True
    # Statistics of ordered attributes that published tables contain: ``mean``, ``median``, ``rank``
    # or a quantile such as ``q0.9``; see docs/numbers.md.
    summaries: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.lineage_epsilon:
            object.__setattr__(self, "lineage_epsilon", self.epsilon)
        self._check_names()
        object.__setattr__(self, "domain", self.domain.keyed(self.lineage))
        object.__setattr__(self, "groups", tuple(g.at(self.epsilon) for g in self.groups))
        self._check_times()
        self._check_domain()
        self._check_bounds()
        self._complete()
        size = record_bytes(self)
        if size > MAX_STATE_RECORD_BYTES:
            raise PlanError(
                f"a partition's state record could reach {size:,} bytes; the limit is "
                f"{MAX_STATE_RECORD_BYTES:,}: use smaller views or fewer views per group"
            )

    def _check_names(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise PlanError(
                f"name: expected 1 to 48 lower-case letters, digits and hyphens, got {self.name!r}"
            )
        for name in ("purpose", "owner", "lineage_name"):
            if why := unseen(getattr(self, name)):
                raise PlanError(f"{name}: {why}")
        if not _HEX.fullmatch(self.lineage):
            raise PlanError("lineage: expected 32 lower-case hexadecimal digits")
        if parse_epsilon(self.lineage_epsilon) < parse_epsilon(self.epsilon):
            raise PlanError(
                f"lineage_epsilon {self.lineage_epsilon} is below epsilon {self.epsilon}"
            )
        if self.wire != WIRE_MAJOR:
            raise PlanError(f"wire: this version speaks major {WIRE_MAJOR}, the plan {self.wire}")

    def _check_times(self) -> None:
        if self.window < 1 or self.grace < 0 or self.skew < 0:
            raise PlanError("window must be at least 1 s, grace and skew at least 0 s")
        if (
            self.start < 0
            or self.expires <= self.start
            or (self.expires - self.start) % self.window
        ):
            raise PlanError("expires must lie a whole number of windows, at least one, after start")
        if self.skew > 1000 * self.window or self.grace > 1000 * self.window:
            raise PlanError("grace and skew may not exceed a thousand windows")
        if not 1 <= self.partitions <= MAX_PARTITIONS:
            raise PlanError(f"partitions: expected 1 to {MAX_PARTITIONS}, got {self.partitions}")
        if self.users < 1:
            raise PlanError(f"users: expected at least 1 report per window, got {self.users}")

    def _check_domain(self) -> None:
        d = self.domain.ordinary
        most = d + len(self.domain.hashed)
        if not 1 <= self.k <= most:
            raise PlanError(f"k: expected 1 to {most}, the number of attributes, got {self.k}")
        if len(self.groups) > MAX_GROUPS:
            raise PlanError(f"{len(self.groups)} groups; at most {MAX_GROUPS} topics are allowed")
        for g, (group, mechanism) in enumerate(zip(self.groups, self.mechanisms, strict=True)):
            mechanism.check()
            for view in group.views:
                view.check(self.domain)
                if view.cells(self.domain) != mechanism.cells:
                    raise PlanError(
                        f"groups[{g}]: mechanism has {mechanism.cells} cells, "
                        f"view {list(view.attributes)} has {view.cells(self.domain)}"
                    )
        self._check_hashed()
        if not self.marginals or len(set(self.marginals)) != len(self.marginals):
            raise PlanError("marginals: expected at least one, and none twice")
        for marginal in self.marginals:
            if not marginal or list(marginal) != sorted(set(marginal)) or marginal[-1] >= d:
                raise PlanError(f"marginals: {list(marginal)} is not a set of attributes")

    def _check_hashed(self) -> None:
        """Check that views with a hash are cells with one hash, in the last groups."""
        d, last = self.domain.ordinary, False
        for g, group in enumerate(self.groups):
            hashes = [sum(i >= d for i in view.attributes) for view in group.views]
            first, last = last, hashes[0] > 0
            if len(set(hashes)) > 1 or hashes[0] > 1 or first > last:
                raise PlanError(
                    f"groups[{g}]: the last groups have the views with one hash, no others have any"
                )
            if last and any(view.kind != "cell" for view in group.views):
                raise PlanError(f"groups[{g}]: a view with a hash is a table")
        if last and not self.ordinary_groups:
            raise PlanError("groups: no view is without a hash")

    def _complete(self) -> None:
        """Write parameters exactly, and give a plan without limits the standard ones."""
        parameters = exact_numbers(self.parameters, "method.parameters")
        object.__setattr__(self, "parameters", parameters)
        if self.limits is STANDARD:
            largest = -(-self.users * max(group.share for group in self.groups) // self.total_share)
            object.__setattr__(self, "limits", standard_limits(largest, self.partitions))

    def _check_bounds(self) -> None:
        """Check what a plan bounds, so that readers in every language agree about it."""
        if self.version != PLAN_VERSION:
            raise PlanError(f"version: expected {PLAN_VERSION}, got {self.version}")
        if len(self.lineage_name) > MAX_NAME:
            raise PlanError(f"lineage_name: expected at most {MAX_NAME} characters")
        self._check_continues()
        self._check_summaries()
        if self.expires > MAX_TIME or self.windows > MAX_WINDOWS:
            raise PlanError(f"expires: at most {MAX_TIME}, and at most {MAX_WINDOWS} windows")
        if self.users > MAX_INTEGER:
            raise PlanError(f"users: expected at most {MAX_INTEGER}")
        for g, group in enumerate(self.groups):
            where = f"groups[{g}].mechanism"
            document = group.mechanism.to_json()
            if exact_numbers(document, where) != document:
                raise PlanError(f"{where}: a mechanism has no fractions")
            if max(view.modulus for view in group.views) > MAX_MODULUS:
                raise PlanError(f"groups[{g}]: a modulus is at most {MAX_MODULUS}")

    def _check_continues(self) -> None:
        if len(self.continues) > MAX_CONTINUES:
            raise PlanError(f"continues: expected at most {MAX_CONTINUES} lineages")
        for i, lineage in enumerate(self.continues):
            if not _HEX.fullmatch(lineage):
                raise PlanError(f"continues[{i}]: expected 32 lower-case hexadecimal digits")
        if len({self.lineage, *self.continues}) <= len(self.continues):
            raise PlanError("continues: expected different lineages, none of them the plan's own")

    def _check_summaries(self) -> None:
        if len(self.summaries) > MAX_SUMMARIES or len({*self.summaries}) < len(self.summaries):
            raise PlanError(f"summaries: expected at most {MAX_SUMMARIES} different statistics")
        for text in self.summaries:
            if not _SUMMARY.fullmatch(text):
                raise PlanError(
                    f"summaries: {text!r} is none of mean, median, rank and quantiles such as q0.9"
                )

    @property
    def ordinary_groups(self) -> int:
        """Number of groups whose views have no hash; they come first."""
        d = self.domain.ordinary
        return sum(group.views[0].attributes[-1] < d for group in self.groups)

    @cached_property
    def ordinary(self) -> Plan:
        """The part that its method fits: the first groups, without hashed attributes."""
        if self.domain.ordinary == len(self.domain):
            return self
        groups = self.groups[: self.ordinary_groups]
        share = sum(group.share for group in groups)
        return replace(
            self,
            domain=Domain(self.domain.attributes[: self.domain.ordinary]),
            groups=groups,
            k=min(self.k, self.domain.ordinary),
            users=max(1, self.users * share // self.total_share),
        )

    @cached_property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        return tuple(group.mechanism for group in self.groups)

    @property
    def windows(self) -> int:
        return (self.expires - self.start) // self.window

    @property
    def total_share(self) -> int:
        return sum(group.share for group in self.groups)

    @cached_property
    def cumulative_shares(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Running sum of the shares over all views, group by group: shape (views,), int64."""
        return np.cumsum([share for group in self.groups for share in group.shares])

    @cached_property
    def first_view(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Flat index of every group's first view, and the number of views last."""
        return np.cumsum([0, *(len(group.views) for group in self.groups)])

    @cached_property
    def derived(self) -> dict[str, Any]:
        """Results that follow from the plan alone, kept here by the code that computes them."""
        return {}

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def counted_with(self, grace: int) -> Plan:
        """Return the plan for a second count, with another grace; topics stay its own."""
        found = replace(self, grace=grace)
        found.__dict__["digest"] = self.digest
        return found

    def window_start(self, window: int) -> int:
        """Milliseconds since the epoch."""
        return (self.start + window * self.window) * 1000

    def window_end(self, window: int) -> int:
        """Milliseconds since the epoch, exclusive."""
        return self.window_start(window + 1)

    def window_at(self, milliseconds: int) -> int:
        """Return the number of the window that contains a time; negative before the start."""
        return (milliseconds - self.start * 1000) // (self.window * 1000)

    def to_json(self) -> dict[str, Any]:
        optional: dict[str, Any] = {"analysis": True} if self.analysis else {}
        if self.lineage_name:
            optional["lineage_name"] = self.lineage_name
        if self.continues:
            optional["continues"] = list(self.continues)
        if not self.early:
            optional["early"] = False
        if self.summaries:
            optional["summaries"] = list(self.summaries)
        parts = {
            "domain": self.domain.to_json(),
            "guarantee": {"kind": self.guarantee.kind, "windows": self.guarantee.windows},
            "method": {"name": self.method, "parameters": dict(self.parameters)},
            "groups": [group.to_json() for group in self.groups],
            "marginals": [list(marginal) for marginal in self.marginals],
            "limits": self.limits.to_json(),
        }
        return optional | {n: parts[n] if n in parts else getattr(self, n) for n in FIELDS}

    def to_bytes(self) -> bytes:
        return orjson.dumps(self.to_json(), option=orjson.OPT_SORT_KEYS)
