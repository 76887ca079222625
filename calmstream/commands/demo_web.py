"""``calmstream demo-web``: a page in a browser reports, the gateway takes it, tables appear."""

from __future__ import annotations

import argparse
import signal
import tempfile
import threading
import webbrowser
from pathlib import Path

from calmstream import arguments
from calmstream.broker.in_process import InProcessBroker
from calmstream.broker.transport import Broker
from calmstream.connect import kafka
from calmstream.consumer.runtime.service import configure_logging
from calmstream.web_demo.page import PageServer, tables
from calmstream.web_demo.pipeline import WebDemo

DEFAULT_PAGE = Path("edge/typescript/dist/demo")
"""Where ``make demo-web`` builds the page, seen from a checkout."""

_TURN_SECONDS = 0.2


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        "Serve a page whose visitors report over a gateway. Gateway, broker, tally "
        "worker and publisher run in this process. Made-up people in the page report too, and the "
        "page shows the tables beside their true answers. Everything stays on this machine."
    )
    parser.add_argument(
        "--page",
        type=Path,
        default=DEFAULT_PAGE,
        metavar="DIR",
        help="directory with the built page (default: %(default)s)",
    )
    parser.add_argument(
        "--bootstrap", dest="kafka", metavar="HOST:PORT", help="use this Kafka broker instead"
    )
    parser.add_argument(
        "--port", type=int, default=0, help="port of the page (default: any free one)"
    )
    parser.add_argument(
        "--minutes",
        type=arguments.positive,
        default=30,
        help="duration of the collection (default: %(default)s)",
    )
    parser.add_argument(
        "--no-open", dest="open", action="store_false", help="do not open the page in a browser"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until the plan is over, or SIGTERM or SIGINT comes."""
    configure_logging("error")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    page = PageServer(args.page, args.port)
    broker: Broker = kafka(args.kafka) if args.kafka else InProcessBroker()
    try:
        with tempfile.TemporaryDirectory(prefix="calmstream-demo-") as folder:
            demo = WebDemo(broker, Path(folder), args.minutes, page.address)
            try:
                _serve(demo, page, args, stop)
            finally:
                demo.stop()
    finally:
        broker.close()
    if demo.failure is not None:
        raise demo.failure
    return 0


def _serve(
    demo: WebDemo, page: PageServer, args: argparse.Namespace, stop: threading.Event
) -> None:
    """Start all parts, say where the page is, and wait."""
    page.documents["/config.json"] = lambda: {"gateway": demo.gateway, "roots": [demo.root]}
    page.documents["/tables.json"] = lambda: tables(demo.newest())
    demo.start()
    try:
        print(  # noqa: T201 - this is the interface
            f"the page:    {page.address}\nthe gateway: {demo.gateway}\n"
            f"The collection lasts {args.minutes} minutes. Ctrl+C ends it.",
            flush=True,
        )
        if args.open:
            webbrowser.open(page.address)
        while not stop.wait(_TURN_SECONDS) and not demo.over():
            pass
    finally:
        page.stop()
