"""Answers over HTTP: plans, windows and tables, read-only, from the topics alone.

``plan_service`` follows the snapshots topic of a plan on a thread of its own, and puts questions to
a `History` on a bounded pool (``turns``); ``routes`` is the HTTP interface, ``guard`` checks every
request before it, and ``server`` runs all of them.
"""
