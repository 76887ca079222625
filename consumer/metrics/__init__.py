"""Definitions of the service's Prometheus metrics; every series exists from the start, at 0."""
