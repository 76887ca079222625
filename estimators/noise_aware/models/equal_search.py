"""Finds categories of several attributes that hold the same records.

Who has no internet service has no answer to the questions about it, and a form that was not filled
in lacks all of its fields. Such categories are usual, and scales of dependence do not expect them:
their pairs are as dependent as pairs can be, and all others hardly. Noise may hide each single
pair. All pairs together, equal shares, and equal labels, such as that of a missing value, show the
set. See noise-aware.md, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, lgamma, log, pi
from typing import NamedTuple, Self

import numpy as np

from calmstream.estimators.noise_aware.arrays import Flags, Floats, Indices
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.priors import (
    CONCENTRATION,
    EQUAL_JOINS,
    EQUAL_PRIOR,
    EQUAL_SLACK,
)

NEARLY, PARTLY = np.linspace(0.75, 1.0, 6), np.linspace(0.0, 0.7, 8)
"""Strengths of dependence of equal categories, apart from exceptions, and of others that depend."""

OFTEN = np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.5])
"""Prior probabilities of `NEARLY`: half of the sets have no exceptions."""

RARER = np.exp(-5.0 * PARTLY) / np.exp(-5.0 * PARTLY).sum()
"""Prior probabilities of `PARTLY`: strong dependence of two given categories is rare."""

LEAST_PROBABILITY = 0.02
"""Least posterior probability of a set."""

LEAST_SHARE = 0.03
"""Least share of a category in a set, and of the records outside of it: rarer ones cost little."""

SLACK_OF_STRENGTH = 0.05
"""How far the strength of the dependence may be from that of equal categories, beyond its noise."""

LEAST_JOIN = 3.0
"""Least odds of a category that joins a set which was found without it."""

LOST = 4.0
"""A set grows no further where its log odds are this far below the best ones on the way."""

SEEDS = 8
"""Number of pairs of categories from which sets are grown."""

LARGEST = 1 << 9
"""Maximum number of features of a domain that is searched; the cost grows with the square."""


@dataclass(frozen=True, slots=True)
class Equal:
    """A set of categories that hold the same records.

    Attributes:
        attributes: the attributes, ascending.
        categories: the category of each of them.
        share: share of the records, 0 to 1.
        probability: posterior probability of the set, 0 to 1.
        strengths: posterior probabilities of `NEARLY`, the dependence of the members.
    """

    attributes: tuple[int, ...]
    categories: tuple[int, ...]
    share: float
    probability: float
    strengths: tuple[float, ...]

    @property
    def strength(self) -> float:
        """The posterior mean of the dependence of the members, 1 without exceptions."""
        return float(np.array(self.strengths) @ NEARLY)


def find(
    features: Features, statistics: Statistics, labels: Sequence[Sequence[str]]
) -> list[Equal]:
    """Return the sets that are at least as probable as `LEAST_PROBABILITY`, the surest first.

    No attribute is in two sets. Cost: O(size^2), and the seeds' growth.
    """
    if features.binary.all() or features.size > LARGEST:
        return []
    candidates, found = _Candidates(features, statistics, labels), []
    while (best := candidates.best()) is not None:
        shares = candidates.shares
        own = sorted((int(shares.attribute[k]), int(shares.category[k])) for k in best.members)
        candidates.remove(best.members)
        attributes, categories = zip(*own, strict=True)
        found.append(Equal(attributes, categories, best.share, best.probability, best.strengths))
    return found


def between(features: Features) -> Flags:
    """Return whether features belong to different attributes of which one has categories."""
    owner = np.repeat(np.arange(len(features.cardinalities)), features.widths)
    both = features.binary[:, None] & features.binary
    return np.asarray((owner[:, None] != owner) & ~both)


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """The shares of all categories, by first moments alone: shape (categories of all,) each."""

    attribute: Indices
    category: Indices
    share: Floats
    variance: Floats  # infinite without an estimate

    @classmethod
    def of(cls, features: Features, statistics: Statistics) -> Self:
        """Read the shares of all categories from first moments; bits have two categories each."""
        sizes = features.cardinalities
        attribute = np.repeat(np.arange(len(sizes)), sizes)
        category = np.concatenate([np.arange(r) for r in sizes])
        r = np.asarray(sizes, np.float64)[attribute]
        starts = np.array([own.start for own in features.slices])[attribute]
        place = starts + np.where(r > 2, category, 0)
        sign = np.where((r == 2) & (category == 1), -1.0, 1.0)
        with np.errstate(divide="ignore"):
            noise = (1.0 - 1.0 / r) / (r * statistics.mean_precision[place])
        scale = np.where(r == 2, 0.5, 1.0 / np.sqrt(r))
        return cls(attribute, category, 1.0 / r + scale * sign * statistics.means[place], noise)

    def places(self, features: Features, one: Equal) -> Indices:
        """Return the positions of the members of a set."""
        starts = np.cumsum([0, *features.cardinalities])
        return np.asarray(starts[list(one.attributes)] + np.array(one.categories), np.intp)


class _Found(NamedTuple):
    """A set of candidates, by their positions; the rest as in `Equal`."""

    members: list[int]
    share: float
    probability: float
    strengths: tuple[float, ...]


class _Candidates:
    """All categories, and how well they go together."""

    def __init__(
        self, features: Features, statistics: Statistics, labels: Sequence[Sequence[str]]
    ) -> None:
        """Compare all pairs of categories; cost O(size^2)."""
        texts = [text for own in labels for text in own]
        self._text = np.unique(texts, return_inverse=True)[1]
        # Numbers are values of scales; that two scales have one does not relate them.
        self._text[[_is_number(text) for text in texts]] = -1
        shares = Shares.of(features, statistics)
        self.shares, self._attributes = shares, len(features.cardinalities)
        sizes = np.array(features.cardinalities)[shares.attribute]
        self._log_sizes = np.log(sizes)
        share = np.clip(shares.share, 1e-3, 1.0 - 1e-3)
        self._prior = np.array([_log_beta(p, r) for p, r in zip(share, sizes, strict=True)])
        self.free = (shares.share > LEAST_SHARE) & (shares.share < 1.0 - LEAST_SHARE)
        self.free &= np.isfinite(shares.variance)
        self._compare(features, statistics, share)

    def _compare(self, features: Features, statistics: Statistics, share: Floats) -> None:
        """Compute the score and the information of every pair about being equal.

        With the strength t of the dependence, 1 for equal categories, the log likelihood ratio to
        independence is ``t score - t^2 information / 2``.
        """
        means, at = statistics.valid_means(features), self.shares.attribute
        away = np.zeros((share.size, features.size))
        for k, (i, category) in enumerate(zip(at, self.shares.category, strict=True)):
            own = features.slices[i]
            away[k, own] = features.codes[i][category] - means[own]
        known = np.where(between(features), statistics.product_precision, 0.0)
        gap = np.where(known > 0, statistics.products - np.outer(means, means), 0.0)
        first = np.array([own.start for own in features.slices])[at]
        precision = known[np.ix_(first, first)]
        mean = (share[:, None] + share) / 2.0
        odds, square = mean / (1.0 - mean), np.square(away).sum(axis=1)
        self.score = odds * (away @ gap @ away.T) * precision
        self.information = np.square(odds) * np.outer(square, square) * precision

    def remove(self, members: Sequence[int]) -> None:
        """Leave out the attributes of a set that was found."""
        gone = np.isin(self.shares.attribute, self.shares.attribute[list(members)])
        self.free &= ~gone

    def best(self) -> _Found | None:
        """Return the most probable set; None if it is too improbable."""
        odds, members = max((self._grown(seed) for seed in self._seeds()), default=(-np.inf, []))
        probability = 1.0 / (1.0 + exp(-max(odds, -600.0)))
        if probability < LEAST_PROBABILITY:
            return None
        members = self._joined(members)
        known = 1.0 / self.shares.variance[members]
        share = float(known @ self.shares.share[members] / known.sum())
        return _Found(members, share, probability, _evidence(*self._of_pairs(members))[1])

    def _of_pairs(self, members: list[int]) -> tuple[float, float]:
        """Return the score and the information of all pairs of a set together."""
        pairs = np.ix_(members, members)
        return float(self.score[pairs].sum()) / 2.0, float(self.information[pairs].sum()) / 2.0

    def _of_others(self, members: list[int]) -> tuple[Floats, Floats, Flags]:
        """Return each category's score and information with a set, and whether it could join."""
        score, information = self.score[members].sum(axis=0), self.information[members].sum(axis=0)
        taken = np.isin(self.shares.attribute, self.shares.attribute[members])
        return score, information, self.free & ~taken & _consistent(score, information)

    def _joined(self, members: list[int]) -> list[int]:
        """Return a set with all categories that probably belong to it if it exists.

        Each is compared with a category that is independent of the set or depends on it partly.
        """
        values, counts = np.unique(self._text[members], return_counts=True)
        same = (self._text == values[counts.argmax()]) & (self._text >= 0) & (counts.max() > 1)
        odds = np.where(same, log(EQUAL_JOINS[0]), log(EQUAL_JOINS[1]) - self._log_sizes)
        members = members.copy()
        while True:
            score, information, possible = self._of_others(members)
            alike, value = self._alike(members), np.full(odds.size, -np.inf)
            for k in np.flatnonzero(possible & (score > information / 2.0)):
                ratio, _ = _evidence(float(score[k]), float(information[k]))
                value[k] = ratio + min(float(alike[k]), ratio) + odds[k]
            best = int(np.argmax(value))
            if not value[best] > log(LEAST_JOIN):
                return members
            members.append(best)

    def _alike(self, members: list[int]) -> Floats:
        """Return the log evidence of each category's share for that of a set."""
        share, variance = self.shares.share, self.shares.variance
        known = 1.0 / variance[members]
        p = float(known @ share[members] / known.sum())
        with np.errstate(invalid="ignore"):
            total = 1.0 / known.sum() + variance + (EQUAL_SLACK * p) ** 2
            return np.asarray(_log_normal(share - p, total) - self._prior)

    def _seeds(self) -> list[tuple[int, int]]:
        """Return the best pairs of categories of one label, and the best of all others."""
        share, variance = self.shares.share, self.shares.variance
        between = variance[:, None] + variance + np.square(EQUAL_SLACK * share)[:, None]
        with np.errstate(invalid="ignore"):
            alike = _log_normal(share[:, None] - share, between) - self._prior
        value = self.score - self.information / 2.0 + alike
        apart = self.shares.attribute[:, None] < self.shares.attribute
        possible = apart & self.free[:, None] & self.free & (self.information > 0.0)
        found = []
        same = (self._text[:, None] == self._text) & (self._text >= 0)
        for some in (possible & same, possible & ~same):
            places = np.flatnonzero(some)
            order = np.argsort(-value.flat[places], kind="stable")[:SEEDS]
            found += [divmod(int(place), share.size) for place in places[order]]
        return found

    def _grown(self, seed: tuple[int, int]) -> tuple[float, list[int]]:
        """Grow a set from a pair by the best category each; return the best log odds on the way.

        If the pair has one label, so have all members.
        """
        members, following, alike = [seed[0]], seed[1], 0.0
        named = (self._text == self._text[seed[0]]) & (self._text >= 0)
        named = named if named[seed[1]] else np.zeros(named.size, bool)
        best = (-np.inf, members)
        while True:
            alike += float(self._alike(members)[following])
            members = [*members, following]
            odds = self._log_odds(members, alike, int(named.sum()))
            best = max(best, (odds, members))
            score, information, possible = self._of_others(members)
            if named.any():
                possible &= named
            gain = score - information / 2.0 + self._alike(members) - self._log_sizes
            gain[~possible] = -np.inf
            following = int(np.argmax(gain))
            if odds < best[0] - LOST or not possible[following]:
                return best

    def _log_odds(self, members: list[int], alike: float, named: int) -> float:
        """Return the log odds of a set against none; minus infinity if it contradicts itself.

        ``named`` categories have the set's label, or there is none. Categories with one label, such
        as that of a missing value, are more likely to be equal than others: all numbers of members
        are equally likely, and all sets of as many of these, instead of all sets of all categories.
        """
        own = np.ix_(members, members)
        each = _consistent(self.score[own].sum(axis=1), self.information[own].sum(axis=1))
        ratio, _ = _evidence(*self._of_pairs(members))
        if ratio < 0.0 or not each.all():
            return -np.inf
        of, m = named or self._attributes, len(members)
        sets = lgamma(of + 1) - lgamma(m + 1) - lgamma(of - m + 1) + log(max(of - 1, 1))
        categories = 0.0 if named else float(self._log_sizes[members].sum())
        return ratio + min(alike, ratio) + log(EQUAL_PRIOR) - sets - categories


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _consistent(score: Floats, information: Floats) -> Flags:
    """Return whether estimated strengths agree with 1 up to three standard errors and a slack."""
    known = np.maximum(information, 1e-300)
    return np.asarray(np.abs(score / known - 1.0) < SLACK_OF_STRENGTH + 3.0 / np.sqrt(known))


def _evidence(score: float, information: float) -> tuple[float, tuple[float, ...]]:
    """Return the log evidence of `NEARLY` against independence or `PARTLY`.

    All pairs have the same strength. Independence and weaker dependence are equally likely. Also
    return the posterior probabilities of `NEARLY`.
    """
    nearly, partly = (t * score - 0.5 * t * t * information for t in (NEARLY, PARTLY))
    likely = np.log(OFTEN) + nearly
    other = np.append(np.log(0.5 * RARER) + partly, log(0.5))
    total = np.logaddexp.reduce(likely)
    return float(total - np.logaddexp.reduce(other)), tuple(np.exp(likely - total).tolist())


def _log_beta(share: float, categories: int) -> float:
    """Return the log density of a share: its margin's Dirichlet prior, or an even one as likely."""
    a, b = CONCENTRATION.median, CONCENTRATION.median * (categories - 1)
    norm = lgamma(a + b) - lgamma(a) - lgamma(b)
    density = norm + (a - 1.0) * log(share) + (b - 1.0) * log(1.0 - share)
    return log(0.5 * exp(density) + 0.5)


def _log_normal(away: Floats, variance: Floats) -> Floats:
    """Return the log density of a normal variable at a distance from its mean."""
    return np.asarray(-0.5 * (np.square(away) / variance + np.log(2.0 * pi * variance)))
