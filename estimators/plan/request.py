"""The request from which a method designs a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calmstream.estimators.domain import Domain
from calmstream.estimators.plan.plan import MAX_GROUPS


@dataclass(frozen=True, slots=True)
class Request:
    """Requirements for a plan."""

    domain: Domain
    epsilon: str  # decimal string, the total privacy loss of one report
    users: int  # number of reports expected per window, at least 1
    k: int  # number of attributes of the marginals that matter most, 1 to d
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of the method
    max_groups: int = MAX_GROUPS  # most groups of devices; each group has a topic
