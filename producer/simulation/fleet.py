"""The secrets and ledgers of a simulated population, as arrays with one element for each device.

The ledger of a device is the record of the privacy loss that it has spent. The rules are those of
`device.ledger`, applied to all devices at once.
"""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import FatalError, InvalidInput
from calmstream.common.files import exclusive, read_if_there, real_path, write_durably
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import Randomness, SystemRandomness
from calmstream.producer.device.assignment import SECRET_BYTES
from calmstream.producer.device.ledger import allowance, counts, horizon

FLEET_VERSION = 1

Mask = NDArray[np.bool_]


@dataclass(slots=True, eq=False)
class Account:
    """The privacy loss that every device has spent under one plan.

    As `Spent`, with the plan's start and window in seconds. ``last`` is the last window that each
    device reported on, (n,) int64, without meaning where ``reports``, (n,) int64, is 0.
    """

    epsilon: str
    start: int
    window: int
    horizon: int
    bound: str
    last: NDArray[np.int64]
    reports: NDArray[np.int64]

    @property
    def ends(self) -> NDArray[np.int64]:
        """End of each device's last window, seconds since the epoch; shape (n,)."""
        return self.start + (self.last + 1) * self.window


class Fleet:
    """n devices under one lineage: a series of plans that share the memory of devices."""

    def __init__(
        self,
        lineage: str,
        secrets: NDArray[np.uint8],
        accounts: dict[str, Account] | None = None,
        path: Path | None = None,
    ) -> None:
        self.lineage = lineage
        self.secrets = secrets
        self.accounts = {} if accounts is None else accounts
        self._path = path

    @classmethod
    def new(cls, n: int, lineage: str, randomness: Randomness | None = None) -> Fleet:
        """Return n devices that have never reported, with random secrets."""
        raw = (randomness or SystemRandomness()).bytes(n * SECRET_BYTES)
        return cls(lineage, np.frombuffer(raw, np.uint8).reshape(n, SECRET_BYTES))

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: str | Path, n: int, lineage: str) -> Iterator[Fleet]:
        """Open the devices of a file, or create new ones if it does not exist; hold its lock."""
        where = real_path(path)
        with exclusive(where, wait=False):
            raw = read_if_there(where)
            found = cls.new(n, lineage) if raw is None else _from_bytes(raw, where)
            if len(found) != n:
                raise InvalidInput(f"{where} contains {len(found):,} devices, expected {n:,}")
            if found.lineage != lineage:
                raise InvalidInput(f"{where} belongs to another lineage; use another file")
            fleet = cls(lineage, found.secrets, found.accounts, where)
            fleet.save()
            yield fleet

    def __len__(self) -> int:
        return len(self.secrets)

    def may_report(self, plan: Plan, window: int, slot: NDArray[np.int64]) -> Mask:
        """Return whether each device may report now: shape (n,). O(n) for each earlier plan."""
        if not 0 <= window < plan.windows:
            return np.zeros(len(self), np.bool_)
        may: Mask = slot == window % plan.guarantee.windows
        own = self.accounts.get(plan.digest)
        if own is not None and plan.guarantee.kind == "once":
            may &= own.reports == 0
        elif own is not None:
            may &= (own.reports == 0) | (window - own.last >= plan.guarantee.windows)
        may &= self._affordable(plan, window)
        return may

    def claim(self, plan: Plan, window: int, devices: NDArray[np.int64]) -> None:
        """Enter one report of each device into its ledger; durable on return if there is a file.

        Call this before any of these reports is sent, and only for devices that :meth:`may_report`
        allows.
        """
        account = self.accounts.get(plan.digest)
        if account is None:
            times = plan.start, plan.window, horizon(plan)
            last, reports = np.zeros((2, len(self)), np.int64)
            account = Account(plan.epsilon, *times, plan.lineage_epsilon, last, reports)
            self.accounts[plan.digest] = account
        account.last[devices] = window
        account.reports[devices] += 1
        self.save()

    def _affordable(self, plan: Plan, window: int) -> Mask:
        """Return whether the lineage's bounds allow each device one more report: shape (n,)."""
        others = [a for digest, a in self.accounts.items() if digest != plan.digest]
        if not others:
            return np.ones(len(self), np.bool_)
        counted = [a.reports * counts(plan, window, a.ends, a.horizon) for a in others]
        answered = [a.reports > 0 for a in others]
        # A row holds what matters of one device. Many devices have equal rows, so the decision is
        # computed only once for each distinct row, with exact decimals.
        rows, which = np.unique(np.stack(counted + answered, axis=1), axis=0, return_inverse=True)
        n = len(others)
        fits = [_fits(plan, others, row[:n], row[n:]) for row in rows.tolist()]
        return np.array(fits, np.bool_)[which.reshape(-1)]

    def save(self) -> None:
        """Write the file if the fleet has one; durable on return."""
        if self._path is not None:
            write_durably(self._path, self._to_bytes())

    def _to_bytes(self) -> bytes:
        arrays: dict[str, Any] = {
            "version": np.int64(FLEET_VERSION),
            "lineage": np.array(self.lineage),
            "secrets": self.secrets,
        }
        for digest, a in self.accounts.items():
            arrays[f"{digest}.epsilon"] = np.array(a.epsilon)
            arrays[f"{digest}.bound"] = np.array(a.bound)
            arrays[f"{digest}.times"] = np.array([a.start, a.window, a.horizon], np.int64)
            arrays[f"{digest}.spent"] = np.stack([a.last, a.reports])
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        return buffer.getvalue()


def _fits(
    plan: Plan, others: Sequence[Account], counted: Sequence[int], answered: Sequence[int]
) -> bool:
    """Return whether the bounds of the lineage allow one device one more report."""
    losses = (n * Decimal(a.epsilon) for n, a in zip(counted, others, strict=True))
    spent = sum(losses, start=Decimal(plan.epsilon))
    return spent <= allowance(plan, compress((a.bound for a in others), answered))


def _from_bytes(raw: bytes, path: Path) -> Fleet:
    try:
        zipfile.ZipFile(io.BytesIO(raw)).close()
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            return _fleet(arrays)
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise FatalError(
            f"{path} is damaged ({error}); restore it. If you delete it, the next run creates new "
            "devices, which report again"
        ) from None


def _fleet(arrays: Any) -> Fleet:
    if int(arrays["version"]) != FLEET_VERSION:
        raise ValueError("written by another version")
    secrets, accounts = arrays["secrets"], {}
    for digest in (n.removesuffix(".spent") for n in arrays.files if n.endswith(".spent")):
        epsilon, bound = (str(arrays[f"{digest}.{name}"]) for name in ("epsilon", "bound"))
        start, window, duration = (int(second) for second in arrays[f"{digest}.times"])
        last, reports = arrays[f"{digest}.spent"]
        if last.shape != (len(secrets),):
            raise ValueError("arrays of different lengths")
        accounts[digest] = Account(epsilon, start, window, duration, bound, last, reports)
    if secrets.shape[1:] != (SECRET_BYTES,):
        raise ValueError("secrets of another length")
    return Fleet(str(arrays["lineage"]), secrets, accounts)
