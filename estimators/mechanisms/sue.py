"""Symmetric unary encoding (SUE): one bit per cell, each by randomised response with epsilon / 2.

It is also called parallel randomised response, and is the one-time part of basic RAPPOR
(Erlingsson et al., CCS 2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.draws import coins, coins_bytes
from calmstream.estimators.mechanisms.base import ReportWork
from calmstream.estimators.mechanisms.bits import random_rows, row_bytes
from calmstream.estimators.mechanisms.support import OTHER
from calmstream.estimators.mechanisms.unary import UnaryOracle, replace_own
from calmstream.estimators.randomness import Randomness, exp_weight


@dataclass(frozen=True)
class SUE(UnaryOracle):
    """The input is one bit per cell, 1 at the own cell only; every bit is kept or flipped.

    Keeping a bit has the weight floor(e^(epsilon/2) · 2^32), flipping it 2^32. Two inputs differ in
    two bits, so each bit may spend half of epsilon.

    Report: column ``b``, L packed bits. Counters: the number of ones of each cell.
    Cost: L / 8 bytes to send, about L / 4 + 2 random bytes; O(L / 64) word operations to tally.
    """

    name: ClassVar[str] = "sue"

    @cached_property
    def half_weight(self) -> int:
        """Weight of keeping a bit, floor(exp(epsilon / 2) · 2^32); flipping it has 2^32."""
        return exp_weight(self.epsilon, 2)

    @property
    def p(self) -> Fraction:
        return Fraction(self.half_weight, self.half_weight + OTHER)

    @property
    def q(self) -> Fraction:
        return Fraction(OTHER, self.half_weight + OTHER)

    @property
    def report_work(self) -> ReportWork:
        return ReportWork.of(self.columns, coins_bytes(row_bytes(self.cells)) + coins_bytes(1))

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        n = len(values)
        rows = random_rows(n, self.cells, self.q, randomness)
        ones = np.unpackbits(coins(row_bytes(n), self.p, randomness), count=n)
        replace_own(rows, np.asarray(values), np.where(ones, np.uint8(0xFF), np.uint8(0)))
        return {"b": rows}
