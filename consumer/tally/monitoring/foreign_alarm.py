"""An alarm for too many records that no device of this plan can have sent.

In this module, a record is *foreign* if it was rejected as *undecodable*, *unknown_version* or
*unknown_plan*. It comes from a foreign or faulty sender. In `runtime.foreign_records`
the word means other records: those that calmstream did not write, in the state, snapshots and
dead-letter topics. A record that is not foreign ends a sequence of foreign records, even if it is
late or repeated. Ticks (records without reports) are ignored. The alarm never influences
what is counted or rejected.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat

import structlog

from calmstream.common.errors import FatalError, Reason
from calmstream.consumer.runtime.config import TallyConfig

FOREIGN_REASONS = frozenset({Reason.UNDECODABLE, Reason.UNKNOWN_VERSION, Reason.UNKNOWN_PLAN})


class ForeignRecordAlarm:
    """Counts foreign records among the last records of this worker, and compares with a limit.

    The limit is exceeded if more than a share ``poison_ratio`` of the last ``poison_records``
    records is foreign, or if ``poison_consecutive`` records in a row are foreign. The alarm logs
    this once and shows it in :attr:`exceeded`. It stops the worker only if ``poison_stop`` is set.

    Cost: O(1) for each record; memory for ``poison_records`` flags.

    Attributes:
        exceeded: whether the limit is exceeded at present.
    """

    def __init__(self, config: TallyConfig) -> None:
        self._config = config
        self._recent: deque[bool] = deque(maxlen=config.poison_records)
        self._foreign = 0
        self._run = 0
        self._log = structlog.get_logger("calmstream.tally")
        self.exceeded = False

    def note(self, reason: Reason | None) -> None:
        """Note one record: why it was rejected, or None if it was accepted."""
        foreign = reason in FOREIGN_REASONS
        if len(self._recent) == self._recent.maxlen:
            self._foreign -= self._recent[0]
        self._recent.append(foreign)
        self._foreign += foreign
        self._run = self._run + 1 if foreign else 0
        above_limit = self._above_limit()
        if above_limit != self.exceeded:
            self.exceeded = above_limit
            self._log_change(reason)

    def note_accepted(self, count: int) -> None:
        """Note accepted records, as ``count`` calls of ``note(None)`` do."""
        if self._foreign:
            for _ in range(count):
                self.note(None)
        elif count:
            # No record among the last ones is foreign, so that only their number changes.
            self._recent.extend(repeat(False, min(count, self._config.poison_records)))

    def _above_limit(self) -> bool:
        full = len(self._recent) == self._recent.maxlen
        ratio = self._foreign / len(self._recent)
        return self._run >= self._config.poison_consecutive or (
            full and ratio > self._config.poison_ratio
        )

    def _log_change(self, reason: Reason | None) -> None:
        facts = {
            "foreign": self._foreign,
            "of_last": len(self._recent),
            "consecutive": self._run,
        }
        if not self.exceeded:
            self._log.info("foreign records are below the limit again", **facts)
            return
        self._log.error(
            "too many records that no device of this plan can have sent",
            reason=reason.value if reason is not None else "",
            action="stop" if self._config.poison_stop else "alert",
            **facts,
        )
        if self._config.poison_stop:
            raise FatalError(
                f"{self._foreign} of the last {len(self._recent)} records are undecodable or of "
                "another version or plan; look at the dead letters, repair the sender, then start "
                "again (CALMSTREAM_POISON_STOP=false continues to count)"
            )
