"""Offer the plans of a directory and take their reports over HTTP until SIGTERM or SIGINT.

A report is acknowledged when it is on the disk. Put a proxy with TLS in front. CALMSTREAM_*
variables hold further settings, see docs/gateway.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from calmstream import arguments
from calmstream.common.settings import load
from calmstream.connect import names_of, opened
from calmstream.process import Process
from calmstream.producer.gateway.http.gateway import Gateway
from calmstream.producer.gateway.http.metrics import GatewayMetrics
from calmstream.producer.gateway.settings import GatewaySettings

BLOCK_SECONDS = 5.0  # how long topics of a plan that do not answer may hold up those of others


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plans", required=True, metavar="DIR", help="directory of signed plans, *.json"
    )
    arguments.add(parser, *arguments.TRUST, *arguments.BROKER, *arguments.HTTP)
    parser.add_argument(
        "--spool", required=True, metavar="DIR", help="directory of this gateway alone"
    )
    parser.add_argument("--host", help="address to serve on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to serve on (default: 8080); 0: any")
    parser.add_argument(
        "--min-batch",
        type=arguments.positive,
        help="least reports of a group and window that leave together (default: 50)",
    )
    parser.add_argument(
        "--app-keys", metavar="FILE", help="who may send (default: everybody); see docs/gateway.md"
    )


def run(args: argparse.Namespace) -> int:
    settings = load(GatewaySettings, host=args.host, port=args.port, min_batch=args.min_batch)
    trust, process = arguments.trust(args), Process(args)
    with opened(args, lazy=True, block_seconds=BLOCK_SECONDS) as broker:
        gateway = Gateway(
            settings,
            GatewayMetrics(process.registry),
            spool=Path(args.spool),
            plans=Path(args.plans),
            **trust,
            app_keys=None if args.app_keys is None else Path(args.app_keys),
            broker=broker,
            names=lambda plan: names_of(args, plan),
        )
        process.run(gateway)
    return 0
