"""Measure the processor time of a worker's start, each in a process of its own.

    python -m benchmarks.speed.starting PLAN BOOTSTRAP NAMESPACE

prints the processor seconds from the start of Python until a tally worker holds its partitions.
It is what `rows` runs.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.speed.rows import Row, best

DEADLINE = 120.0
LIBRARIES = "import gc; gc.disable(); import numpy, kafka, prometheus_client"
LOADING = "import gc; gc.disable(); from calmstream.cli import parser; parser('consume')"


def rows(repeats: int, plan: bytes, bootstrap: str, namespace: str) -> Iterator[Row]:
    beside = "to load numpy, the Kafka client and the client of Prometheus"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        path.write_bytes(plan)
        # The first start compiles, as an installation does; the measured ones do not.
        hold = ("-m", "benchmarks.speed.starting", str(path), bootstrap, namespace)
        _child(folder, *hold)
        libraries, loading, holding = best(
            repeats,
            lambda: _child(folder, "-c", LIBRARIES),
            lambda: _child(folder, "-c", LOADING),
            lambda: _child(folder, *hold),
        )
    yield Row("start of a worker: code", "s", "", loading, libraries, beside)
    yield Row(
        "start of a worker: holds its partition", "s", "below 0.5", holding, libraries, beside
    )


def _child(cache: str, *words: str) -> float:
    """Return the processor seconds of a Python process, or those that it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environ = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
    environ["PYTHONPYCACHEPREFIX"] = cache
    done = subprocess.run(
        [sys.executable, *words], check=True, stdout=subprocess.PIPE, text=True, env=environ
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.stdout:
        return float(done.stdout)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _hold() -> None:
    """Do what ``calmstream consume --role tally`` does until the worker holds a partition."""
    import gc

    gc.disable()
    from calmstream.cli import parser

    arguments = argparse.ArgumentParser()
    for name in ("plan", "bootstrap", "namespace"):
        arguments.add_argument(name)
    args = arguments.parse_args()
    parser("consume")
    gc.enable()
    from calmstream.arguments import load_plan
    from calmstream.broker.names import TopicNames
    from calmstream.common.clock import SystemClock
    from calmstream.common.settings import load
    from calmstream.connect import kafka
    from calmstream.consumer.metrics.registry import new_registry, plan_metrics
    from calmstream.consumer.metrics.tally import TALLY_METRICS
    from calmstream.consumer.runtime.config import TallyConfig
    from calmstream.consumer.runtime.context import TallyContext
    from calmstream.consumer.runtime.service import configure_logging
    from calmstream.consumer.tally.worker import TallyWorker

    config = load(TallyConfig)
    configure_logging("error")
    plan = load_plan(args.plan)
    names = TopicNames.of(plan, args.namespace)
    broker = kafka(args.bootstrap, session_seconds=config.session_seconds)
    metrics = plan_metrics(new_registry(), plan, names, TALLY_METRICS)
    worker = TallyWorker(TallyContext("tally", plan, names, SystemClock(), config, metrics), broker)
    worker.start()
    until = time.monotonic() + DEADLINE
    while not worker.folds:
        worker.turn()
        assert time.monotonic() < until, "the worker gets no partition"
    print(time.process_time())
    worker.finish()
    broker.close()


if __name__ == "__main__":
    _hold()
