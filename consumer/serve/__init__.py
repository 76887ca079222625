"""Answers over HTTP: plans, windows, tables and events, read-only, from the topics alone.

``follower`` reads the snapshots topic of a plan on a thread of its own, ``plan_service`` puts
questions to a `History` on a bounded pool (``turns``), ``app`` is the
HTTP interface, ``guard`` checks every request before it, and ``server`` runs all of them.
"""
