"""What the accuracy report measures: every method at every point of every figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

LN3 = "1.0986122886681098"  # the usual epsilon of Cormode et al., ln 3

N18 = 1 << 18  # the usual number of devices

STOPS = (
    ("discrepancy", "inp-em"),
    ("likelihood", "inp-em (most likely)"),
    ("change", "inp-em (paper's stop)"),
)
"""Stop rules of the method inp-em, and the name of the curve of each."""

OWN_SEED = "own"  # a seed of hash functions that each repeat has for itself

CALM_EPSILONS = ("0.2", "0.5", "1", "2")  # values of epsilon in the figures of CALM

CORMODE = ("inp-ht", "marg-ps", "marg-ht", "marg-rr", "inp-ps", "inp-rr", "uniform")
"""The methods in most figures of Cormode et al."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One method at one point of one figure."""

    figure: str  # name of the figure and of its file of results
    panel: str  # title of the panel of the figure
    dataset: str
    d: int  # number of attributes of a record
    k: int  # number of attributes of a marginal
    epsilon: str  # privacy parameter of a report, as a decimal
    users: int  # number of devices
    method: str  # name of the method in the registry
    parameters: Mapping[str, Any] = field(default_factory=dict)
    targets: int = 50  # number of k-way marginals that are measured; if there are fewer, all are
    label: str = ""  # name of the curve if it differs from the name of the method, otherwise empty

    @property
    def key(self) -> str:
        """The key of its results, which also determines the seed."""
        extra = "".join(f" {name}={value}" for name, value in sorted(self.parameters.items()))
        return (
            f"{self.dataset} d={self.d} k={self.k} epsilon={self.epsilon} n={self.users} "
            f"targets={self.targets} {self.method}{extra}"
        )

    @property
    def curve(self) -> str:
        return self.label or self.method

    @property
    def population(self) -> tuple[str, int, int]:
        """The data set, d and users; pieces with the same population use the same devices."""
        return (self.dataset, self.d, self.users)


def fig4() -> Iterator[Piece]:
    """Yield CALM Fig. 4: squared error against epsilon on binary data."""
    for dataset in ("kosarak", "pos"):
        for d, k in ((8, 3), (16, 3), (32, 3), (16, 6), (32, 6), (32, 8)):
            for method in ("calm", "ft", "am", "fc", "inp-em", "uniform"):
                if method == "inp-em" and (d > 16 or k > 3):
                    continue
                for epsilon in CALM_EPSILONS:
                    panel = f"{dataset}, d = {d}, k = {k}"
                    yield Piece("calm-fig4", panel, dataset, d, k, epsilon, N18, method)


def fig5() -> Iterator[Piece]:
    """Yield CALM Fig. 5: squared error on categorical data, at most three categories."""
    for dataset in ("adult3", "census3"):
        for method in ("calm", "characters", "inp-ht", "ft", "am", "fc", "uniform"):
            for epsilon in CALM_EPSILONS:
                panel = f"{dataset}, d = 8, k = 3"
                yield Piece("calm-fig5", panel, dataset, 8, 3, epsilon, N18, method)


def cormode4() -> Iterator[Piece]:
    """Yield Cormode Fig. 4: total variation against N on MovieLens."""
    for d in (4, 8, 16):
        for k in (1, 2, 3):
            for power in (16, 17, 18, 19):
                for method in CORMODE:
                    panel = f"d = {d}, k = {k}"
                    yield Piece("cormode-fig4", panel, "movielens", d, k, LN3, 1 << power, method)


def cormode5() -> Iterator[Piece]:
    """Yield Cormode Fig. 5: total variation against k on taxi."""
    for k in range(1, 8):
        for method in CORMODE:
            yield Piece("cormode-fig5", "taxi, d = 8", "taxi", 8, k, LN3, N18, method)
        for method in ("marg-rr", "inp-rr"):
            oracle, label = {"oracle": "oue"}, f"{method} (OUE)"
            yield Piece(
                "cormode-fig5", "taxi, d = 8", "taxi", 8, k, LN3, N18, method, oracle, label=label
            )


def cormode6() -> Iterator[Piece]:
    """Yield Cormode Fig. 6: larger d by repeated columns, with InpEM by both stop rules."""
    for epsilon in ("0.4", "0.7", LN3):
        for d in (8, 16, 24):
            panel = f"taxi, k = 2, epsilon = {float(epsilon):.1f}"
            for method in ("inp-ht", "marg-ps", "calm", "uniform"):
                yield Piece("cormode-fig6", panel, "taxi", d, 2, epsilon, N18, method)
            for stop, label in STOPS:
                yield Piece(
                    "cormode-fig6", panel, "taxi", d, 2, epsilon, N18, "inp-em",
                    {"stop": stop}, 20, label,
                )  # fmt: skip


def cormode9() -> Iterator[Piece]:
    """Yield Cormode Fig. 9: total variation against epsilon on MovieLens."""
    for d in (4, 8, 16):
        for k in (1, 2, 3):
            for epsilon in ("0.4", "0.7", "1.0", "1.4"):
                for method in CORMODE:
                    panel = f"d = {d}, k = {k}"
                    yield Piece("cormode-fig9", panel, "movielens", d, k, epsilon, N18, method)


def cormode10() -> Iterator[Piece]:
    """Yield Cormode Fig. 10: frequency oracles over the whole record, k = 2."""
    for d in (4, 6, 8, 12, 16):
        for method in ("inp-ht", "inp-olh", "inp-htcms", "uniform"):
            seed = {"seed": OWN_SEED} if method == "inp-htcms" else {}
            yield Piece(
                "cormode-fig10", "movielens, k = 2", "movielens", d, 2, LN3, N18, method, seed
            )


FIGURES = {
    "calm-fig4": fig4,
    "calm-fig5": fig5,
    "cormode-fig4": cormode4,
    "cormode-fig5": cormode5,
    "cormode-fig6": cormode6,
    "cormode-fig9": cormode9,
    "cormode-fig10": cormode10,
}
