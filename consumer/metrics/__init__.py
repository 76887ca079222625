"""Definitions of all Prometheus metrics of the service, and the registry that holds them.

Each metric is a value with a name, a unit, labels and a help text, and all series that are known
exist at zero from the start. ``tally``, ``publisher`` and ``plan`` define the metrics;
``docs/metrics.md`` is generated from them.
"""
