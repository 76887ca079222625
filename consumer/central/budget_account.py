"""The budget account of a central plan: a small file that is durable before a release can leave.

The file is replaced as a whole and durably under an exclusive lock, so that two aggregators cannot
spend the same budget. A missing or damaged account stops publishing. Only
:meth:`BudgetAccount.create` creates one, and never over another. Whoever can restore an old copy
can undo a payment: keep the file where no backup is restored over it.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from broker.files import exclusive, real_path, write_durably
from estimators.central.ledger import Ledger, read_ledger
from estimators.errors import FatalError, RecoverableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from estimators.central.accounting import Spend

MAX_BYTES = 64 << 20


class BudgetAccount:
    """One plan's account on disk. Methods block for the disk and for another holder of the lock."""

    def __init__(self, path: Path, plan: str) -> None:
        """Name the file and the digest of the plan that it has to belong to."""
        self._path = real_path(path)
        self._plan = plan

    @classmethod
    def create(cls, path: Path, ledger: Ledger) -> BudgetAccount:
        """Open a new, empty account.

        Raises:
            FatalError: there is a file already: an account is never replaced by a new one.
        """
        account = cls(path, ledger.plan)
        with account._locked():
            if path.exists():
                raise FatalError(f"there is a budget account at {path} already; it is kept")
            account._write(ledger)
        return account

    def read(self) -> Ledger:
        """Return the current ledger.

        Raises:
            FatalError: missing, damaged, or of another plan.
        """
        try:
            raw = self._path.read_bytes()
        except OSError as error:
            raise FatalError(
                f"no budget account at {self._path} ({error.strerror}); nothing is released "
                "without one: create it once per plan, or restore it"
            ) from None
        if len(raw) > MAX_BYTES:
            raise FatalError(f"the budget account at {self._path} is too large to be one")
        try:
            ledger = read_ledger(raw)
        except FatalError as error:
            raise FatalError(f"{self._path}: {error}; nothing is released") from None
        if ledger.plan != self._plan:
            raise FatalError(
                f"{self._path} belongs to plan {ledger.plan[:8]}, not {self._plan[:8]}"
            )
        return ledger

    def bind(self, topic: str) -> Ledger:
        """Bind the account to one releases topic, durably, at its first use.

        Raises:
            FatalError: it is bound to another topic, or unusable, or it could not be written.
        """
        ledger = self.read()
        return ledger if ledger.topic == topic else self._change(lambda own: own.bind(topic))

    def pay(self, release: str, cost: Spend) -> Ledger:
        """Pay for a release; durable when this returns, and only then may noise be drawn.

        Raises:
            BudgetSpent: the budget does not cover it, or the release was paid for before.
            FatalError: the account is unusable or could not be written.
        """
        return self._change(lambda ledger: ledger.pay(release, cost))

    def finish(self, release: str) -> Ledger:
        """Note that the release was sent. If this note is lost, the payment stays valid."""
        return self._change(lambda ledger: ledger.finish(release))

    def _change(self, step: Callable[[Ledger], Ledger]) -> Ledger:
        with self._locked():
            ledger = step(self.read())
            self._write(ledger)
        return ledger

    @contextmanager
    def _locked(self) -> Iterator[None]:
        folder = self._path.parent
        if not folder.is_dir():
            # The folder is not created: it may be a volume that is not mounted.
            raise FatalError(
                f"cannot lock the budget account: folder {folder} does not exist; mount or create "
                "it"
            )
        with ExitStack() as stack:
            try:
                stack.enter_context(exclusive(self._path, wait=True))
            except RecoverableError as error:
                raise FatalError(f"cannot lock the budget account: {error}") from None
            yield

    def _write(self, ledger: Ledger) -> None:
        try:
            write_durably(self._path, ledger.to_bytes())
        except RecoverableError as error:
            raise FatalError(f"budget account: {error}; nothing is released") from None
