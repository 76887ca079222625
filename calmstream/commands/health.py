"""Exit 0 if /livez answers 200, else 1 with the reason."""

from __future__ import annotations

import argparse
import http.client

from calmstream.common.errors import RecoverableError
from calmstream.common.http.server import anywhere, as_host
from calmstream.common.settings import load
from calmstream.consumer.runtime.config import HttpConfig

TIMEOUT_SECONDS = 2.0


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http-port",
        type=int,
        help="port of the service (default: CALMSTREAM_HTTP_PORT, else 9464)",
    )


def run(args: argparse.Namespace) -> int:
    config = load(HttpConfig, http_port=args.http_port)
    host = "localhost" if anywhere(config.http_host) else config.http_host
    connection = http.client.HTTPConnection(host, config.http_port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/livez")
        response = connection.getresponse()
        body = response.read().decode(errors="replace").strip()
    except OSError as error:
        raise RecoverableError(
            f"nobody answers at {as_host(host)}:{config.http_port}: {error}"
        ) from None
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise RecoverableError(f"not alive: {body}")
    return 0
