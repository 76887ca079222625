"""Settings of ``calmstream serve``, from the environment (``CALMSTREAM_...``) or arguments."""

from __future__ import annotations

from calmstream.common.settings import Settings, bounded


class ServeSettings(Settings):
    """Settings of the HTTP interface; sizes in bytes, times in seconds."""

    host: str = "127.0.0.1"  # a proxy with TLS stands in front
    port: int = bounded(8090, ge=0, le=65535)  # 0 for any free one
    max_connections: int = bounded(1024, ge=1, le=100_000)  # more: idle ones are closed, or 503
    max_requests: int = bounded(512, ge=1, le=100_000)  # in progress at once; more get 503
    fits: int = bounded(2, ge=1, le=64)  # questions that are computed at once, over all plans
    # A question that takes longer gets 503; its computation goes on, for the next to ask it.
    answer_seconds: float = bounded(20.0, gt=0, le=600)
    max_cells: int = bounded(1 << 16, ge=2, le=1 << 22)  # of a table, before labels are grouped
    answer_bytes: int = bounded(64 << 20, fixed=True, ge=0, le=4 << 30)  # of answers that are kept
    # Of different large answers that clients now read; further ones get 503.
    sending_bytes: int = bounded(64 << 20, fixed=True, ge=1 << 20, le=4 << 30)
    request_seconds: float = bounded(10.0, gt=0, le=600)  # for a request to arrive
    retry_seconds: float = bounded(2.0, gt=0, le=600)  # pause after a failure to read the topics
