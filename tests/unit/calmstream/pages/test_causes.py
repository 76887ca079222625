"""``analyse --causes``: what people read."""

from __future__ import annotations

from calmstream.estimators.analysis.report import causes
from calmstream.estimators.cause import Cause, LabelShift
from calmstream.estimators.domain import Attribute, Domain
from calmstream.pages.analyse import NO_CAUSE, render_causes
from calmstream.terminal import Console

DOMAIN = Domain((Attribute("married", ("no", "yes")), Attribute("age", ("17-30", "31+"))))


class Explaining:
    def marginal(self, _: object) -> None: ...

    def mixture(self) -> None: ...

    def causes(self) -> tuple[Cause, ...]:
        return (
            Cause(
                0.4,
                0.02,
                0.95,
                (LabelShift(0, 1, 0.1, 0.9, 0.02), LabelShift(1, 0, 0.7, 0.2, 0.05)),
            ),
        )


def shown(model: object) -> str:
    console = Console(width=80, no_color=True)
    with console.capture() as capture:
        console.print(render_causes(causes(DOMAIN, model)))  # type: ignore[arg-type]
    return capture.get()


def test_labels_stand_with_their_shares_without_and_with_the_cause() -> None:
    text = shown(Explaining())
    assert "1. 36 to 44 % of all, in 95 % of the model's draws" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["married:", "yes", "10", "90", "±", "4"] in rows
    assert ["age:", "17-30", "70", "20", "±", "10"] in rows


def test_a_model_without_causes_says_that_there_are_none() -> None:
    assert NO_CAUSE in shown(object())
