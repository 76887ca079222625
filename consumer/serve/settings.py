"""Settings of ``calmstream serve``, from the environment (``CALMSTREAM_...``) or arguments."""

from __future__ import annotations

from calmstream.common.settings import Settings, bounded


class ServeSettings(Settings):
    """Settings of the HTTP interface; sizes in bytes, times in seconds.

    Only code, such as tests, sets the ``fixed`` ones: they have no variable.

    Attributes:
        host: address to bind; loopback by default, because a proxy with TLS stands in front.
        port: 0 for any free one.
        max_connections: open at once; further ones replace idle ones of the client or get 503.
        max_requests: in progress at once; further ones get 503.
        fits: questions, each a fit of a model, that are computed at once, over all plans.
        answer_seconds: a question that takes longer gets 503; its computation goes on, so that the
            same question succeeds later.
        max_cells: largest table, before labels are grouped.
        answer_bytes: of computed answers that are kept.
        sending_bytes: of different large answers that clients now read; further ones get 503.
        request_seconds: time for a request to arrive.
        retry_seconds: pause after a failure to read the topics.
    """

    host: str = "127.0.0.1"
    port: int = bounded(8090, ge=0, le=65535)
    max_connections: int = bounded(1024, ge=1, le=100_000)
    max_requests: int = bounded(512, ge=1, le=100_000)
    fits: int = bounded(2, ge=1, le=64)
    answer_seconds: float = bounded(20.0, gt=0, le=600)
    max_cells: int = bounded(1 << 16, ge=2, le=1 << 22)
    answer_bytes: int = bounded(64 << 20, fixed=True, ge=0, le=4 << 30)
    sending_bytes: int = bounded(64 << 20, fixed=True, ge=1 << 20, le=4 << 30)
    request_seconds: float = bounded(10.0, gt=0, le=600)
    retry_seconds: float = bounded(2.0, gt=0, le=600)
