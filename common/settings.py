"""Settings of a process, from arguments, environment variables ``CALMSTREAM_*``, or defaults.

An argument has priority over a variable. The names of settings contain their units. An unknown
setting is an error, so that a mistyped variable is noticed.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from typing import (
    Any,
    ClassVar,
    Literal,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from calmstream.common.errors import InvalidInput

PREFIX = "CALMSTREAM_"

_WORDS = dict.fromkeys(("1", "true", "yes", "on"), True)
_WORDS |= dict.fromkeys(("0", "false", "no", "off"), False)

_RULES: Mapping[str, tuple[Callable[[Any, Any], object], str]] = {
    "gt": (operator.gt, "greater than"),
    "ge": (operator.ge, "at least"),
    "le": (operator.le, "at most"),
}
"""What a value must be, by the name of a rule of `bounded`: a check and its words."""


def bounded(default: Any, *, fixed: bool = False, **rules: float) -> Any:
    """Return a setting with limits ``gt``, ``ge``, ``le`` for values other than None.

    Only code sets a ``fixed`` one, as tests do: there is no variable.
    """
    return field(default=default, metadata={"rules": rules, "fixed": fixed})


class WrongSetting(InvalidInput):
    """A setting is unknown or has a wrong value, which the message does not contain."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(bounded,))
class Settings:
    """Base of all settings: a subclass is a frozen dataclass, whose values are checked.

    The types are bool, int, float, a Literal of texts, what a text makes, as `Path`, or one of them
    and None.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            for rule, bound in each.metadata.get("rules", {}).items():
                holds, words = _RULES[rule]
                if value is not None and not holds(value, bound):
                    raise WrongSetting(each.name, f"must be {words} {bound}")
        self.check()

    def check(self) -> None:
        """Check rules over several settings; an InvalidInput names their variables."""


S = TypeVar("S", bound=Settings)


def load(kind: type[S], **arguments: Any) -> S:
    given = {name: value for name, value in arguments.items() if value is not None}
    environ = {name.upper(): value for name, value in os.environ.items()}
    found = {n: environ[variable(n)] for n in settable(kind) if variable(n) in environ} | given
    try:
        types = _types(kind)
        return kind(**{name: _parsed(types, name, value) for name, value in found.items()})
    except WrongSetting as error:
        name = error.name
        where = f"--{name.replace('_', '-')}" if name in given else variable(name)
        raise InvalidInput(f"{where}: {error.message}") from None


def settable(kind: type[Settings]) -> list[str]:
    return [each.name for each in fields(kind) if not each.metadata.get("fixed")]


def variable(name: str) -> str:
    return PREFIX + name.upper()


def variables(*kinds: type[Settings]) -> set[str]:
    return {variable(name) for kind in kinds for name in settable(kind)}


def _parsed(types: Mapping[str, Any], name: str, value: Any) -> Any:
    """Return a value of the setting's type; texts are parsed, as a variable's always must be."""
    if name not in types:
        raise WrongSetting(name, "there is no such setting")
    wanted = types[name]
    if get_origin(wanted) is Literal:
        if value not in get_args(wanted):
            raise WrongSetting(name, f"must be one of {', '.join(get_args(wanted))}")
        return value
    try:
        if wanted is bool:
            return _WORDS[str(value).strip().lower()]
        return value if isinstance(value, wanted) else wanted(str(value))
    except (KeyError, ValueError):
        words = {bool: "true or false", int: "a whole number", float: "a number"}
        raise WrongSetting(name, f"must be {words[wanted]}") from None


def _types(kind: type[Settings]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: _without_none(hints[each.name]) for each in fields(kind)}


def _without_none(hint: Any) -> Any:
    if get_origin(hint) is Literal:
        return hint
    return next((part for part in get_args(hint) if part is not type(None)), hint)


_TESTS = ("CALMSTREAM_TEST_", "CALMSTREAM_REQUIRE_")


def refuse_unknown(environ: Mapping[str, str], known: Iterable[str]) -> None:
    """Check that every ``CALMSTREAM_*`` variable is known, except those that set up tests.

    An InvalidInput contains the name, never the value.
    """
    allowed = set(known)
    for name in sorted(environ):
        upper = name.upper()
        if upper.startswith(PREFIX) and upper not in allowed and not upper.startswith(_TESTS):
            meant = get_close_matches(upper, allowed, 1)
            hint = f"; did you mean {meant[0]}?" if meant else ""
            raise InvalidInput(f"unknown environment variable {name}{hint}")
