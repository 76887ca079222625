"""Settings of a publisher. They change no final or total (except `note`, which only code sets)."""

from __future__ import annotations

from calmstream.common.settings import bounded
from calmstream.consumer.runtime.config import WorkerConfig
from calmstream.consumer.runtime.context import PlanContext
from calmstream.estimators.plan import Plan


class PublisherConfig(WorkerConfig):
    """Settings of a publisher; times in seconds."""

    # Between two early sets of a window; None means the larger of 5 s and a tenth of the window.
    refresh_seconds: float | None = bounded(None, ge=0, le=86_400)
    poll_seconds: float = bounded(0.2, fixed=True, ge=0, le=5)  # maximum wait of one poll
    send_seconds: float = bounded(30.0, fixed=True, gt=0, le=600)  # for one set to be acknowledged
    clean_seconds: float = bounded(60.0, fixed=True, ge=0, le=86_400)  # between two deletions
    test_changes: bool = True  # of the newest final, against the windows before
    track: bool = bounded(True, fixed=True)  # every final has a current set
    note: str = bounded("", fixed=True)  # the first of a manifest's processing steps, if any

    def refresh(self, plan: Plan) -> float:
        """Return the time between two early sets of a window of this plan, in seconds."""
        return max(5.0, plan.window / 10) if self.refresh_seconds is None else self.refresh_seconds


PublisherContext = PlanContext[PublisherConfig]
