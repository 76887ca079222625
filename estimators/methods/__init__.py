"""Local methods: which attributes devices report on, and how tables follow from the counts.

Each method is registered here under the name that plans use; :mod:`.base` is their contract. A
method designs the groups of a plan (sets of devices that share a mechanism) with their views (what
a device reports on), and fits a model to the tallies (counts per view). `shared` contains the parts
that several methods use. docs/methods.md lists all methods, docs/methods/ explains them, and
docs/concepts.md explains the terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calmstream.common.errors import PlanError
from calmstream.estimators.methods.calm import Calm
from calmstream.estimators.methods.characters import Characters
from calmstream.estimators.methods.full_domain import FC, InpHTCMS, InpOLH, InpPS, InpRR
from calmstream.estimators.methods.hadamard import FT, InpHT, MargHT
from calmstream.estimators.methods.inp_em import InpEM
from calmstream.estimators.methods.lopub import LoPub, LoPubEM
from calmstream.estimators.methods.marginal_views import AM, MargPS, MargRR
from calmstream.estimators.methods.noise_aware import NoiseAware
from calmstream.estimators.methods.rr_clusters import RRClusters
from calmstream.estimators.methods.rr_ind_joint import RRHybrid, RRIndJoint, RRTruncated
from calmstream.estimators.methods.rr_independent import RRIndependent
from calmstream.estimators.methods.rr_joint import RRJoint
from calmstream.estimators.methods.uniform import Uniform

if TYPE_CHECKING:
    from calmstream.estimators.methods.base import Method

_ALL: tuple[Method, ...] = (
    Calm(),
    NoiseAware(),
    FC(),
    AM(),
    FT(),
    InpHT(),
    Characters(),
    InpRR(),
    InpPS(),
    InpOLH(),
    InpHTCMS(),
    InpEM(),
    MargRR(),
    MargPS(),
    MargHT(),
    RRJoint(),
    RRIndependent(),
    RRIndJoint(),
    RRHybrid(),
    RRTruncated(),
    RRClusters(),
    LoPub(),
    LoPubEM(),
    Uniform(),
)

CENTRAL = "dp-marginals"
"""The method of the central model (`estimators.central`); no local plan can name it."""

_METHODS: dict[str, Method] = {method.name: method for method in _ALL}


def names() -> tuple[str, ...]:
    """Return the registry names, sorted."""
    return tuple(sorted(_METHODS))


def get(name: str) -> Method:
    """Return the method of that name.

    Raises:
        PlanError: there is no local method of that name; the message lists the names.
    """
    if name == CENTRAL:
        raise PlanError(
            f"method {CENTRAL} is central: raw records go to a trusted aggregator, see `calmstream "
            "plan --model central` and `calmstream central`; this command needs a local method"
        )
    if name not in _METHODS:
        raise PlanError(f"unknown method {name!r}; there are {', '.join(names())}")
    return _METHODS[name]
