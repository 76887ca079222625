"""The page on a real server: every view answers, and a final appears by itself."""

from __future__ import annotations

import subprocess
import time

import pytest

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Partition
from calmstream.estimators.wire.snapshot import Kind, manifest_key
from tests.support.adult_results import NAMESPACE, Results
from tests.support.serving import serving
from tests.support.typescript.package import PAGE, chromium

WINDOWS = 3


@pytest.mark.slow
def test_a_final_appears_on_the_page() -> None:
    chromium()
    program = PAGE.built() / "test" / "live.tool.mjs"
    results = Results(WINDOWS, "calm")
    with serving(results.plan, results.broker, namespace=NAMESPACE) as server:
        address = f"{server.address}/#/census/tables?attributes=sex&windows=latest"
        process = subprocess.Popen(
            ["node", str(program), address, str(WINDOWS - 1)],
            cwd=PAGE.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                pytest.fail(process.communicate()[1])
            appended = _finish(results)
            out, err = process.communicate(timeout=240)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, err
    print(f"shown {int(out) / 1000 - appended:.2f} s after the final was appended")  # noqa: T201


def _finish(results: Results) -> float:
    """Publish one more window; return when its final was in the topic, seconds since the epoch."""
    topic = Partition(TopicNames.of(results.plan, NAMESPACE).snapshots, 0)
    key = manifest_key(results.windows, Kind.FINAL)
    times: list[float] = []

    def look() -> None:
        if not times and any(record.key == key for record in results.broker.records(topic)):
            times.append(time.time())

    results.finish(after_step=look)
    return times[0]
