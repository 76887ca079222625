"""Which address answers what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response, StreamingResponse

from calmstream.common.http.shares import peer_of
from calmstream.consumer.read.changes import PREVIOUS, changes
from calmstream.consumer.read.formats import FORMATS
from calmstream.consumer.read.history import History
from calmstream.consumer.serve import documents, schemas
from calmstream.consumer.serve.answers import etag_of
from calmstream.consumer.serve.associations import associations
from calmstream.consumer.serve.context import Context
from calmstream.consumer.serve.guard import HEAD
from calmstream.consumer.serve.page_files import PageFile
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.problems import Problem, Refused
from calmstream.consumer.serve.question import (
    Question,
    check_table,
    read_against,
    read_names,
    read_range,
    read_series,
)
from calmstream.consumer.serve.schemas import problems
from calmstream.consumer.serve.series import series
from calmstream.consumer.serve.summaries import SummaryQuestion, read_statistics, summary_job

MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
}
DEFAULT_FINALS = 200
MAX_FINALS = 5000
_REVALIDATE = {"cache-control": "no-cache"}
_NO_STORE = {"cache-control": "no-store"}
_IMMUTABLE = {"cache-control": "public, max-age=31536000, immutable"}
_ONE_PLAN = problems(404, 410)
_TABLES = problems(404, 406, 410, 413, 422)

Attributes = Annotated[
    list[str],
    Query(
        description="Attributes separated by commas; or repeat the parameter, one name each.",
        examples=["region,age"],
    ),
]
Given = Annotated[
    list[str] | None, Query(description="Proportions within each value of these attributes.")
]
Windows = Annotated[str, Query(description="`total`, `latest`, `I`, `I..J` or `DATE..DATE`.")]
Group = Annotated[
    str, Query(description="Groups of labels: `region=EU|US,other;age=17-30|31-50|51+`.")
]


def known_parameters(request: Request) -> None:
    """Refuse parameters that the address does not have, and single ones that are repeated."""
    declared = {one.alias for one in request.scope["route"].dependant.query_params}
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if name not in declared:
            known = ", ".join(sorted(declared)) or "none"
            raise Refused(Problem.MALFORMED, f"unknown parameter {name!r}; there are {known}")
        if names.count(name) > 1 and name not in {"attributes", "given"}:
            raise Refused(Problem.MALFORMED, f"{name}: given more than once")


def plan_routes(context: Context) -> APIRouter:
    """Return the addresses below ``/v1``."""
    router = APIRouter(prefix="/v1", dependencies=[Depends(known_parameters)])
    for add in (_add_lists, _add_tables, _add_series, _add_summaries, _add_tests, _add_events):
        add(router, context)
    return router


def _add_lists(router: APIRouter, context: Context) -> None:
    """Add the addresses that list plans and windows."""

    @router.get("/plans", response_model=schemas.Plans, responses=problems())
    async def plans() -> Response:
        """List all plans."""
        found = [documents.short_plan(one) for _, one in sorted(context.plans.items())]
        return _json({"plans": found})

    @router.get("/plans/{name}", response_model=schemas.WholePlan, responses=_ONE_PLAN)
    async def plan(name: str) -> Response:
        """Describe a plan; `name` is its name or digest."""
        return _json(documents.whole_plan(context.plan(name)))

    @router.get("/plans/{name}/windows", response_model=schemas.PlanWindowList, responses=_ONE_PLAN)
    async def windows(
        name: str,
        limit: Annotated[
            int, Query(ge=1, le=MAX_FINALS, description="Number of newest finals.")
        ] = DEFAULT_FINALS,
    ) -> Response:
        """List the newest final windows and those whose counts are kept."""
        service = context.plan(name)
        service.require_results()
        early = service.results.early
        return _json(
            {
                "newest": service.results.newest,
                "kept": documents.ranges(service.kept),
                "finals": [documents.window_document(f) for f in service.results.last(limit)],
                "early": None
                if early is None
                else {"window": early.window, "reports": early.reports},
            }
        )


def _add_tables(router: APIRouter, context: Context) -> None:
    """Add the address of tables over any attributes and windows."""

    @router.get(
        "/plans/{name}/tables",
        response_model=schemas.TableAnswer,
        responses={
            200: {
                "content": {
                    MEDIA_TYPES["csv"]: {"schema": {"type": "string"}},
                    MEDIA_TYPES["arrow"]: {"schema": {"type": "string", "format": "binary"}},
                },
                "description": "The table, in the format asked for.",
            },
            304: {"description": "The table is still that of `If-None-Match`."},
            **_TABLES,
        },
    )
    async def tables(
        request: Request,
        name: str,
        attributes: Attributes,
        windows: Windows = "total",
        minus: Annotated[str, Query(description="Subtract the table of these windows.")] = "",
        group: Group = "",
        given: Given = None,
        format: Annotated[  # noqa: A002 - the parameter's name
            str, Query(description="`json`, `csv` or `arrow`; else by `Accept`.")
        ] = "",
    ) -> Response:
        """Compute the table over any attributes and windows. Costs no privacy."""
        service = context.plan(name)
        chosen = _format(format, request.headers.get("accept", ""))
        service.require_results()
        question = Question(
            attributes=read_names(service.plan, attributes),
            windows=read_range(service.plan, service.results, windows),
            minus=read_range(service.plan, service.results, minus) if minus else None,
            group=group.strip(),
            given=_given(service, given),
        )
        return await _table(context, service, question, chosen, request)


def _add_series(router: APIRouter, context: Context) -> None:
    """Add the address of one table for each of several windows."""

    @router.get("/plans/{name}/series", response_model=schemas.SeriesAnswer, responses=_TABLES)
    async def window_series(
        request: Request,
        name: str,
        attributes: Attributes,
        windows: Annotated[
            str, Query(description="`last:N` (the newest N), `latest`, `I..J` or `DATE..DATE`.")
        ] = "last:50",
        group: Group = "",
        given: Given = None,
    ) -> Response:
        """Give one table for each of several windows."""
        service = context.plan(name)
        service.require_results()
        names = read_names(service.plan, attributes)
        inner = _given(service, given)
        check_table(service.plan, names, inner, context.settings.max_cells)
        chosen = read_series(service.plan, service.results, windows)
        body = await series(context, service, names, chosen, group.strip(), inner, _peer(request))
        return Response(body, media_type="application/json", headers=_REVALIDATE)


def _add_summaries(router: APIRouter, context: Context) -> None:
    """Add the address of statistics of numbers and ordered labels."""

    @router.get(
        "/plans/{name}/summaries",
        response_model=schemas.SummaryAnswer,
        responses=problems(304, 404, 410, 413, 422),
    )
    async def summaries(
        request: Request,
        name: str,
        attributes: Attributes,
        statistics: Annotated[
            str,
            Query(description="`mean`, `median`, `q0.9`, `share:10..100`, with commas; or `rank`."),
        ] = "",
        windows: Windows = "total",
        group: Group = "",
        given: Given = None,
    ) -> Response:
        """Compute statistics of a number or of ordered labels. Costs no privacy."""
        service = context.plan(name)
        service.require_results()
        question = SummaryQuestion(
            attributes=read_names(service.plan, attributes),
            windows=read_range(service.plan, service.results, windows),
            statistics=read_statistics(statistics),
            given=_given(service, given),
            group=group.strip(),
        )
        job = summary_job(service.plan, question, context.settings.max_cells)
        revision = service.results.revision(question.windows.last)
        etag = etag_of(service, revision, "summaries", question)
        return await _computed(context, service, etag, job, request)


def _add_tests(router: APIRouter, context: Context) -> None:
    """Add the addresses of tests of dependence and of change."""

    @router.get(
        "/plans/{name}/associations",
        response_model=schemas.AssociationAnswer,
        responses=problems(304, 404, 410, 422),
    )
    async def all_associations(
        request: Request,
        name: str,
        windows: Windows = "total",
    ) -> Response:
        """Say how strongly each two attributes depend on each other, and give the Chow-Liu tree."""
        service = context.plan(name)
        service.require_results()
        chosen = read_range(service.plan, service.results, windows)
        revision = service.results.revision(chosen.last)
        etag = etag_of(service, revision, "associations", chosen)

        def job(history: History) -> bytes:
            return orjson.dumps(associations(service, history, chosen, context.settings.max_cells))

        return await _computed(context, service, etag, job, request)

    @router.get(
        "/plans/{name}/changes",
        response_model=schemas.ChangesAnswer,
        responses=problems(304, 404, 410, 422),
    )
    async def tests_of_change(
        request: Request,
        name: str,
        window: Annotated[
            str, Query(description="Windows to test: `latest`, `I`, `I..J` or `DATE..DATE`.")
        ] = "latest",
        against: Annotated[
            str, Query(description="`previous`, `before`, `I`, `I..J` or `DATE..DATE`.")
        ] = PREVIOUS,
    ) -> Response:
        """Test which published tables changed between windows."""
        service = context.plan(name)
        service.require_results()
        chosen = read_range(service.plan, service.results, window)
        other = read_against(service.plan, service.results, against, chosen)
        revision = service.results.revision(max(chosen.last, other.last))
        etag = etag_of(service, revision, "changes", (chosen, other))

        def job(history: History) -> bytes:
            return orjson.dumps(changes(history, chosen, other).to_json())

        return await _computed(context, service, etag, job, request)


def _add_events(router: APIRouter, context: Context) -> None:
    """Add the address of live events."""

    @router.get(
        "/plans/{name}/events",
        response_class=StreamingResponse,
        responses={
            200: {
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
                "description": "`hello`, then `early`, `final` and `total` as they are published.",
            },
            **_ONE_PLAN,
        },
    )
    async def events(request: Request, name: str) -> Response:
        """Follow what is published, as server-sent events."""
        service = context.plan(name)
        service.require_results()
        headers = {**_NO_STORE, "x-accel-buffering": "no"}
        if request.scope.get(HEAD):
            return Response(media_type="text/event-stream", headers=headers)
        stream = context.streams.open(service, _peer(request))
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


def page_routes(context: Context) -> APIRouter:
    """Return the addresses of the page."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def page(request: Request) -> Response:
        found = context.page.index
        if found is None:
            raise Refused(
                Problem.NOT_FOUND, "the page was not built; the interface begins at /v1/plans"
            )
        return _file(request, found, _REVALIDATE)

    @router.get("/assets/{name:path}")
    async def asset(request: Request, name: str) -> Response:
        found = context.page.asset(name)
        if found is None:
            raise Refused(Problem.NOT_FOUND)
        return _file(request, found, _IMMUTABLE if found.fixed else _REVALIDATE)

    return router


def _peer(request: Request) -> str:
    return peer_of(request.scope["client"])


def _given(service: PlanService, names: list[str] | None) -> tuple[str, ...]:
    """Return the attributes that proportions are given; empty names are left out."""
    return read_names(service.plan, [name for name in names or () if name])


async def _computed(
    context: Context,
    service: PlanService,
    etag: str,
    job: Callable[[History], bytes],
    request: Request,
) -> Response:
    """Answer with the JSON that a job computes, or that is kept under this tag."""
    headers = {"etag": etag, **_REVALIDATE}
    if _unchanged(request, etag):
        return Response(status_code=304, headers=headers)
    body = await context.answers.get(etag, lambda: service.submit(job, _peer(request)))
    return Response(body, media_type="application/json", headers=headers)


async def _table(
    context: Context, service: PlanService, question: Question, chosen: str, request: Request
) -> Response:
    """Answer a question about a table, computed or kept."""
    check_table(service.plan, question.attributes, question.given, context.settings.max_cells)
    newest = max(one.last for one in (question.windows, question.minus or question.windows))
    etag = etag_of(service, service.results.revision(newest), question, chosen)
    headers = {"etag": etag, "vary": "accept", **_REVALIDATE}
    if chosen == "csv":
        headers["content-disposition"] = f'attachment; filename="{service.plan.name}.csv"'
    if _unchanged(request, etag):
        return Response(status_code=304, headers=headers)
    answer = service.ask(question)

    def job(history: History) -> bytes:
        return FORMATS[chosen](service.plan, answer(history))

    body = await context.answers.get(etag, lambda: service.submit(job, _peer(request)))
    return Response(body, media_type=MEDIA_TYPES[chosen], headers=headers)


def _format(name: str, accept: str) -> str:
    """Return the name of a format, by the parameter or else by the header."""
    if name:
        if name not in FORMATS:
            known = ", ".join(FORMATS)
            raise Refused(Problem.MALFORMED, f"format {name!r}: expected one of {known}")
        return name
    wanted = _accepted(accept)
    for media_type in wanted:
        for found, own in MEDIA_TYPES.items():
            if media_type in {own, "*/*", own.partition("/")[0] + "/*"}:
                return found
    if wanted:
        raise Refused(Problem.NOT_ACCEPTABLE, f"there are {', '.join(MEDIA_TYPES.values())}")
    return "json"


def _accepted(header: str) -> list[str]:
    """Return the media types of an ``Accept`` header, the most wanted first."""
    found: list[tuple[float, int, str]] = []
    for part in filter(None, (one.strip() for one in header.split(","))):
        media_type, *parameters = (one.strip().lower() for one in part.split(";"))
        quality = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        try:
            weight = float(quality)
        except ValueError:
            weight = 0.0
        if weight > 0.0:
            found.append((-weight, len(found), media_type))
    return [media_type for _, _, media_type in sorted(found)]


def _unchanged(request: Request, etag: str) -> bool:
    known = request.headers.get("if-none-match", "").split(",")
    return etag in {tag.strip().removeprefix("W/") for tag in known}


def _json(document: Any) -> Response:
    return Response(orjson.dumps(document), media_type="application/json", headers=_NO_STORE)


def _file(request: Request, found: PageFile, headers: dict[str, str]) -> Response:
    every = {"etag": found.etag, **headers}
    if _unchanged(request, found.etag):
        return Response(status_code=304, headers=every)
    return Response(found.body, media_type=found.media_type, headers=every)
