"""The contract of every local mechanism, and the types that mechanisms share.

A local mechanism (frequency oracle) turns a device's true input into a random report, from many of
which the frequencies of inputs can be estimated. The input is usually a cell of a *view*, a small
set of attributes; devices with different views can share a mechanism. It is one immutable object:
devices call ``perturb``; the service calls ``tally``, ``estimate`` and ``covariance``; tests call
``channel``. So both sides always agree on the parameters.

A package of its own adds a mechanism by an entry point of the group ``calmstream.mechanisms``.

A batch of n perturbed reports is a mapping from column name to an array with first axis n. The wire
format encodes, decodes and range-checks columns by their declaration, so a mechanism has no wire
code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Counts, Floats
from calmstream.estimators.draws import RESPONSE_BYTES
from calmstream.estimators.mechanisms.covariance import Covariance as Covariance  # noqa: PLC0414
from calmstream.estimators.mechanisms.covariance import spread_evenly, sum_out
from calmstream.estimators.randomness import Randomness, SeededRandomness

Reports = Mapping[str, NDArray[Any]]
Channel = tuple[tuple[Fraction, ...], ...]

MAX_HISTOGRAM = 1 << 24  # inputs; simulations of larger mechanisms perturb report by report
DRAWN_REPORTS = 1 << 16  # reports of one block of such a simulation


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a report batch; ``name`` is short and unique within the mechanism.

    The kind "int" is one integer in [0, bound) per report, array shape (n,), any integer dtype.
    "bits" is ``bound`` bits per report packed little-endian (bit b of a report is bit b % 8 of its
    byte b // 8), array shape (n, ceil(bound / 8)), uint8; unused high bits are 0.
    """

    name: str
    kind: Literal["int", "bits"]
    bound: int

    @property
    def report_bytes(self) -> int:
        """Maximum number of bytes of the column in a batch of one report, with its JSON name."""
        # 6 bytes of JSON syntax: the quotes and colon of the name, and brackets or quotes.
        digits, base64 = len(str(self.bound - 1)), 4 * -(-self.bound // 24)
        return len(self.name) + 6 + (digits if self.kind == "int" else base64)


@dataclass(frozen=True, slots=True)
class ReportWork:
    """Upper bounds of the cost of a device's first report, with the tables that it needs.

    They follow from the parameters alone, in O(their length), so that a device can refuse a plan
    before it does the work.
    """

    bytes: int  # of the columns in a batch of one report
    random_bytes: int  # more are needed with a probability below 2^-60
    hashes: int = 0  # evaluations of the hash of `.hashing`
    comparisons: int = 0  # of 64-bit words

    @classmethod
    def of(
        cls, columns: Iterable[Column], random_bytes: int, hashes: int = 0, comparisons: int = 0
    ) -> Self:
        size = sum(column.report_bytes for column in columns)
        return cls(size, random_bytes, hashes, comparisons)


@dataclass(frozen=True)
class Mechanism(ABC):
    """An epsilon-locally-differentially-private channel on ``cells`` inputs.

    A mechanism is a frozen dataclass, built by ``Kind(epsilon, cells, **parameters)``; its fields
    are exactly these. It states eight members: the name, `columns`, `width`, `perturb`, `tally`,
    `estimate`, `covariance` and `channel`. It overrides others where it knows something better.

    Attributes:
        name: registry name, by which plans name the mechanism.
        fixed_total: whether the entries of `estimate` add up to exactly 1, whatever the reports.
        epsilon: decimal string of the plan, the whole loss of one report; the realised one is never
            larger.
        cells: number of inputs L; an input is an integer in [0, L).
    """

    name: ClassVar[str]
    fixed_total: ClassVar[bool] = False

    epsilon: str
    cells: int

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]: ...

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of integer counters that one view needs."""

    @abstractmethod
    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        """Perturb one input per device, without a loop over reports.

        ``values``: (n,), integers in [0, cells). Returns the columns, each with first axis n.
        """

    @abstractmethod
    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        """Count a batch of range-checked reports: (views, width), int64; additive over batches.

        ``view``: (n,), each report's view in [0, views), or None when there is one.
        """

    @abstractmethod
    def estimate(self, counts: Counts, n: int) -> Floats:
        """Return unbiased frequencies of the L inputs among the n reports: shape (L,), float64.

        They are not normalised and may be negative; all zero if n is 0.
        """

    @abstractmethod
    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        """Return the covariance of `estimate`, with the sampling of n >= 1 devices out of many.

        ``frequencies``: (L,), non-negative, sum 1. The sum of the diagonal is that of `variance`
        plus that of the multinomial sampling. A mechanism whose exact covariance has no such form
        states what other entries neglect; `table_covariance` is always exact. The variance of the
        table's total is 0 exactly where `fixed_total` holds.
        """

    @abstractmethod
    def channel(self) -> Channel:
        """Return the exact transition matrix of this code: shape (cells, outputs), rows sum to 1.

        For tests, of mechanisms with few outputs: no two entries of a column have a ratio above
        e^epsilon. Outputs are in increasing order of their code, which reads the columns of the
        report as digits of one number, the first column as the most significant one; bits form an
        integer, lowest bit first. Codes that no report can have are left out.
        """

    # What follows from these

    @classmethod
    def standard(cls, epsilon: str, cells: int) -> Self:
        """Return the mechanism with its recommended parameters; here it has none."""
        return cls(epsilon, cells)

    def to_json(self) -> dict[str, Any]:
        """Return the mechanism as in a plan: name, cells and parameters, without epsilon."""
        names = [field.name for field in fields(self) if field.name != "epsilon"]
        return {"name": self.name} | {name: _json_ready(getattr(self, name)) for name in names}

    @property
    def largest_count(self) -> int:
        """Maximum that one report adds to one counter, at least 1; it limits the size of states."""
        return 1

    @property
    def report_work(self) -> ReportWork:
        """The cost of a report; here 16 random bytes for each integer and each bit of it."""
        drawn = sum(1 if column.kind == "int" else column.bound for column in self.columns)
        return ReportWork.of(self.columns, RESPONSE_BYTES * drawn)

    def check(self) -> None:  # noqa: B027 - a mechanism may leave nothing open
        """Make the checks that cost more than O(parameters); called once, when a plan is read."""

    def variance(self, n: int, frequencies: Floats | None = None) -> Floats:
        """Return the variance of each entry of `estimate`, given the data: shape (L,).

        ``frequencies``: as for `covariance`, or clipped to [0, 1]; None for 1 / L each.
        """
        f = np.full(self.cells, 1 / self.cells) if frequencies is None else np.asarray(frequencies)
        whole = self.covariance(n, f)
        sampled = f * (1 - f) / n
        variance: Floats = whole.diagonal - np.square(whole.factors).sum(axis=1) - sampled
        return variance

    def holds(self, axes: Sequence[int]) -> bool:  # noqa: ARG002
        """Return whether the counters hold the table over ``axes``, as for `table`.

        A mechanism of whole records may count smaller tables only. `estimate` and `covariance` do
        not apply where the table over all attributes is missing.
        """
        return True

    def table(self, counts: Counts, n: int, shape: Sequence[int], axes: Sequence[int]) -> Floats:
        """Return the estimated table over some of the attributes of a view: shape (its cells,).

        ``counts``: (width,); ``shape``: number of labels of each attribute of the view, of which an
        input is the row-major cell; ``axes``: ascending positions in it, at least one. The table
        has the expected value of the sums of `estimate`, and exists also where the counters hold
        smaller tables only; a KeyError where they do not hold it (`holds`). All zero if n is 0.
        """
        return sum_out(self.estimate(counts, n), shape, axes)

    def table_covariance(
        self, n: int, expected: Floats, shape: Sequence[int], axes: Sequence[int]
    ) -> Floats:
        """Return the exact covariance of `table` for n >= 1 devices drawn independently, dense.

        ``expected``: expected value of `table`, (cells,); also an estimate of it, with which the
        result is the covariance at the frequencies of the reports. Public parameters such as hash
        functions count as given; a hash whose seed is drawn with each report counts as ideal. Here:
        for a covariance that is exact and depends on the frequencies by their sums only.
        """
        whole = self.covariance(n, spread_evenly(expected, shape, axes))
        return whole.summed(shape, axes)

    def rarest(self, _expected: Floats, _shape: Sequence[int], _axes: Sequence[int], /) -> float:
        """Return the smallest probability of a counted event or of its complement, 0 to 1/2.

        An event is what a counter of the table counts. The number of reports times this shows
        whether the table is nearly normal. Here 0: unknown. Arguments as for `table_covariance`.
        """
        return 0.0

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Draw a tally, (width,), from its distribution, given how many devices hold each input.

        ``histogram``: true counts, (L,). Here it perturbs and tallies every device; most mechanisms
        take time that does not depend on n. For simulation only.
        """
        return self._by_report(np.repeat(np.arange(self.cells), histogram), generator)

    def draw_tally_of(self, values: NDArray[Any], generator: np.random.Generator) -> Counts:
        """Draw a tally as `draw_tally` does, given the devices' inputs: shape (n,), integers."""
        if self.cells > MAX_HISTOGRAM:
            return self._by_report(values, generator)
        return self.draw_tally(np.bincount(values, minlength=self.cells), generator)

    def _by_report(self, values: NDArray[Any], generator: np.random.Generator) -> Counts:
        randomness = SeededRandomness(int(generator.integers(1 << 62)))
        drawn = np.zeros(self.width, np.int64)
        for start in range(0, len(values), DRAWN_REPORTS):
            reports = self.perturb(values[start : start + DRAWN_REPORTS], randomness)
            drawn += self.tally(reports, None, 1)[0]
        return drawn


def _json_ready(value: object) -> object:
    """Return a parameter as in a plan's document: tuples are lists there."""
    return [_json_ready(one) for one in value] if isinstance(value, tuple) else value
