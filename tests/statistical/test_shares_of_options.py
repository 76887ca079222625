from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from calmstream.estimators import methods
from calmstream.estimators.methods.base import Request
from calmstream.evaluation.population import collect, local_plan
from calmstream.tables.records import read_table
from tests.support.repeats import repeats

RUNS = repeats(12, 200)  # of 200, 97.6 % of the intervals held
OPTIONS = ("search", "share", "export", "print")


def written(path: Path, dice: random.Random) -> dict[str, float]:
    separator, n = dice.choice([";", "|", ", ", "\n"]), dice.randrange(2000, 4000)
    chances = {option: dice.uniform(0.02, 0.7) for option in OPTIONS}
    cells = [[x for x, p in chances.items() if dice.random() < p] for _ in range(n)]
    lines = [f'{dice.choice(["EU", "US"])},"{separator.join(cell)}"' for cell in cells]
    path.write_text("\n".join(["region,uses", *lines]))
    return {option: sum(option in cell for cell in cells) / n for option in OPTIONS}


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_intervals_of_shares_hold_the_truth(tmp_path: Path) -> None:
    method, held = methods.get("noise-aware"), []
    for run in range(RUNS):
        dice = random.Random(run)
        truth = written(tmp_path / "table.csv", dice)
        table = read_table(tmp_path / "table.csv")
        epsilon = dice.choice(["0.5", "1", "2", "4"])
        plan = local_plan(method, Request(table.domain, epsilon, len(table.codes), 2))
        model = method.fit(
            plan, collect(plan, table.codes, np.random.SeedSequence(run), exact=True)
        )
        for option, share in truth.items():
            answer = model.marginal(table.domain.index([f"uses={option}"]))
            held.append(abs(answer.table[1] - share) <= 1.96 * answer.stderr[1])
    # Four intervals a run; those of one run share its devices.
    assert np.mean(held) >= 0.95 - 3 * (0.95 * 0.05 / RUNS) ** 0.5
