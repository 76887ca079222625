"""The HTTP interface as an application; docs/serving.md describes it."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from calmstream.consumer.serve.context import Context
from calmstream.consumer.serve.problems import KINDS, Problem, Refused, answer_to
from calmstream.consumer.serve.routes import Routes


def create_app(context: Context) -> Starlette:
    def answer(problem: Problem, detail: str = "") -> Response:
        context.metrics.refused(problem)
        found = answer_to(problem, detail)
        headers = {name.decode(): value.decode() for name, value in found.headers}
        return Response(found.body, status_code=found.status, headers=headers)

    async def problem(_request: Request, error: Exception) -> Response:
        if isinstance(error, Refused):
            return answer(error.problem, error.detail)
        if not isinstance(error, HTTPException):
            return answer(Problem.INTERNAL)  # raised once more: the guard notes it
        method = error.status_code == KINDS[Problem.METHOD].status
        return answer(Problem.METHOD if method else Problem.NOT_FOUND)

    handlers = {Refused: problem, HTTPException: problem, Exception: problem}
    app = Starlette(routes=Routes(context).all(), exception_handlers=handlers)
    app.router.redirect_slashes = False
    return app
