"""One broker for a whole test session, also where the session consists of several processes.

Under pytest-xdist the controller owns the broker, because it outlives every worker process. It
starts the broker while the workers collect tests, listens on a local socket, and gives every worker
the same answer. Without pytest-xdist the one process owns the broker.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener

from tests.brokers.jars import Unavailable
from tests.brokers.provide import Provided, provide

AnswerT = tuple[str, str] | str
"""Address and kind of the broker, or the reason why there is none."""


DeskT = tuple[int, str]
"""Where a worker process asks: a local port, and the key that authenticates the question."""


class SessionBroker:
    """The broker of a session, started when it is first needed and closed once.

    Args:
        provided_by: finds or starts the broker.
    """

    def __init__(self, provided_by: Callable[[], Provided] = provide) -> None:
        self._provided_by = provided_by
        self._lock = threading.Lock()
        self._provided: Provided | None = None
        self._answer: AnswerT | None = None
        self._listener: Listener | None = None
        self._key = secrets.token_hex(16)

    @property
    def answer(self) -> AnswerT | None:
        """What was answered; None as long as nobody asked."""
        return self._answer

    def ask(self) -> AnswerT:
        """Return the broker's address and kind, or the reason why there is none.

        The search is made once, however many tests and workers ask.
        """
        with self._lock:
            if self._answer is None:
                self._answer = self._find()
            return self._answer

    def open_desk(self) -> DeskT:
        """Answer worker processes in the background, until `close`; where they ask."""
        if self._listener is None:
            self._listener = Listener(("127.0.0.1", 0), authkey=self._key.encode())
            threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()
        return self._listener.address[1], self._key

    def begin(self) -> None:
        """Start the search in the background, so that worker processes need not wait as long."""
        threading.Thread(target=self.ask, daemon=True).start()

    def close(self) -> None:
        """Stop answering, and close the broker if this session started one."""
        if self._listener is not None:
            self._listener.close()
        with self._lock:
            if self._provided is not None:
                self._provided.close()
                self._provided = None

    def _find(self) -> AnswerT:
        try:
            self._provided = self._provided_by()
        except Unavailable as error:
            return str(error)
        return self._provided.bootstrap, self._provided.kind

    def _serve(self, listener: Listener) -> None:
        while True:
            try:
                connection = listener.accept()
            except (AuthenticationError, EOFError, ConnectionError):  # somebody else's connection
                continue
            except OSError:  # closed
                return
            threading.Thread(target=self._reply, args=(connection,), daemon=True).start()

    def _reply(self, connection: Connection) -> None:
        with connection:
            connection.send(self.ask())


def ask_at(desk: DeskT, seconds: float) -> AnswerT:
    """Ask the controller for the broker, from a worker process.

    Raises:
        TimeoutError: no answer came within ``seconds``.
    """
    port, key = desk
    with Client(("127.0.0.1", port), authkey=key.encode()) as connection:
        if not connection.poll(seconds):
            raise TimeoutError(f"the controller named no broker within {seconds:g} s")
        answer: AnswerT = connection.recv()
        return answer
