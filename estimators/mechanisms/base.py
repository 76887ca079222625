"""What every local mechanism (frequency oracle) is: one immutable parameter object, both sides.

The edge calls ``perturb``; the service calls ``tally`` and ``estimate``; tests call ``channel``.
Because all of them read the same object, the two sides cannot drift apart.

A batch of n perturbed reports is a mapping from column name to an array with first axis n. The
mechanism declares its columns, and that declaration is all the wire format needs to encode, decode
and range-check them: no mechanism has wire code of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from estimators.mechanisms.covariance import Covariance

if TYPE_CHECKING:
    from estimators.randomness import Randomness

__all__ = [
    "MAX_CHANNEL_OUTPUTS",
    "Channel",
    "Column",
    "Counts",
    "Covariance",
    "Floats",
    "Mechanism",
    "ReportWork",
    "Reports",
    "require_enumerable",
]

Reports = Mapping[str, NDArray[Any]]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Channel = tuple[tuple[Fraction, ...], ...]

MAX_CHANNEL_OUTPUTS = 1 << 12


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a report batch.

    Attributes:
        name: short, unique within the mechanism; the JSON field.
        kind: "int" is one integer in [0, bound) per report, array shape (n,), any integer dtype.
            "bits" is ``bound`` bits per report packed little-endian (bit b of a report is bit b % 8
            of its byte b // 8), array shape (n, ceil(bound / 8)), uint8; unused high bits are 0.
        bound: see kind; at least 1.
    """

    name: str
    kind: Literal["int", "bits"]
    bound: int

    @property
    def report_bytes(self) -> int:
        """Most bytes of a batch's body that the column of a single report takes, with its name."""
        digits, base64 = len(str(self.bound - 1)), 4 * -(-self.bound // 24)
        return len(self.name) + 6 + (digits if self.kind == "int" else base64)


@dataclass(frozen=True, slots=True)
class ReportWork:
    """Upper bounds of what the first report costs a device, tables that it needs included.

    Known from the parameters alone, in O(their length): a device asks before it does the work.

    Attributes:
        bytes: of the columns in a batch of one.
        random_bytes: drawn, but for a chance below 2^-60.
        hashes: evaluations of the hash of :mod:`.hashing`.
        comparisons: of words of 64 bits.
    """

    bytes: int
    random_bytes: int
    hashes: int = 0
    comparisons: int = 0

    @classmethod
    def of(
        cls,
        columns: Iterable[Column],
        random_bytes: int,
        *,
        hashes: int = 0,
        comparisons: int = 0,
    ) -> Self:
        """The work of a mechanism with these columns."""
        size = sum(column.report_bytes for column in columns)
        return cls(size, random_bytes, hashes, comparisons)


class Mechanism(Protocol):
    """An epsilon-locally-differentially-private channel on ``cells`` inputs.

    Implementations are frozen dataclasses built by ``Mechanism(epsilon, cells, **parameters)``,
    their fields being exactly epsilon, cells and the parameters;
    ``epsilon`` is the decimal string of the plan and is the whole loss of one report.
    """

    name: ClassVar[str]
    """Registry name, as it stands in a plan."""

    fixed_total: ClassVar[bool]
    """Whether the entries of :meth:`estimate` add up to exactly 1 whatever was reported."""

    @classmethod
    def standard(cls, epsilon: str, cells: int) -> Self:
        """The mechanism with its recommended parameters.

        Raises:
            PlanError: epsilon or cells out of range.
        """

    @property
    def epsilon(self) -> str:
        """The stated loss; the realised one is never larger."""

    @property
    def cells(self) -> int:
        """Number of inputs L; an input is an integer in [0, L)."""

    @property
    def width(self) -> int:
        """Number of integer counters that one view needs."""

    @property
    def largest_count(self) -> int:
        """Most that one report adds to one counter; at least 1. A state's size follows from it."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a report."""

    @property
    def counts_joint(self) -> bool:
        """Whether the counters determine all L frequencies.

        False for a mechanism of whole records that counts smaller tables only: :meth:`estimate`
        and :meth:`covariance` do not apply then.
        """

    @property
    def drawn_cells(self) -> int:
        """Size of the largest histogram that :meth:`draw_tally_of` builds."""

    @property
    def report_work(self) -> ReportWork:
        """What the first report costs a device at most; O(parameters), nothing is built for it."""

    def check(self) -> None:
        """Whether it can report, as far as the constructor has not checked it.

        Constructors take O(parameters). Slower checks are made here, once, when a plan is read.

        Raises:
            PlanError: it cannot.
        """

    def parameters(self) -> dict[str, Any]:
        """JSON-ready parameters beyond epsilon and cells; empty for most."""

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        """Perturb one input per device.

        Args:
            values: shape (n,), integers in [0, cells).
            randomness: source of uniform bytes; the operating system's in production.

        Returns:
            The columns, each with first axis n. No loop over reports.
        """

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        """Count a batch.

        Args:
            reports: columns as declared, already range-checked.
            view: shape (n,), each report's view in [0, views), or None when there is one view.
            views: number of views that share the batch.

        Returns:
            Shape (views, width), int64; additive over batches. Does not contain n: the caller
            counts reports per view itself.
        """

    def estimate(self, counts: Counts, n: int) -> Floats:
        """Unbiased frequencies of the L inputs among the n reports: shape (L,), float64.

        Not normalised, may be negative. All zeros when n is 0.
        """

    def variance(self, n: int, frequencies: Floats | None = None) -> Floats:
        """Variance of each entry of :meth:`estimate`, given the data: shape (L,).

        Args:
            n: number of reports, at least 1.
            frequencies: true (or estimated, clipped to [0, 1]) frequencies, shape (L,); None for
                the average over cells, 1 / L each.
        """

    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        """Covariance of :meth:`estimate`, with the sampling of n devices out of many.

        The sum of the diagonal is that of :meth:`variance` plus that of the multinomial sampling.
        Each mechanism says what its other entries neglect. The variance of the table's total is 0
        exactly where :attr:`fixed_total` holds.

        Args:
            n: number of reports, at least 1.
            frequencies: shape (L,), non-negative, sum 1.
        """

    def influence(self, weights: Floats, times: Floats) -> float:
        """The most that one report can add to a weighted sum of the estimates, times n.

        An estimate is a mean over reports of what each one says, a(y). This is the largest
        ``sum_j times_j · weights_j · a_j(y)`` over all reports y that can be sent; an upper bound
        where the mechanism says so.

        Args:
            weights: shape (m,), of cells that are weighted alike.
            times: shape (m,), how many cells have each weight; they sum to L.
        """

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """A tally drawn from its exact law given how many devices hold each input.

        Equal in law to perturbing and tallying every device, in time that does not depend on n.
        For simulation only.

        Args:
            histogram: shape (L,), true counts.
            generator: seeded by the caller.

        Returns:
            Shape (width,), int64.
        """

    def draw_tally_of(self, values: NDArray[Any], generator: np.random.Generator) -> Counts:
        """Draw a tally as :meth:`draw_tally` does, given the devices' inputs.

        Args:
            values: shape (n,), integers in [0, cells).
            generator: seeded by the caller.

        Returns:
            Shape (width,), int64. Memory: O(:attr:`drawn_cells`).
        """

    def channel(self) -> Channel:
        """The exact transition matrix, shape (cells, outputs), rows sum to 1, of the shipped code.

        Outputs are in increasing order of their code: the columns of the report read as the digits
        of one number, the first column the most significant, bits as the integer that they spell.
        Codes that no report can have are left out.

        Raises:
            ValueError: more than 2^12 outputs; :meth:`worst_ratio` still holds then.
        """

    def worst_ratio(self) -> Fraction:
        """Largest P(y|x) / P(y|x') over all outputs and pairs of inputs, exact, by structure."""


def require_enumerable(outputs: int) -> None:
    """Refuse to list a channel that is too large.

    Raises:
        ValueError: more than 2^12 outputs.
    """
    if outputs > MAX_CHANNEL_OUTPUTS:
        raise ValueError(f"a channel with {outputs} outputs is not listed, only its worst ratio")
