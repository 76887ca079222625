"""Settings of a publisher. They do not change the content of a final or a total."""

from __future__ import annotations

from calmstream.common.settings import bounded
from calmstream.consumer.runtime.config import WorkerConfig
from calmstream.consumer.runtime.context import PlanContext
from calmstream.estimators.plan import Plan


class PublisherConfig(WorkerConfig):
    """Settings of a publisher.

    Attributes:
        refresh_seconds: time between two early sets of a window; None means the larger of 5 s and a
            tenth of the plan's window.
        poll_seconds: maximum time for which one poll waits for records.
        send_seconds: maximum wait for the acknowledgement of one set.
        clean_seconds: time between two searches for records that can be deleted.
        test_changes: whether the newest final is tested for changes against the windows before.
        track: whether every final has a current set.
        note: what a manifest states first among its processing steps; empty for nothing.
    """

    refresh_seconds: float | None = bounded(None, ge=0, le=86_400)
    poll_seconds: float = bounded(0.2, fixed=True, ge=0, le=5)
    send_seconds: float = bounded(30.0, fixed=True, gt=0, le=600)
    clean_seconds: float = bounded(60.0, fixed=True, ge=0, le=86_400)
    test_changes: bool = True
    track: bool = bounded(True, fixed=True)
    note: str = bounded("", fixed=True)

    def refresh(self, plan: Plan) -> float:
        """Return the time between two early sets of a window of this plan, in seconds."""
        return max(5.0, plan.window / 10) if self.refresh_seconds is None else self.refresh_seconds


PublisherContext = PlanContext[PublisherConfig]
