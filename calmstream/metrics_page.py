"""The metrics page of the documentation, made from the definitions.

``python -m calmstream.metrics_page > docs/metrics.md`` writes it anew.
"""

from __future__ import annotations

import sys

from broker.metric_definition import MetricDefinition
from consumer.central.metrics import CENTRAL_METRICS
from consumer.metric_definitions import TALLY_METRICS
from consumer.plan_metrics import PLAN_METRICS
from consumer.publisher_metrics import PUBLISHER_METRICS
from producer.metrics import PRODUCER_METRICS

SECTIONS: tuple[tuple[str, str, tuple[MetricDefinition, ...]], ...] = (
    ("The plan", "Exported by every process of the service.", PLAN_METRICS),
    ("Tally workers", "`calmstream consume --role tally`, and `all`.", TALLY_METRICS),
    (
        "The publisher",
        "`calmstream consume --role publish`, and `all`. Gauges of sets: 0 on those that wait.",
        PUBLISHER_METRICS,
    ),
    ("Producers", "`calmstream produce --http-port PORT`, and gateways.", PRODUCER_METRICS),
    (
        "The central aggregator",
        "`calmstream central aggregate`. None depends on records, not even on how many there are.",
        CENTRAL_METRICS,
    ),
)

ALL_METRICS = tuple(definition for _, _, part in SECTIONS for definition in part)
"""Every metric that any process of the product exports."""

_HEAD = """\
# Metrics

Generated from the definitions in the code by `python -m calmstream.metrics_page`; do not edit.

Every process serves `/metrics` (by default on port 9464 of the loopback address; the image on all
addresses). All known series exist from the start, at zero. Labels: `plan` is the plan's name and
the first 8 digits of its digest, `group` a group's number, `reason` a rejection reason or why
reports were given up, `topic` and `partition` an input partition. No metric carries anything of a
record or of a device.
"""


def page() -> str:
    """The whole page, Markdown."""
    parts = [_HEAD]
    for title, where, definitions in SECTIONS:
        parts += [f"## {title}\n\n{where}\n", *map(_entry, definitions)]
    return "\n".join(parts)


def _entry(definition: MetricDefinition) -> str:
    labels = ", ".join(f"`{label}`" for label in definition.labels)
    return (
        f"### `{definition.name}`\n\n"
        f"{definition.kind.capitalize()}, {definition.unit}; by {labels}. {definition.help}\n\n"
        f"*What to do:* {definition.action}\n"
    )


if __name__ == "__main__":
    sys.stdout.write(page())
