"""One broker for a whole test session, also where the session consists of several processes.

Under pytest-xdist the controller owns the broker, because it outlives every worker process. It
starts the broker while the workers collect tests, and writes the answer into a file for them.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from pathlib import Path

from tests.brokers.jars import Unavailable
from tests.brokers.provide import Provided, provide

AnswerT = tuple[str, str] | str
"""Address and kind of the broker, or the reason why there is none."""


class SessionBroker:
    """The broker of a session, started when it is first needed and closed once."""

    def __init__(self) -> None:
        self.answer: AnswerT | None = None
        self.path = Path(tempfile.mkdtemp(prefix="broker-")) / "answer.json"
        self._lock = threading.Lock()
        self._provided: Provided | None = None

    def ask(self) -> AnswerT:
        with self._lock:
            if self.answer is None:
                try:
                    self._provided = provide()
                    self.answer = self._provided.bootstrap, self._provided.kind
                except Unavailable as error:
                    self.answer = str(error)
                partly = self.path.with_suffix(".part")
                partly.write_text(json.dumps(self.answer))
                partly.rename(self.path)
            return self.answer

    def begin(self) -> None:
        threading.Thread(target=self.ask, daemon=True).start()

    def close(self) -> None:
        with self._lock:
            if self._provided is not None:
                self._provided.close()
        shutil.rmtree(self.path.parent, ignore_errors=True)


def answer_in(path: Path, seconds: float) -> AnswerT:
    """Return the controller's answer, from a worker process; TimeoutError if there is none."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the controller named no broker within {seconds:g} s")
        time.sleep(0.05)
    found = json.loads(path.read_text())
    return found if isinstance(found, str) else tuple(found)
