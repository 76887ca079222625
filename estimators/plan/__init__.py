"""The plan: who reports on which attributes, with which mechanism, when, and within which limits.

A plan is one JSON document (`document`). Devices, workers and publishers read the same one.
"""

from estimators.plan.plan import MAX_GROUPS, PLAN_VERSION, Group, Guarantee, Plan

__all__ = ["MAX_GROUPS", "PLAN_VERSION", "Group", "Guarantee", "Plan"]
