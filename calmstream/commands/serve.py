"""Serve the results of plans until SIGTERM or SIGINT.

A page for people, and tables, series and events for programs. Everything is read-only and comes
from the topics of snapshots and counts. Put a proxy with TLS in front of other addresses than
loopback. CALMSTREAM_* variables hold further settings, see docs/serving.md.
"""

from __future__ import annotations

import argparse
import re

from calmstream import arguments
from calmstream.common.clock import SystemClock
from calmstream.common.errors import InvalidInput
from calmstream.common.settings import load
from calmstream.connect import opened
from calmstream.consumer.plans.folder import PlanFolder
from calmstream.consumer.runtime.service import Role
from calmstream.consumer.serve.metrics import ServeMetrics
from calmstream.consumer.serve.server import ResultsServer
from calmstream.consumer.serve.settings import ServeSettings
from calmstream.process import Process
from calmstream.service import served_plans

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add_plans(parser)
    parser.add_argument("--host", help="address to serve on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to serve on (default: 8090); 0: any")
    parser.add_argument(
        "--token-file", metavar="FILE", help="file with the bearer token that requests need"
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="further name of this server, as clients call it; may be repeated",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="origin such as https://example.org whose pages may ask; may be repeated",
    )
    arguments.add(parser, *arguments.HTTP)


def run(args: argparse.Namespace) -> int:
    process = Process(args)
    settings = load(ServeSettings, host=args.host, port=args.port)
    token = None if args.token_file is None else read_token(args.token_file)
    plans = served_plans(args, process.registry, publishes=True)
    roles: list[Role] = [plans] if isinstance(plans, PlanFolder) else []
    with opened(args, lazy=True) as broker:
        server = ResultsServer(
            lambda: plans.plans if isinstance(plans, PlanFolder) else {plans.digest: plans},
            broker,
            settings,
            SystemClock(),
            ServeMetrics(process.registry),
            **arguments.spaces(args),
            hosts=args.allow_host,
            origins=args.allow_origin,
            token=token,
        )
        process.run(*roles, server)
    return 0


def read_token(path: str) -> str:
    try:
        token = arguments.read_file(path).decode().strip()
    except UnicodeDecodeError:
        token = ""
    if _TOKEN.fullmatch(token) is None:
        raise InvalidInput(
            f"{path}: expected one token of 16 to 512 letters, digits and -._~+/=, for example "
            "from: openssl rand -hex 32"
        )
    return token
