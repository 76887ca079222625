"""Shares of words that nobody listed in advance, from the buckets of a hashed attribute.

With y_j[b] the share of bucket b under hash j minus 1 / B, ``mean_j y_j[h_j(s)] / (1 - 1 / B)`` is
the unbiased share of word s. Its variance is noise, and collisions with other words u: ``sum_u
f_u^2 / (B H (1 - 1 / B))``, which only more hashes lower. The decoder takes out collisions with the
words that it sees: non-negative least squares over those, added largest first, each far above noise
and remaining collisions, so that no word is seen because it fits noise. A hash in which a word
shares its bucket with a large unknown one is left out of its mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import InvalidInput
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes
from calmstream.estimators.hashed import Hashed, text_bytes
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.numerics.distribution import tail
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.counted import counted_views
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View

Buckets = NDArray[np.int64]

MAX_CANDIDATES = 1_000_000
SIGMAS = 4.0
"""A word is seen from so many standard errors on; more where there are very many candidates."""

_FALSE = 0.1
"""Expected number of false words, from which the standard errors for many candidates follow."""

_OUTLIER = 4.0
_TRIMS = 8
_ALIKE = 0.5
_ALPHA = 1e-3
_MOST_SEEN = 512
_ROUNDS = 40
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """Shares of candidates, of all devices. Arrays have the shape (candidates,)."""

    shares: Floats  # not negative
    stderr: Floats  # noise, sampling and collisions
    seen: NDArray[np.bool_]  # whether the share is far enough above 0
    collides: NDArray[np.bool_]  # another candidate would explain it, or hashes were left out
    limit: float  # the smallest share that would be seen
    unexplained: float  # share of one word that would explain what no seen word does


@dataclass(frozen=True, slots=True, eq=False)
class BucketShares:
    """Estimates of one population."""

    share: float  # the population's share of all devices
    values: Floats  # (hashes, buckets): shares of buckets minus their mean, unbiased
    noise: Floats  # variance apart from the mean, over 1 - 1 / B; huge without reports


def candidates(texts: Sequence[str]) -> tuple[list[str], list[bytes]]:
    """Return the different words of a list, without empty ones, and their bytes."""
    found: dict[bytes, str] = {}
    for number, text in enumerate(texts, 1):
        raw = text_bytes(text)
        if raw is not None:
            found.setdefault(raw, text)
        elif text:
            raise InvalidInput(f"candidate {number}: no device reports a text of over 1,024 bytes")
    if not 1 <= len(found) <= MAX_CANDIDATES:
        raise InvalidInput(f"{len(found):,} candidates; expected 1 to {MAX_CANDIDATES:,}")
    return list(found.values()), list(found)


def kind_of(plan: Plan, name: str) -> Hashed:
    """Return the first hash of a hashed attribute."""
    if name not in plan.domain.hashed:
        there = ", ".join(plan.domain.hashed) or "none"
        raise InvalidInput(f"{name!r} is no hashed attribute; there are {there}")
    kind = plan.domain.attributes[plan.domain.hashed[name][0]].kind
    assert isinstance(kind, Hashed)
    return kind


def reports(plan: Plan, tallies: Sequence[Tally], name: str, given: int | None = None) -> int:
    """Return the number of reports about a hashed attribute; with ``given``, about both."""
    hashes = plan.domain.hashed[name]
    return sum(o.n for o in counted_views(plan, tallies) if _about(o.view, hashes, given))


def _about(view: View, hashes: Attributes, given: int | None = None) -> bool:
    """Return whether a view is about one of these hashes, which stand last, and a given one."""
    return view.attributes[-1] in hashes and given in (None, *view.attributes)


def bucket_shares(
    plan: Plan, tallies: Sequence[Tally], name: str, given: int | None = None
) -> list[BucketShares]:
    """Return estimates of all devices, or of each label of the attribute at position ``given``."""
    kind, hashes = kind_of(plan, name), plan.domain.hashed[name]
    labels = 1 if given is None else plan.domain.cardinalities[given]
    sums = np.zeros((labels, kind.hashes, kind.buckets))
    noise, known, shares = np.zeros(sums.shape), np.zeros(sums.shape[:2]), np.zeros(labels)
    for counted in counted_views(plan, tallies):
        if not counted.n or not _about(counted.view, hashes, given):
            continue
        table = counted.table.reshape(-1, kind.buckets)
        j = counted.view.attributes[-1] - hashes[0]
        own = _noise(counted.mechanism, counted.n, table, summed=given is None)
        weight = 1.0 / own.mean(axis=1)
        if given is None:
            table = table.sum(axis=0, keepdims=True)
        sums[:, j] += weight[:, None] * (table - table.mean(axis=1, keepdims=True))
        noise[:, j] += np.square(weight)[:, None] * own
        known[:, j] += weight
        shares += table.sum(axis=1)
    used = np.maximum(known, 1e-30)[:, :, None]
    sums, noise = sums / used, np.where(known[:, :, None] > 0, noise / np.square(used), 1.0 / used)
    total = shares / shares.sum() if shares.sum() > 0 else np.full(labels, 1.0 / labels)
    return [BucketShares(float(max(total[v], 0.0)), sums[v], noise[v]) for v in range(labels)]


def smallest_share(plan: Plan, name: str) -> float:
    """Return the smallest share that a window of the expected size shows, without collisions."""
    kind, hashes = kind_of(plan, name), plan.domain.hashed[name]
    known = 0.0
    for group in plan.groups:
        for view, share in zip(group.views, group.shares, strict=True):
            n = plan.users * share // plan.total_share
            if n and _about(view, hashes):
                even = np.full((group.mechanism.cells // kind.buckets, kind.buckets), 1.0)
                known += 1.0 / float(_noise(group.mechanism, n, even, summed=True).mean())
    return min(SIGMAS / float(np.sqrt(known * (1.0 - 1.0 / kind.buckets))), 1.0) if known else 1.0


def _noise(mechanism: Mechanism, n: int, table: Floats, *, summed: bool) -> Floats:
    """Return `BucketShares.noise` of each row of a view's table, or of their sum."""
    expected = np.maximum(table, 0.0) + 1e-9
    own = mechanism.covariance(n, (expected / expected.sum()).ravel())
    diagonal = own.diagonal.reshape(table.shape)
    factors = own.factors.reshape(*table.shape, -1)
    if summed:
        diagonal, factors = diagonal.sum(0, keepdims=True), factors.sum(0, keepdims=True)
    buckets = table.shape[1]
    alone = diagonal - np.square(factors).sum(axis=2)
    with_all = diagonal - (factors * factors.sum(axis=1, keepdims=True)).sum(axis=2)
    mean = with_all.sum(axis=1, keepdims=True) / buckets
    apart = alone - (2.0 * with_all - mean) / buckets
    return np.asarray(apart / (1.0 - 1.0 / buckets))


def decode(estimates: BucketShares, places: Buckets) -> Words:
    """Return the shares of candidates; ``places``: their buckets (candidates, hashes)."""
    return _Decoder(estimates, places).run()


class _Decoder:
    def __init__(self, estimates: BucketShares, places: Buckets) -> None:
        self.values, self.places = estimates.values, places
        self.noise, self.level = estimates.noise, estimates.noise.mean(axis=1)
        self.hashes, self.buckets = self.values.shape
        self.each = np.arange(self.hashes)
        self.gain = 1.0 - 1.0 / self.buckets
        self.threshold = max(SIGMAS, NormalDist().inv_cdf(1.0 - _FALSE / len(places)))
        self.chosen = np.zeros(0, np.int64)
        self.weights = np.zeros(0)
        self.most = min(_MOST_SEEN, self.hashes * (self.buckets - 1) // 2)

    def run(self) -> Words:
        for _ in range(_ROUNDS):
            self._measure()
            found, stderr, left_out = self._estimates()
            new = found >= self.threshold * stderr
            new[self.chosen] = False
            large = np.flatnonzero(new & (found >= found[new].max(initial=0.0) / 2.0))
            chosen = self._with(large[np.argsort(-found[large])])
            if len(chosen) == len(self.chosen):
                break
            self._fit(chosen)
        seen = np.zeros(len(found), bool)
        seen[self.chosen] = found[self.chosen] >= self.threshold * stderr[self.chosen]
        collides = seen & (left_out | self._alike(seen))
        limit = self.threshold / float(np.sqrt(self.information))
        unexplained = float(np.sqrt(self.spread * self.buckets)) if self._unexplained() else 0.0
        return Words(np.maximum(found, 0.0), stderr, seen, collides, limit, unexplained)

    def _with(self, words: Buckets) -> Buckets:
        """Return the chosen words and others, but none that shares half of its buckets with one."""
        chosen = self.chosen.tolist()
        for s in words.tolist():
            same = (self.places[chosen] == self.places[s]).mean(axis=1)
            if len(chosen) < self.most and not (same >= _ALIKE).any():
                chosen.append(s)
        return np.array(chosen, np.int64)

    def _measure(self) -> None:
        """Find what the chosen words leave, and the variance of collisions with others."""
        self.left = self.values.copy()
        for s, weight in zip(self.chosen.tolist(), self.weights.tolist(), strict=True):
            self.left[self.each, self.places[s]] -= weight
            self.left += weight / self.buckets
        used = self.level < 1.0
        squares = np.square(self.left[used]).ravel()
        self.freedom = max(int(used.sum()) * (self.buckets - 1) - len(self.chosen), 1)
        noise = float(self.level[used].mean()) if used.any() else 1.0
        mean = [float(squares.sum()) / self.freedom]
        for _ in range(_TRIMS):  # without buckets of large unknown words, which are left out
            kept = squares[squares <= _OUTLIER**2 * mean[-1]]
            mean.append(float(kept.mean()) * len(squares) / self.freedom if len(kept) else 0.0)
        self.spread = max(mean[0] - noise, 0.0)
        self.collisions = max(mean[-1] - noise, 0.0)
        self.variance = self.level + self.collisions
        self.information = float((self.gain / self.variance).sum())

    def _unexplained(self) -> bool:
        used = self.level < 1.0
        statistic = float((np.square(self.left[used]) / self.level[used][:, None]).sum())
        return tail(statistic, self.freedom) < _ALPHA

    def _fit(self, chosen: Buckets) -> None:
        """Fit the chosen words by least squares; those that are not positive are given up."""
        while len(chosen):
            own = self.places[chosen]
            alike = own[:, None] == own[None]
            normal = ((alike - 1.0 / self.buckets) / self.variance).sum(axis=2)
            right = (self.values[self.each, own] / self.variance).sum(axis=1)
            inverse = np.linalg.inv(normal)
            found = inverse @ right
            if (found > 0.0).all():
                self.errors = np.sqrt(np.diag(inverse))
                break
            chosen = chosen[found > 0.0]
        self.chosen, self.weights = chosen, found if len(chosen) else np.zeros(0)

    def _estimates(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Return estimates, standard errors, and where a hash was left out: (candidates,) each."""
        found, known, variance = (np.empty(len(self.places)) for _ in range(3))
        weight = self.gain / self.variance
        own = np.zeros(len(self.places))
        own[self.chosen] = self.weights
        for start in range(0, len(found), _CHUNK):
            part = slice(start, start + _CHUNK)
            each = self.left[self.each, self.places[part]] / self.gain + own[part, None]
            spread = (self.noise[self.each, self.places[part]] + self.collisions) / self.gain
            far = each - np.median(each, axis=1, keepdims=True) > _OUTLIER * np.sqrt(spread)
            kept = np.where(far, 0.0, weight)
            known[part] = kept.sum(axis=1)
            found[part] = (kept * each).sum(axis=1) / known[part]
            variance[part] = (np.square(kept) * spread).sum(axis=1) / np.square(known[part])
        stderr = np.sqrt(variance)
        if len(self.chosen):
            alone = 1.0 / np.sqrt(self.information)
            stderr[self.chosen] *= np.maximum(self.errors / alone, 1.0)
        return found, stderr, known < self.information * (1.0 - 1e-9)

    def _alike(self, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which seen words share at least half of their buckets with another candidate."""
        out = np.zeros(len(seen), bool)
        first = self.values[self.each, self.places].mean(axis=1)
        for s in np.flatnonzero(seen).tolist():
            near = np.flatnonzero(first >= first[s] / 4.0)
            same = (self.places[near] == self.places[s]).mean(axis=1)
            out[s] = (same[near != s] >= _ALIKE).any()
        return out
