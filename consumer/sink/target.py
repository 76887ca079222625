"""What the follower expects of a target."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.sink.stored import StoredSet
from calmstream.estimators.plan import Plan

SCHEMA_VERSION = 2
"""Version of the tables and files. A target with a newer version is refused."""

STOP_SECONDS = 10.0
"""Maximum time for which a stopped sink waits for its target."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The result of storing sets.

    Attributes:
        sets: number of sets that were written.
        rows: number of their cells.
    """

    sets: int
    rows: int


class Target(Protocol):
    """A place where sets are kept. Not safe for use from several threads, except :meth:`abort`.

    Several processes may store sets in one target at the same time: each call of :meth:`store`
    compares the sets with what is stored and writes in one step, under a lock of the target.
    """

    @property
    def name(self) -> str:
        """The target in a few words, without any password."""

    def check_plan(self, plan: Plan) -> None:
        """Check that the target can hold the names and labels of a plan; needs no connection."""

    def open(self) -> None:
        """Connect, and create the tables or migrate them to this version."""

    def store(self, sets: Sequence[StoredSet]) -> Stored:
        """Store those sets that are newer than what is stored; all of them or none.

        After a failure the next call connects again.
        """

    def abort(self) -> None:
        """Let a call that waits for an answer fail soon; may be called from another thread."""

    def close(self) -> None:
        """Release everything."""


@contextmanager
def opened(target: Target, stop: threading.Event) -> Iterator[None]:
    """Open a target, and close it at the end; a target that does not answer is an error.

    After ``stop`` is set, a call that lasts longer than :data:`STOP_SECONDS` is made to fail.
    """
    done = threading.Event()

    def abort_late() -> None:
        stop.wait()
        if not done.wait(STOP_SECONDS):
            target.abort()

    threading.Thread(target=abort_late, daemon=True).start()
    try:
        try:
            target.open()
        except RecoverableError as error:
            raise FatalError(str(error)) from None
        yield
    finally:
        done.set()
        target.close()
