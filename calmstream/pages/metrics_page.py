"""The page of all metrics, made from the definitions; ``python -m`` prints it."""

from __future__ import annotations

import sys

from calmstream.common.metric_definition import MetricDefinition, MetricGroup
from calmstream.consumer.central.metrics import CENTRAL_METRICS
from calmstream.consumer.metrics.plan import FOLDER_METRICS, PLAN_METRICS, ROLE_METRICS
from calmstream.consumer.metrics.publisher import PUBLISHER_METRICS
from calmstream.consumer.metrics.tally import TALLY_METRICS
from calmstream.consumer.serve.metrics import SERVE_METRICS
from calmstream.consumer.sink.metrics import SINK_METRICS
from calmstream.producer.gateway.http.metrics import GATEWAY_METRICS
from calmstream.producer.gateway.metrics import PRODUCER_METRICS

SECTIONS: tuple[tuple[str, str, MetricGroup], ...] = (
    ("Every role", "Exported by every service.", ROLE_METRICS),
    ("The plan", "Exported by `calmstream consume`.", PLAN_METRICS),
    ("Tally workers", "`calmstream consume --role tally`, and `all`.", TALLY_METRICS),
    (
        "The publisher",
        "`calmstream consume --role publish`, and `all`. Gauges of sets: 0 on those that wait.",
        PUBLISHER_METRICS,
    ),
    (
        "Many plans",
        "`calmstream consume --plans DIR`, and every other process that serves a folder.",
        FOLDER_METRICS,
    ),
    ("Sinks", "`calmstream sink`.", SINK_METRICS),
    ("Producers", "`calmstream produce --http-port PORT`, and gateways.", PRODUCER_METRICS),
    ("The gateway", "`calmstream gateway`, beside those of producers.", GATEWAY_METRICS),
    ("The HTTP interface of results", "`calmstream serve`.", SERVE_METRICS),
    (
        "The central aggregator",
        "`calmstream central aggregate`. None depends on records, not even on how many there are.",
        CENTRAL_METRICS,
    ),
)

_HEAD = """\
# Metrics

Every process serves `/metrics` (by default on port 9464 of the loopback address; the image on all
addresses). All known series exist from the start, at zero. Labels: `plan` is the plan's name and
the first 32 digits of its digest, `group` a group's number, `reason` a rejection reason, why
reports were given up, or the reason of a problem document, `topic` and `partition` an input
partition. No metric carries anything of a record or of a device.
"""


def page() -> str:
    parts = [_HEAD]
    for title, where, definitions in SECTIONS:
        parts += [f"## {title}\n\n{where}\n", *map(_entry, definitions)]
    return "\n".join(parts)


def _entry(definition: MetricDefinition) -> str:
    labels = ", ".join(f"`{label}`" for label in definition.labels)
    by = f" by {labels}" if labels else ""
    return (
        f"### `{definition.name}`\n\n"
        f"{definition.kind.capitalize()}{by}. {definition.help}\n\n"
        f"*What to do:* {definition.action}\n"
    )


if __name__ == "__main__":
    sys.stdout.write(page())
