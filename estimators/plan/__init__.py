"""The plan: who reports on which attributes, with which mechanism, when, within which limits."""

from calmstream.estimators.plan.group import Group, Guarantee
from calmstream.estimators.plan.plan import MAX_GROUPS, PLAN_VERSION, Plan

__all__ = ["MAX_GROUPS", "PLAN_VERSION", "Group", "Guarantee", "Plan"]
