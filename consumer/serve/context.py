"""What all addresses of the HTTP interface share."""

from __future__ import annotations

from collections.abc import Mapping

from calmstream.consumer.serve.answers import Answers
from calmstream.consumer.serve.events import Streams
from calmstream.consumer.serve.guard import RequestObserver
from calmstream.consumer.serve.page_files import PageFiles
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.problems import Problem, Refused
from calmstream.consumer.serve.served_plans import ServedPlans
from calmstream.consumer.serve.settings import ServeSettings


class Context:
    """Plans, limits, streams and computed answers of one server."""

    def __init__(
        self,
        plans: ServedPlans,
        settings: ServeSettings,
        page: PageFiles,
        observer: RequestObserver,
    ) -> None:
        self._plans = plans
        self.settings = settings
        self.page = page
        self.observer = observer
        self.streams = Streams(settings.max_streams, settings.heartbeat_seconds)
        self.answers = Answers(settings.answer_bytes, settings.answer_seconds)

    @property
    def plans(self) -> Mapping[str, PlanService]:
        """The plans by name, as they are now."""
        return self._plans.by_name

    def plan(self, name: str) -> PlanService:
        """Return a plan by its name or digest."""
        found = self.plans.get(name)
        if found is None:
            found = next((s for s in self.plans.values() if s.plan.digest == name), None)
        if found is None:
            raise Refused(Problem.UNKNOWN_PLAN, f"there is no plan {name!r}")
        return found
