"""The request from which a method designs a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from estimators.domain import Domain
from estimators.plan.plan import MAX_GROUPS


@dataclass(frozen=True, slots=True)
class Request:
    """Requirements for a plan; immutable, so that no method can change what was required.

    Attributes:
        domain: what a record is.
        epsilon: decimal string, the total loss of one report.
        users: reports expected per window, at least 1.
        k: size of the marginals that matter most, 1 to d.
        parameters: the method's own options; unknown ones are refused.
        max_groups: most topics that may be used; more views than that are packed.
    """

    domain: Domain
    epsilon: str
    users: int
    k: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    max_groups: int = MAX_GROUPS
