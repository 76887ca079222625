"""What all addresses of the HTTP interface share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from calmstream.consumer.serve.answers import Answers, etag_of
from calmstream.consumer.serve.metrics import ServeMetrics
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.problems import Problem, Refused
from calmstream.consumer.serve.questions import Question
from calmstream.consumer.serve.settings import ServeSettings


class Context:
    """Plans by name, limits and computed answers of one server."""

    def __init__(
        self,
        plans: Callable[[], Mapping[str, PlanService]],
        settings: ServeSettings,
        metrics: ServeMetrics,
    ) -> None:
        self.plans = plans
        self.settings = settings
        self.metrics = metrics
        self.answers = Answers(settings.answer_bytes, settings.answer_seconds)

    def plan(self, name: str) -> PlanService:
        plans = self.plans()
        found = plans.get(name) or next((s for s in plans.values() if s.plan.digest == name), None)
        if found is None:
            raise Refused(Problem.UNKNOWN_PLAN, f"there is no plan {name!r}")
        return found

    def etag(self, service: PlanService, question: Question) -> str:
        revision = service.results.revision(question.last)
        return etag_of(service.plan.digest, service.namespace, revision, question.key)

    async def answer(self, service: PlanService, question: Question, peer: str) -> bytes:
        etag = self.etag(service, question)
        return await self.answers.get(etag, lambda: service.submit(question.job, peer))
