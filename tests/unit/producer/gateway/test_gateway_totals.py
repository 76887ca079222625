"""Check the counters of reports: they begin at zero, and every event reaches the observer."""

from __future__ import annotations

from calmstream.producer.gateway.totals import Accounts, Failure, Totals, Unobserved


class Recorder(Unobserved):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def sent(self, group: int, reports: int) -> None:
        self.events.append(("sent", group, reports))

    def retried(self, group: int) -> None:
        self.events.append(("retried", group))

    def failed(self, group: int, reports: int, why: Failure) -> None:
        self.events.append(("failed", group, reports, why))

    def small(self, group: int, reports: int) -> None:
        self.events.append(("small", group, reports))

    def in_flight(self, batches: int) -> None:
        self.events.append(("in flight", batches))


def test_all_counts_begin_at_zero() -> None:
    assert Totals() == Totals(0, 0, 0, 0, 0, 0, 0, {}) == Accounts().totals()


def test_the_observer_receives_every_event_and_the_totals_count_it() -> None:
    recorder = Recorder()
    accounts = Accounts(recorder)
    accounts.taken(1, 9)
    accounts.in_flight(2)
    accounts.retried(1)
    accounts.small(1, 3)
    accounts.sent(1, 3)
    accounts.failed(1, 4, Failure.UNDELIVERED)
    accounts.failed(1, 2, Failure.UNENCODABLE)
    accounts.in_flight(0)
    assert recorder.events == [
        ("in flight", 2),
        ("retried", 1),
        ("small", 1, 3),
        ("sent", 1, 3),
        ("failed", 1, 4, Failure.UNDELIVERED),
        ("failed", 1, 2, Failure.UNENCODABLE),
        ("in flight", 0),
    ]
    failures = {Failure.UNDELIVERED: 4, Failure.UNENCODABLE: 2}
    assert accounts.totals() == Totals(1, 3, 1, 6, 1, 9, 3, failures)
    assert accounts.unsettled() == {}
