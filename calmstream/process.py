"""What every process of the service has: a web server for metrics and health, and a log."""

from __future__ import annotations

import argparse

from calmstream.common.settings import load
from calmstream.consumer.metrics.registry import new_registry
from calmstream.consumer.runtime.config import HttpConfig
from calmstream.consumer.runtime.service import Role, configure_logging, run_service


class Process:
    """The process of a command that runs until it is stopped; its log begins at once."""

    def __init__(self, args: argparse.Namespace, level: str | None = None) -> None:
        self._http = load(
            HttpConfig,
            http_host=args.http_host,
            http_port=args.http_port,
            log_level=args.log_level or level,
        )
        configure_logging(self._http.log_level)
        self.registry = new_registry()

    def run(self, *roles: Role) -> None:
        run_service(roles, self.registry, self._http)
