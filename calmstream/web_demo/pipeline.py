"""All parts of the service in one process: gateway, broker, tally worker, publisher, subscriber.

All parts are the real ones. The demo makes a root key, certifies a signing key and signs a plan, as
an operator does with the command line. Only the devices are elsewhere: in the browser.
"""

from __future__ import annotations

import threading
import time
from itertools import combinations
from pathlib import Path

from calmstream.broker.transport import Broker
from calmstream.common.clock import SystemClock
from calmstream.common.settings import load
from calmstream.consumer.metrics.registry import new_registry
from calmstream.consumer.runtime.health import RoleHealth
from calmstream.consumer.subscribe.subscribe import Snapshot, plan_names
from calmstream.estimators import planning
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.wire.snapshot import Kind
from calmstream.local_service import LocalService
from calmstream.producer.gateway.http.gateway import Environment, Gateway
from calmstream.producer.gateway.http.metrics import GatewayMetrics
from calmstream.producer.gateway.http.settings import GatewaySettings
from calmstream.producer.signed import issue, keys
from calmstream.producer.signed.certificate import Statement
from calmstream.producer.signed.envelope import signed_lineage

NAMESPACE = "demo-web"
EPSILON = "2"
WINDOW_SECONDS = 15
GRACE_SECONDS = 4
EXPECTED_REPORTS = 1000
"""Number of reports in a window for which the plan is designed: about 70 in a second."""

DOMAIN = Domain(
    (
        Attribute("way to work", ("on foot", "bicycle", "bus or train", "car", "work at home")),
        Attribute("distance", ("under 2 km", "2 to 10 km", "over 10 km")),
        Attribute("content with it", ("yes", "no")),
    )
)
"""The questions. The page has answers of made-up people to the same questions."""

_DAY = 86_400


class WebDemo:
    """The service of the demo, in threads of this process.

    Attributes:
        plan: the plan that the devices follow.
        root: public root key, which the page trusts.
        gateway: address of the gateway.
    """

    def __init__(self, broker: Broker, folder: Path, minutes: int, origin: str) -> None:
        root = keys.new_private_key()
        self.root = keys.public_key(root)
        self.plan = draw_plan(self.root, minutes)
        self._service = LocalService(self.plan, broker, NAMESPACE)
        self._latest: dict[Kind, Snapshot] = {}
        plans, spool = folder / "plans", folder / "spool"
        plans.mkdir()
        spool.mkdir()
        (plans / "demo.plan.json").write_bytes(sign(root, self.plan))
        environment = Environment(
            spool=spool,
            plans=plans,
            roots=(self.root,),
            allow_unsigned=False,
            app_keys=None,
            connect=broker.sink,
            administer=broker.topics,
            names=lambda plan: plan_names(plan, NAMESPACE),
        )
        self._gateway = Gateway(
            environment,
            load(GatewaySettings, port=0, origins=origin, linger=1.0),
            GatewayMetrics(new_registry()),
            RoleHealth("gateway", SystemClock()),
        )
        self.gateway = f"http://127.0.0.1:{self._gateway.port}"

    def start(self) -> None:
        """Create the topics and start all parts."""
        self._service.start(self._gateway.run, self._collect)

    def stop(self) -> None:
        """Stop all parts and wait for them."""
        self._service.stop()

    @property
    def failure(self) -> Exception | None:
        """The error that has stopped a part, or None."""
        return self._service.failure

    def newest(self) -> Snapshot | None:
        """Return the newest tables: of all closed windows, or early ones of the first window."""
        return self._latest.get(Kind.TOTAL) or self._latest.get(Kind.EARLY)

    def over(self) -> bool:
        """Return whether the plan is over, or a part has failed."""
        return self.failure is not None or time.time() > self.plan.expires

    def _collect(self, _stop: threading.Event) -> None:
        """Keep the newest tables of each kind."""
        for snapshot in self._service.snapshots():
            if snapshot.marginals:
                self._latest[snapshot.kind] = snapshot


def draw_plan(root: str, minutes: int) -> Plan:
    """Return a plan that starts now. Every person reports once."""
    plan, _ = planning.draft(
        "noise-aware",
        Request(DOMAIN, EPSILON, EXPECTED_REPORTS, len(DOMAIN)),
        name="commuting",
        purpose="to show how calmstream collects answers",
        owner="Example Ltd",
        lineage=signed_lineage(root, "commuting"),
        lineage_name="commuting",
        start=int(time.time()),
        window=WINDOW_SECONDS,
        windows=max(1, minutes * 60 // WINDOW_SECONDS),
        grace=GRACE_SECONDS,
        skew=GRACE_SECONDS,
        partitions=1,
        guarantee=Guarantee("once"),
        marginals=[m for size in (1, 2, 3) for m in combinations(range(len(DOMAIN)), size)],
    )
    return plan


def sign(root: bytes, plan: Plan) -> bytes:
    """Return the signed plan."""
    signing, now = keys.new_private_key(), int(time.time())
    statement = Statement(
        keys.public_key(root),
        keys.public_key(signing),
        "Example Ltd",
        now - _DAY,
        now + _DAY,
    )
    return issue.seal(signing, issue.certify(root, statement), plan.to_bytes()).to_bytes() + b"\n"
