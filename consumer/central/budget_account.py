"""The budget account of a central plan: a small file with its ledger.

Without one nothing is published. An old copy undoes payments: keep it out of backups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from calmstream.common.errors import FatalError, RecoverableError
from calmstream.common.files import exclusive, real_path, write_durably
from calmstream.estimators.central.ledger import Ledger, read_ledger
from calmstream.estimators.central.plan import CentralPlan


class BudgetAccount:
    """The account of one plan; a change replaces the file under an exclusive lock, and blocks."""

    def __init__(self, path: Path, plan: CentralPlan) -> None:
        self._path = real_path(path)
        self._plan = plan

    def create(self) -> Ledger:
        """Make the file, which nothing else makes."""
        ledger = Ledger(self._plan)
        with self._locked():
            if self._path.exists():
                raise FatalError(f"there is a budget account at {self._path} already; it is kept")
            write_durably(self._path, ledger.to_bytes())
        return ledger

    def read(self) -> Ledger:
        try:
            raw = self._path.read_bytes()
        except OSError as error:
            raise FatalError(
                f"no budget account at {self._path} ({error.strerror}); nothing is released "
                "without one: create it once per plan, or mount the volume that holds it"
            ) from None
        try:
            return read_ledger(self._plan, raw)
        except FatalError as error:
            raise FatalError(f"{self._path}: {error}; nothing is released") from None

    def bind(self, topic: str) -> Ledger:
        """Bind the account durably to one releases topic, at its first use."""
        ledger = self.read()
        return ledger if ledger.topic == topic else self._change(lambda own: own.bind(topic))

    def pay(self, release: str) -> Ledger:
        """Pay for a release. The payment is durable on return; only then may noise be drawn."""
        return self._change(lambda ledger: ledger.pay(release))

    def finish(self, release: str) -> Ledger:
        """Note that a release was sent. Without this note, the payment is still valid."""
        return self._change(lambda ledger: ledger.finish(release))

    def _change(self, step: Callable[[Ledger], Ledger]) -> Ledger:
        with self._locked():
            ledger = step(self.read())
            write_durably(self._path, ledger.to_bytes())
        return ledger

    @contextmanager
    def _locked(self) -> Iterator[None]:
        folder = self._path.parent
        if not folder.is_dir():
            # The folder is not created, because it can be a volume that is not mounted.
            raise FatalError(
                f"cannot lock the budget account: no folder {folder}; mount or create it"
            )
        try:
            with exclusive(self._path, wait=True):
                yield
        except RecoverableError as error:
            raise FatalError(f"budget account: {error}; nothing is released") from None
