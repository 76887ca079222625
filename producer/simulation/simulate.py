"""Simulates a population of devices, with one call of a mechanism for each group."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.domain import Codes
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import Randomness, SystemRandomness
from calmstream.producer.device.assignment import SECRET_BYTES, group_of, places
from calmstream.producer.gateway.encoding import (
    DEFAULT_SIZE,
    EncodedBatch,
    make_batch,
    most_reports,
    permutation,
)

Indices = NDArray[np.int64]

_NEVER = -(1 << 40)  # last window of a device that has not reported


class Population:
    """A population in which device i holds row i of a table.

    With ``records`` a window has its own table of the same devices; windows ascend. ``flat``, the
    view over all groups, and ``slot`` are (n,) int64. The rules are `device.ledger`'s.
    """

    def __init__(
        self,
        plan: Plan,
        codes: Codes,
        *,
        randomness: Randomness | None = None,
        records: Callable[[int], Codes] | None = None,
    ) -> None:
        self.plan = plan
        self.randomness = randomness or SystemRandomness()
        self._codes, self._records, self._window = codes, records, -1
        secrets = self.randomness.bytes(len(codes) * SECRET_BYTES)
        self.secrets = [
            secrets[at : at + SECRET_BYTES] for at in range(0, len(secrets), SECRET_BYTES)
        ]
        self.flat, self.slot = places(plan, self.secrets)
        self._last = np.full(len(codes), _NEVER, np.int64)

    def __len__(self) -> int:
        return len(self._codes)

    def due(self, window: int) -> Indices:
        """Return the indices of the devices that may report, ascending; no record matters."""
        if not 0 <= window < self.plan.windows:
            return np.zeros(0, np.int64)
        guarantee = self.plan.guarantee
        wait = -_NEVER if guarantee.kind == "once" else guarantee.windows
        return np.flatnonzero(
            (window - self._last >= wait) & (self.slot == window % guarantee.windows)
        )

    def finished(self, window: int) -> bool:
        if window >= self.plan.windows:
            return True
        return self.plan.guarantee.kind == "once" and not len(self.due(window))

    def reports(
        self, window: int, devices: Indices, batch_size: int = DEFAULT_SIZE
    ) -> Iterator[EncodedBatch]:
        """Yield the devices' reports by group, in batches of random composition, nearly equal."""
        if not len(devices):
            return
        self._last[devices] = window
        if self._records is not None and window != self._window:
            self._codes, self._window = self._records(window), window
        shuffled = devices[permutation(len(devices), self.randomness)]
        group = group_of(self.plan, self.flat[shuffled])
        order = np.argsort(group, kind="stable")
        present, starts = np.unique(group[order], return_index=True)
        for g, members in zip(present, np.split(shuffled[order], starts[1:]), strict=True):
            yield from self._batches(window, int(g), members, batch_size)

    def _batches(
        self, window: int, g: int, members: Indices, batch_size: int
    ) -> Iterator[EncodedBatch]:
        view = self.flat[members] - int(self.plan.first_view[g])
        columns = self.plan.mechanisms[g].perturb(self._inputs(g, view, members), self.randomness)
        parts = -(-len(members) // min(batch_size, most_reports(self.plan, g)))
        edges = np.linspace(0, len(members), parts + 1).astype(np.int64)
        for low, high in itertools.pairwise(edges):
            rows = slice(low, high)
            part = {name: column[rows] for name, column in columns.items()}
            yield make_batch(self.plan, g, window, view[rows], part)

    def _inputs(self, g: int, view: Indices, members: Indices) -> Indices:
        views, domain = self.plan.groups[g].views, self.plan.domain
        if len(views) == 1:
            return views[0].inputs(self._codes[members], domain)
        inputs = np.empty(len(members), np.int64)
        order = np.argsort(view, kind="stable")
        present, starts = np.unique(view[order], return_index=True)
        for v, rows in zip(present, np.split(order, starts[1:]), strict=True):
            inputs[rows] = views[v].inputs(self._codes[members[rows]], domain)
        return inputs
