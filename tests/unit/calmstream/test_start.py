from __future__ import annotations

from textwrap import dedent

import pytest

import calmstream
from tests.support.runs import python


def loaded(statement: str) -> set[str]:
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    return set(python("-c", script).stdout.split())


def test_the_public_names_are_loaded_when_they_are_used() -> None:
    assert not loaded("import calmstream") & {"numpy", "kafka", "producer", "consumer"}
    edge = loaded("from calmstream import Reporter")
    assert "calmstream.producer.device.reporter" in edge
    assert not edge & {"kafka", "consumer"}
    for name in calmstream.__all__:
        assert getattr(calmstream, name).__name__ == name
    assert set(calmstream.__all__) <= set(dir(calmstream))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = calmstream.Nothing


def test_a_worker_that_only_counts_loads_no_method_and_no_package_of_others() -> None:
    modules = loaded(
        "from calmstream.cli import parser; parser('consume'); "
        "import calmstream.consumer.tally.worker"
    )
    assert "calmstream.commands.consume" in modules
    of_others = {"starlette", "cryptography", "scipy", "pyarrow", "numpy.testing"}
    ours = {"common.version", "estimators.methods", "consumer.publish.publisher"}
    assert not modules & {*of_others, *(f"calmstream.{name}" for name in ours)}


def test_threads_that_still_compute_do_not_abort_the_end_of_a_command() -> None:
    script = """
        import threading, numpy, calmstream.__main__ as command

        def compute():
            values = numpy.arange(20_000)
            while True:
                begun.release()
                numpy.unique(values)  # numpy's C++, in which Python's end of a thread is an abort

        def main():
            for _ in range(8):
                threading.Thread(target=compute, daemon=True).start()
            for _ in range(100):
                begun.acquire()
            print("done", flush=True)
            return 5

        begun = threading.Semaphore(0)
        command.main = main
        command.run()
    """
    for _ in range(3):
        done = python("-c", dedent(script), code=5)
        assert (done.stdout, done.stderr) == ("done\n", "")
