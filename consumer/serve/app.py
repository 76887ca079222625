"""The HTTP interface as an application. ``/openapi.json`` is its published form."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from calmstream.consumer.serve.context import Context
from calmstream.consumer.serve.problems import KINDS, Problem, Refused, answer_to
from calmstream.consumer.serve.routes import page_routes, plan_routes
from calmstream.consumer.serve.schemas import with_problems

DESCRIPTION = (
    "Tables about people from reports that every device perturbed itself. Everything here is "
    "computed from published counts: a question costs no privacy. All addresses are read-only. "
    "Times are seconds since the epoch, UTC."
)


class _Documented(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        return with_problems(super().openapi())


def create_app(context: Context) -> FastAPI:
    """Return the application."""
    app = _Documented(
        title="calmstream",
        version="1",
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.include_router(plan_routes(context))
    app.include_router(page_routes(context))

    def problem_response(problem: Problem, detail: str = "") -> Response:
        context.observer.refused(problem)
        found = answer_to(problem, detail)
        headers = {name.decode(): value.decode() for name, value in found.headers}
        return Response(found.body, status_code=found.status, headers=headers)

    @app.exception_handler(Refused)
    async def refused(_request: Request, error: Refused) -> Response:
        return problem_response(error.problem, error.detail)

    @app.exception_handler(RequestValidationError)
    async def malformed(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = str(first["loc"][-1])
        return problem_response(Problem.MALFORMED, f"{where}: {first['msg']}")

    @app.exception_handler(HTTPException)
    async def other(_request: Request, error: HTTPException) -> Response:
        method = error.status_code == KINDS[Problem.METHOD].status
        return problem_response(Problem.METHOD if method else Problem.NOT_FOUND)

    @app.exception_handler(Exception)
    async def defect(_request: Request, _error: Exception) -> Response:
        # The error is raised once more; the guard notes it.
        return problem_response(Problem.INTERNAL)

    return app
