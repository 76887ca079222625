"""Optimised unary encoding (OUE): one bit per cell (Wang et al., USENIX Security 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.draws import coins_bytes
from calmstream.estimators.mechanisms.base import ReportWork
from calmstream.estimators.mechanisms.bits import random_rows, row_bytes
from calmstream.estimators.mechanisms.support import OTHER
from calmstream.estimators.mechanisms.unary import UnaryOracle, replace_own
from calmstream.estimators.randomness import Randomness


@dataclass(frozen=True)
class OUE(UnaryOracle):
    """A report has one bit per cell; the own cell is the one that the device holds.

    The bit of the own cell is 1 with probability 1/2. Any other bit is 1 with probability
    2^32 / (2^32 + weight), where weight = floor(e^epsilon · 2^32).

    Report: column ``b``, L packed bits. Counters: the number of ones of each cell.
    Cost: L / 8 bytes to send, about L / 4 + 1 random bytes; O(L / 64) word operations to tally.
    """

    name: ClassVar[str] = "oue"

    @property
    def p(self) -> Fraction:
        return Fraction(1, 2)

    @property
    def q(self) -> Fraction:
        return Fraction(OTHER, self.weight + OTHER)

    @property
    def report_work(self) -> ReportWork:
        return ReportWork.of(self.columns, coins_bytes(row_bytes(self.cells)) + 1)

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        rows = random_rows(len(values), self.cells, self.q, randomness)
        fair = np.frombuffer(randomness.bytes(len(values)), np.uint8)
        replace_own(rows, np.asarray(values), fair)
        return {"b": rows}
