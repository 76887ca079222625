from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any, Literal

import pytest

from calmstream.common.errors import InvalidInput
from calmstream.common.settings import Settings, bounded, load, refuse_unknown, variables


class Kiln(Settings):
    heat: float = bounded(900.0, gt=0, le=1999)
    pots: int = bounded(4, ge=1, le=9)
    glaze: str = "clear"
    open_door: bool = False
    finish: Literal["matt", "gloss"] = "matt"
    folder: Path | None = None
    rest: float | None = bounded(None, ge=1)

    def check(self) -> None:
        if self.open_door and self.heat > 1000:
            raise InvalidInput("the door is open")


READ = [
    ("HEAT", "1e3", "heat", 1000.0),
    ("POTS", " 7 ", "pots", 7),
    ("GLAZE", "blue", "glaze", "blue"),
    *(("OPEN_DOOR", text, "open_door", True) for text in ("true", "1", "YES", "on")),
    *(("OPEN_DOOR", text, "open_door", False) for text in ("False", "0", "no", "off")),
    ("FINISH", "gloss", "finish", "gloss"),
    ("FOLDER", "/var/kiln", "folder", Path("/var/kiln")),
    ("REST", "2", "rest", 2.0),
]


@pytest.mark.parametrize(("name", "text", "field", "value"), READ)
def test_a_variable_is_read_as_its_type(
    name: str, text: str, field: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"CALMSTREAM_{name}", text)
    read = getattr(load(Kiln), field)
    assert (read, type(read)) == (value, type(value))


def test_the_name_of_a_variable_may_be_in_lower_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("calmstream_pots", "3")
    assert load(Kiln).pots == 3


WRONG = [
    ("HEAT", "0", "must be greater than 0"),
    ("HEAT", "2000", "must be at most 1999"),
    ("HEAT", "nan", "must be greater than 0"),
    ("HEAT", "hot", "must be a number"),
    ("HEAT", "", "must be a number"),
    ("POTS", "0", "must be at least 1"),
    ("POTS", "10", "must be at most 9"),
    ("POTS", "4.5", "must be a whole number"),
    ("OPEN_DOOR", "perhaps", "must be true or false"),
    ("FINISH", "rough", "must be one of matt, gloss"),
    ("REST", "0.5", "must be at least 1"),
]


@pytest.mark.parametrize(("name", "text", "message"), WRONG)
def test_a_wrong_value_is_refused_and_the_source_is_named(
    name: str, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"CALMSTREAM_{name}", text)
    with pytest.raises(InvalidInput) as caught:
        load(Kiln)
    assert str(caught.value) == f"CALMSTREAM_{name}: {message}"
    with pytest.raises(InvalidInput) as caught:
        load(Kiln, **{name.lower(): text})
    assert str(caught.value) == f"--{name.lower().replace('_', '-')}: {message}"


def test_arguments_are_of_the_settings_type() -> None:
    for value in (4.0, 4.5):
        with pytest.raises(InvalidInput, match=r"^--pots: must be a whole number$"):
            load(Kiln, pots=value)
    assert type(load(Kiln, heat=5).heat) is float


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^--pot: there is no such setting$"):
        load(Kiln, pot=3)
    with pytest.raises(TypeError, match="pot"):
        Kiln(pot=3)  # type: ignore[call-arg]


def test_the_rules_hold_for_values_from_code_too() -> None:
    with pytest.raises(InvalidInput, match="pots: must be at least 1"):
        Kiln(pots=0)
    with pytest.raises(InvalidInput, match="the door is open"):
        Kiln(open_door=True, heat=1500)
    with pytest.raises(InvalidInput, match=r"^the door is open$"):
        load(Kiln, heat=1500, open_door=True)
    with pytest.raises(FrozenInstanceError):
        Kiln().pots = 3  # type: ignore[misc]


def test_unknown_variables_are_refused_without_their_value() -> None:
    known = variables(Kiln)
    assert "CALMSTREAM_OPEN_DOOR" in known
    refuse_unknown({"CALMSTREAM_POTS": "1", "PATH": "/bin"}, known)
    refuse_unknown({"CALMSTREAM_REQUIRE_BROKER": "1", "CALMSTREAM_TEST_BOOTSTRAP": "a:1"}, known)
    with pytest.raises(InvalidInput, match="CALMSTREAM_POST") as caught:
        refuse_unknown({"CALMSTREAM_POST": "hunter2"}, known)
    assert "hunter2" not in str(caught.value)
