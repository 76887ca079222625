"""The plan: who reports on which attributes, with which mechanism, when, and within which limits.

A plan is one JSON document (`document`). Devices, workers and publishers read the same one. The
package also computes what follows from a plan alone: the privacy loss of a device (`loss`), the
largest state (`state_size`) and the limits (`limits`). `pilots` reads the counts of
earlier plans that some plans carry.
"""

from calmstream.estimators.plan.group import Group, Guarantee
from calmstream.estimators.plan.plan import MAX_GROUPS, PLAN_VERSION, Plan

__all__ = ["MAX_GROUPS", "PLAN_VERSION", "Group", "Guarantee", "Plan"]
