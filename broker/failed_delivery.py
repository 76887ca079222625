"""The result of a send that no sink accepted."""

from __future__ import annotations

from calmstream.common.errors import CalmstreamError


class FailedDelivery:
    """A `Delivery` that failed before a client accepted it."""

    def __init__(self, error: CalmstreamError) -> None:
        self._error = error

    def wait(self, timeout: float) -> int:  # noqa: ARG002 - part of the protocol
        raise self._error

    def done(self) -> bool:
        return True
