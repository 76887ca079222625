"""Definitions of all Prometheus metrics of the service, and their registration.

A metric has a name, labels, a meaning and an advice. ``tally``, ``publisher`` and ``plan`` define
the metrics; ``deploy/site.py`` prints them. ``registry`` registers them, so that
every known series exists from the start, with the value 0.
"""
