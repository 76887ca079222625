"""The plans that are served: taken up when they appear, given back when they go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.problems import Refused
from calmstream.estimators.plan import Plan


class ServedPlans:
    """One service for each plan that is wanted. For one thread, but for the properties."""

    def __init__(
        self, wanted: Callable[[], Mapping[str, Plan]], make: Callable[[Plan], PlanService]
    ) -> None:
        self._wanted = wanted
        self._make = make
        self._services: dict[str, PlanService] = {}
        self._by_name: Mapping[str, PlanService] = {}

    @property
    def by_name(self) -> Mapping[str, PlanService]:
        """The services by the plan's name; replaced as a whole."""
        return self._by_name

    def turn(self) -> None:
        """Take plans up and give plans back; let services try again what has failed."""
        wanted = self._wanted()
        gone = self._services.keys() - wanted.keys()
        for digest in gone:
            # Clients may take a while to close; the other plans do not wait for that.
            stop = self._services.pop(digest).stop
            threading.Thread(target=stop, daemon=True).start()
        for digest in wanted.keys() - self._services.keys():
            service = self._services[digest] = self._make(wanted[digest])
            service.start()
            gone.add(digest)
        if gone:
            self._by_name = {one.plan.name: one for one in self._services.values()}
        for service in self._services.values():
            service.turn()

    def troubles(self) -> dict[str, Refused]:
        """Return why plans are not served as they should be, by their name."""
        found = {name: service.trouble() for name, service in self._by_name.items()}
        return {name: one for name, one in found.items() if one is not None}

    def stop(self) -> None:
        threads = [threading.Thread(target=one.stop) for one in self._services.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
