"""The gateway's settings, from the environment (``CALMSTREAM_...``) or the command line."""

from __future__ import annotations

from calmstream.common.errors import InvalidInput
from calmstream.common.settings import Settings, bounded


class GatewaySettings(Settings):
    """Settings of the gateway, as in ``docs/gateway.md``; sizes in bytes, times in seconds."""

    host: str = "127.0.0.1"  # a proxy with TLS stands in front
    port: int = bounded(8080, ge=0, le=65535)
    origins: str = ""
    batch_size: int = bounded(1000, ge=1)
    linger: float = bounded(1.0, gt=0)
    # At most half of batch_size and of the plan's ``limits.batch_reports``.
    min_batch: int = bounded(50, ge=1)
    max_connections: int = bounded(4096, ge=1, le=100_000)
    max_requests: int = bounded(2048, ge=1, le=100_000)
    body_bytes: int = bounded(4 << 20, ge=1024, le=64 << 20)
    # It bounds what one frame of the spool can hold.
    buffer_bytes: int = bounded(32 << 20, ge=1 << 20, le=192 << 20)
    request_seconds: float = bounded(10.0, gt=0, le=600)
    idle_seconds: float = bounded(30.0, fixed=True, gt=0, le=3600)
    stop_seconds: float = bounded(20.0, gt=0, le=600)

    def check(self) -> None:
        if self.body_bytes > self.buffer_bytes:
            raise InvalidInput(
                "CALMSTREAM_BODY_BYTES may be at most CALMSTREAM_BUFFER_BYTES: "
                f"{self.body_bytes:,} and {self.buffer_bytes:,}"
            )
