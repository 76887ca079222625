"""``calmstream serve``: answer questions about results over HTTP, and serve the page."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry

from calmstream import arguments
from calmstream.broker.security import SecurityConfig
from calmstream.common.clock import Clock, SystemClock
from calmstream.common.errors import InvalidInput
from calmstream.common.settings import load
from calmstream.connect import LazyKafka
from calmstream.consumer.metrics.registry import new_registry
from calmstream.consumer.runtime.service import Role, configure_logging, run_service
from calmstream.consumer.serve.metrics import ServeMetrics
from calmstream.consumer.serve.server import ResultsServer
from calmstream.consumer.serve.settings import ServeSettings
from calmstream.estimators.plan import Plan
from calmstream.estimators.planning import require_answers
from calmstream.service import read_folder

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Serve the results of plans until SIGTERM or SIGINT: a page for people, and "
        "tables, series and events for programs. Everything is read-only and comes from the "
        "topics of snapshots and counts. Put a proxy with TLS in front of other addresses than "
        "loopback. CALMSTREAM_* variables hold further settings, see docs/serving.md."
    )
    arguments.add_plans(parser)
    arguments.add_broker(parser)
    arguments.add_output_namespace(parser)
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
    arguments.add_http(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    http = arguments.http_config(args)
    settings = load(ServeSettings, host=args.host, port=args.port)
    load(SecurityConfig).client_settings()
    token = None if args.token_file is None else read_token(args.token_file)
    arguments.check_plans(args)
    configure_logging(http.log_level)
    registry, clock = new_registry(), SystemClock()
    wanted, roles = _plans(args, clock, registry)
    broker = LazyKafka(args.bootstrap)
    server = ResultsServer(
        wanted,
        broker,
        settings,
        clock,
        ServeMetrics(registry),
        namespace=args.namespace,
        output_namespace=args.output_namespace,
        hosts=args.allow_host,
        origins=args.allow_origin,
        token=token,
    )
    try:
        run_service([*roles, server], registry, http)
    finally:
        broker.close()
    return 0


def _plans(
    args: argparse.Namespace, clock: Clock, registry: CollectorRegistry
) -> tuple[Callable[[], Mapping[str, Plan]], list[Role]]:
    """Return what gives the plans to serve, by digest, and the role that looks after them."""
    if args.plans is None:
        plan = arguments.load_plan(args.plan)
        require_answers(plan)
        return lambda: {plan.digest: plan}, []
    folder = read_folder(args, clock, registry, publishes=True)
    return lambda: folder.plans, [folder]


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
