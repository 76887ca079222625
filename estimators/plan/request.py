"""The request from which a method designs a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calmstream.estimators.domain import Domain
from calmstream.estimators.plan.plan import MAX_GROUPS


@dataclass(frozen=True, slots=True)
class Request:
    """Requirements for a plan.

    Attributes:
        epsilon: decimal string, the total privacy loss of one report.
        users: number of reports expected per window, at least 1.
        k: number of attributes of the marginals that matter most, 1 to d.
        parameters: options of the method; unknown ones are refused.
        max_groups: maximum number of groups of devices, each with a topic of its own.
    """

    domain: Domain
    epsilon: str
    users: int
    k: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    max_groups: int = MAX_GROUPS
