"""Models of tracked counts, whose errors hold more than the noise of their reports.

Tracked counts (`estimators.tracking`) lag behind, and views share that lag. A fit to fewer reports
would shrink tables as if it were noise; so counts stay, and variances grow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np

from calmstream.estimators.arrays import Floats
from calmstream.estimators.cause import Cause
from calmstream.estimators.domain import Attributes
from calmstream.estimators.marginal import Marginal, is_noise
from calmstream.estimators.methods.base import (
    GroupedAnswers,
    HiddenCauses,
    LinearAnswers,
    Model,
    RawTables,
)
from calmstream.estimators.plan import Plan

M = TypeVar("M", bound=Model)


def widened(model: Model, plan: Plan, variance: Floats, reports: Floats) -> Model:
    """Return a model with the tables of ``model`` and larger errors.

    The variance of a table grows by the mean of the factors ``variance``, at least 1, of all views
    with one of its attributes, weighted by ``reports``: both of shape (views of all groups,).
    """
    if (variance == 1.0).all():
        return model
    views = [view.attributes for group in plan.groups for view in group.views]
    holds = np.array([[a in view for a in range(len(plan.domain))] for view in views])

    def growth(attributes: Attributes) -> float:
        weight = holds[:, attributes].any(axis=1) * reports
        return float(weight @ variance / weight.sum()) if weight.any() else 1.0

    if isinstance(model, LinearAnswers):
        return _WideLinear(model, growth)
    if isinstance(model, RawTables):
        return _WideRaw(model, growth)
    if isinstance(model, GroupedAnswers):
        wide = _WideCauses if isinstance(model, HiddenCauses) else _WideGrouped
        return wide(model, growth)
    return _Wide(model, growth)


class _Wide(Generic[M]):
    def __init__(self, model: M, growth: Callable[[Attributes], float]) -> None:
        self._model, self._growth = model, growth
        self.processing: tuple[str, ...] = getattr(model, "processing", ())

    def marginal(self, attributes: Attributes) -> Marginal:
        found = self._model.marginal(attributes)
        stderr = found.stderr * np.sqrt(self._growth(attributes))
        flags = tuple(flag for flag in found.flags if flag != "noise")
        if "noise" in found.flags or is_noise(found.table, stderr):
            flags += ("noise",)
        return replace(found, stderr=stderr, flags=flags)


class _WideLinear(_Wide[LinearAnswers]):
    @property
    def everyone(self) -> bool:
        return self._model.everyone

    def unclipped(self, attributes: Attributes) -> Floats:
        return self._model.unclipped(attributes)

    def covariance(self, attributes: Attributes) -> Floats:
        return self._model.covariance(attributes) * self._growth(attributes)


class _WideRaw(_Wide[RawTables]):
    def raw_table(self, attributes: Attributes) -> tuple[Floats, Floats] | None:
        found = self._model.raw_table(attributes)
        return None if found is None else (found[0], found[1] * self._growth(attributes))


class _WideGrouped(_Wide[GroupedAnswers]):
    def grouped(self, attributes: Attributes, members: Sequence[Floats]) -> tuple[Floats, Floats]:
        table, covariance = self._model.grouped(attributes, members)
        return table, covariance * self._growth(attributes)

    def dependence(self, pair: Attributes) -> tuple[Floats, Floats] | None:
        found = self._model.dependence(pair)
        return None if found is None else (found[0], found[1] * self._growth(pair))


class _WideCauses(_WideGrouped):
    @property
    def _hidden(self) -> HiddenCauses:
        assert isinstance(self._model, HiddenCauses)
        return self._model

    def mixture(self) -> tuple[Floats, list[Floats]]:
        return self._hidden.mixture()

    def causes(self) -> tuple[Cause, ...]:
        return self._hidden.causes()
