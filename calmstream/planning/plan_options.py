"""Options that ``plan`` and ``central plan`` share."""

from __future__ import annotations

import argparse

from calmstream import arguments
from calmstream.common.errors import InvalidInput


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", help="write the plan to this file")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object: the document (plan), the privacy loss of a device (loss), "
        "what was found out about a table (read), and warnings",
    )
    parser.add_argument(
        "--partitions",
        type=arguments.positive,
        default=1,
        help="partitions per topic (default: %(default)s)",
    )


def add_windows(times: argparse._ArgumentGroup) -> None:
    times.add_argument(
        "--window",
        type=_window,
        default="1h",
        metavar="LENGTH[:final]",
        help="length of a window (default: %(default)s); with final no tables of windows that are "
        "still open are published: readers of snapshots learn far less about a device, and finals "
        "say how much",
    )
    times.add_argument(
        "--start",
        type=lambda text: arguments.day(text)[0],
        help="a day, such as 2026-01-31 (UTC), or a second since the epoch (default: start of "
        "the present window)",
    )
    times.add_argument(
        "--lifetime",
        type=arguments.positive_duration,
        default="30d",
        help="time until the plan expires (default: %(default)s)",
    )


def _window(text: str) -> tuple[int, bool]:
    """Return the length of a window in seconds, and whether open windows are published."""
    length, colon, kind = text.partition(":")
    if colon and kind != "final":
        raise argparse.ArgumentTypeError(f"expected a duration, or 1d:final, got {text!r}")
    return arguments.positive_duration(length), not colon


def windows_of(args: argparse.Namespace, now: float) -> tuple[int, int, int]:
    """Return start, length in seconds and number of windows; the present one is the first."""
    window = args.window[0]
    if args.lifetime < window:
        raise InvalidInput(
            f"--lifetime: {args.lifetime:,} s are less than one window of {window:,} s"
        )
    start = int(now) // window * window if args.start is None else args.start
    return start, window, args.lifetime // window


def add_about(about: argparse._ArgumentGroup) -> None:
    about.add_argument(
        "--name",
        default="telemetry",
        help="name of the plan, part of topic names (default: %(default)s)",
    )
    about.add_argument(
        "--purpose", default="", help="purpose of the collection, for the people concerned"
    )
    about.add_argument("--owner", default="", help="who is responsible")
