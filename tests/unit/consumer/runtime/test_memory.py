"""Check that freed buffers stay with the process, so that new ones are not requested again."""

from __future__ import annotations

import pytest

from tests.support.runs import python

# In a process of its own, since the setting is for good; on a thread, as a worker's buffers are.
PROGRAM = """
import resource, sys, threading
from calmstream.consumer.runtime.service import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        held = [bytes(512 << 10) for _ in range(8)]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def work():
    faults()
    print(faults())

if sys.argv[1] == "keep" and not keep_freed_memory():
    sys.exit("not glibc")
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def faults(how: str) -> int:
    run = python("-c", PROGRAM, how, code=None)
    if "not glibc" in run.stderr:
        pytest.skip("not glibc: there is nothing to set")
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


def test_buffers_are_used_again_without_page_faults() -> None:
    pages = 50 * 8 * (512 << 10) // 4096
    assert faults("leave") > pages / 4
    assert faults("keep") < pages / 20
