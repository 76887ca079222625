"""What devices report about hashed attributes, whatever method collects the others.

A hashed attribute counts as one attribute: each table of one or two attributes has an equal share
of the devices, and all hashes together have that of one attribute. Half of it is on tables of a
hash alone, half on those of a hash and another attribute.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.adaptive import best_oracle
from calmstream.estimators.methods.base import Design, Method, Request
from calmstream.estimators.methods.packing import Assigned, integer_shares, pack
from calmstream.estimators.plan import Group
from calmstream.estimators.view import View

MAX_CELLS = 1 << 17
"""Maximum number of cells of all tables of one hashed attribute with one other attribute."""


def design(method: Method, request: Request) -> Design:
    """Return the method's design of the ordinary attributes, and the views of hashed ones."""
    domain = request.domain
    if domain.ordinary == len(domain):
        return method.design(request)
    views = list(_views(domain, request.k))
    assigned = [
        Assigned(View(attributes), best_oracle(request.epsilon, domain.size(attributes)))
        for attributes, _ in views
    ]
    kinds = len({one.mechanism for one in assigned})
    if kinds >= request.max_groups:
        raise PlanError(f"{kinds + 1} different table sizes need as many groups, so more topics")
    on_hashes = sum(share for _, share in views)
    own = replace(
        request,
        domain=Domain(domain.attributes[: domain.ordinary]),
        k=min(request.k, domain.ordinary),
        users=max(1, round(request.users * (1.0 - on_hashes))),
        max_groups=request.max_groups - kinds,
    )
    found = method.design(own)
    groups = pack(assigned, kinds, separate=False)
    by_view = dict(views)
    total = sum(group.share for group in found.groups)
    shares = np.array(
        [
            *(s * (1.0 - on_hashes) / total for group in found.groups for s in group.shares),
            *(by_view[view.attributes] for group in groups for view in group.views),
        ]
    )
    return replace(
        found,
        groups=_shared((*found.groups, *groups), integer_shares(shares)),
        reason=(*found.reason, f"{on_hashes:.0%} on hashes of {', '.join(domain.hashed)}"),
    )


def _views(domain: Domain, k: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield the attributes of each view with a hash, and its share of all devices."""
    d, h = domain.ordinary, len(domain.hashed)
    tables = d + h + (d * (d - 1) // 2 + h * d if k > 1 else 0)
    for hashes in domain.hashed.values():
        cells = len(hashes) * domain.cardinalities[hashes[0]]
        others = [i for i in range(d) if k > 1 and cells * domain.cardinalities[i] <= MAX_CELLS]
        share = (1 + len(others)) / tables / len(hashes)
        for j in hashes:
            yield (j,), share / (2 if others else 1)
            for i in others:
                yield (i, j), share / 2 / len(others)


def _shared(groups: tuple[Group, ...], shares: tuple[int, ...]) -> tuple[Group, ...]:
    ends = np.cumsum([len(group.views) for group in groups]).tolist()
    return tuple(
        replace(group, shares=shares[end - len(group.views) : end])
        for group, end in zip(groups, ends, strict=True)
    )
