"""Which address answers what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from calmstream.common.errors import InvalidInput
from calmstream.common.http.shares import peer_of
from calmstream.consumer.serve import documents
from calmstream.consumer.serve.answers import Answers
from calmstream.consumer.serve.metrics import ServeMetrics
from calmstream.consumer.serve.parameters import Parameters
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.problems import Problem, Refused, refusal
from calmstream.consumer.serve.questions import QUESTIONS, Read
from calmstream.consumer.serve.series import PARAMETERS, series
from calmstream.consumer.serve.settings import ServeSettings

ASSETS = Path(__file__).parent / "assets"  # the built page; files have a hash in their names
MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
DEFAULT_FINALS = 200
MAX_FINALS = 5000
_REVALIDATE = {"cache-control": "no-cache"}
_NO_STORE = {"cache-control": "no-store"}

Plans = Callable[[], Mapping[str, PlanService]]
Handler = Callable[[Request, Parameters], Awaitable[Response]]


class Routes:
    """The addresses of a server. Those below a plan need its results."""

    def __init__(self, plans: Plans, settings: ServeSettings) -> None:
        self._served = plans
        self._settings = settings
        self._answers = Answers(settings.answer_bytes, settings.answer_seconds)

    def all(self) -> list[BaseRoute]:
        plan = "/v1/plans/{name}"
        return [
            self._route("/v1/plans", self._plans),
            self._route(plan, self._plan),
            self._route(f"{plan}/windows", self._windows, ["limit"]),
            self._route(f"{plan}/series", self._series, PARAMETERS),
            *(
                self._route(f"{plan}/{name}", self._question(read), known)
                for name, (read, known) in QUESTIONS.items()
            ),
            Route("/", _page),
            Mount("/assets", StaticFiles(directory=ASSETS, check_dir=False)),
        ]

    def _route(self, path: str, handler: Handler, known: Sequence[str] = ()) -> Route:
        async def endpoint(request: Request) -> Response:
            asked = Parameters(request.query_params, known, self._settings.max_cells)
            return await handler(request, asked)

        return Route(path, endpoint)

    async def _plans(self, _request: Request, _asked: Parameters) -> Response:
        plans = sorted(self._served().items())
        return _json({"plans": [documents.short_plan(one) for _, one in plans]})

    async def _plan(self, request: Request, _asked: Parameters) -> Response:
        return _json(documents.whole_plan(self._named(request)))

    async def _windows(self, request: Request, asked: Parameters) -> Response:
        service = self._service(request)
        limit = asked.number("limit", DEFAULT_FINALS, MAX_FINALS)
        return _json(documents.windows(service, limit))

    async def _series(self, request: Request, asked: Parameters) -> Response:
        service, peer = self._service(request), _peer(request)
        body = await series(service, asked, self._answers, self._settings, peer)
        return Response(body, media_type=MEDIA_TYPES["json"], headers=_REVALIDATE)

    def _question(self, read: Read) -> Handler:
        async def answer(request: Request, asked: Parameters) -> Response:
            service = self._service(request)
            prepared = read(service, asked)
            headers = {"etag": prepared.etag, **_REVALIDATE}
            if prepared.format == "csv":
                headers["content-disposition"] = f'attachment; filename="{service.plan.name}.csv"'
            if _unchanged(request, prepared.etag):
                return Response(status_code=304, headers=headers)
            peer = _peer(request)
            body = await self._answers.get(
                prepared.etag, lambda: service.submit(prepared.job, peer)
            )
            return Response(body, media_type=MEDIA_TYPES[prepared.format], headers=headers)

        return answer

    def _named(self, request: Request) -> PlanService:
        name, plans = request.path_params["name"], self._served()
        found = plans.get(name) or next((s for s in plans.values() if s.plan.digest == name), None)
        if found is None:
            raise Refused(Problem.UNKNOWN_PLAN, f"there is no plan {name!r}")
        return found

    def _service(self, request: Request) -> PlanService:
        service = self._named(request)
        service.require_results()
        return service


async def _page(_request: Request) -> Response:
    if not (ASSETS / "index.html").is_file():
        raise Refused(
            Problem.NOT_FOUND, "the page was not built; the interface begins at /v1/plans"
        )
    return FileResponse(ASSETS / "index.html", headers=_REVALIDATE)


def _peer(request: Request) -> str:
    return peer_of(request.scope["client"])


def _unchanged(request: Request, etag: str) -> bool:
    known = request.headers.get("if-none-match", "").split(",")
    return etag in {tag.strip().removeprefix("W/") for tag in known}


def _json(document: Any) -> Response:
    return Response(orjson.dumps(document), media_type=MEDIA_TYPES["json"], headers=_NO_STORE)


def create_app(plans: Plans, settings: ServeSettings, metrics: ServeMetrics) -> Starlette:
    def answer(problem: Problem, detail: str = "") -> Response:
        metrics.refused(problem)
        found = problem.answer(detail)
        headers = {name.decode(): value.decode() for name, value in found.headers}
        return Response(found.body, status_code=found.status, headers=headers)

    async def problem(_request: Request, error: Exception) -> Response:
        if isinstance(error, InvalidInput):
            error = refusal(error)  # of what was asked, before any job
        if isinstance(error, Refused):
            return answer(error.problem, error.detail)
        if not isinstance(error, HTTPException):
            return answer(Problem.INTERNAL)  # raised once more: the guard notes it
        method = error.status_code == Problem.METHOD.kind.status
        return answer(Problem.METHOD if method else Problem.NOT_FOUND)

    kinds = (Refused, InvalidInput, HTTPException, Exception)
    handlers = dict.fromkeys(kinds, problem)
    app = Starlette(routes=Routes(plans, settings).all(), exception_handlers=handlers)
    app.router.redirect_slashes = False
    return app
