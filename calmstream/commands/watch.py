"""Follow the snapshots topic.

On a terminal, show the newest window and the running total, live; elsewhere, print one block of
text for each table.
"""

from __future__ import annotations

import argparse

from calmstream import arguments, result_options
from calmstream.output import say
from calmstream.pages.watch import watch


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, *arguments.RESULTS, "--marginal", "--once")
    result_options.add_snapshots(parser, kind=None, from_window=None)


def run(args: argparse.Namespace) -> int:
    plan = arguments.load_plan(args.plan)
    marginal = result_options.published(plan, args)
    with result_options.snapshots(args, plan, follow=not args.once) as snapshots:
        if not watch(snapshots, marginal) and args.once:
            say("calmstream: no such snapshot is published yet", error=True)
    return 0
