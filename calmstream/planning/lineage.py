"""Options of ``calmstream plan`` about the lineage of a plan.

Plans of one lineage share one privacy allowance of each device: the privacy loss under one of them
counts under all (docs/concepts.md).
"""

from __future__ import annotations

import argparse
import secrets
from dataclasses import dataclass

from calmstream import arguments
from calmstream.common.errors import InvalidInput
from calmstream.estimators.plan import Plan
from calmstream.producer.signed.envelope import signed_lineage


@dataclass(frozen=True, slots=True)
class Lineage:
    """The fields of a plan about its lineage.

    Attributes:
        lineage: the lineage, 32 hexadecimal digits.
        lineage_name: name that the operator gave to the lineage; empty if the lineage
            is a random number.
        continues: other lineages whose privacy loss counts under this one.
    """

    lineage: str
    lineage_name: str
    continues: tuple[str, ...]


def add_options(about: argparse._ActionsContainer) -> None:
    about.add_argument(
        "--lineage",
        metavar="LINEAGE",
        help="join this lineage of earlier plans: 32 hexadecimal digits or, for a plan that will "
        "be signed, NAME@FILE.pub, its name and the public root key",
    )
    about.add_argument(
        "--continues",
        type=arguments.names,
        default=(),
        metavar="LINEAGE,..",
        help="other lineages; the privacy loss of a device under them counts under the lineage of "
        "this plan too",
    )


def chosen(args: argparse.Namespace, pilot: Plan | None) -> Lineage:
    """Return the lineage that the options state, or a random one."""
    name, lineage = "", args.lineage
    if lineage is not None and "@" in lineage:
        name, _, root = lineage.rpartition("@")
        if not (name and root):
            raise InvalidInput(f"--lineage: expected NAME@FILE.pub, got {lineage!r}")
        lineage = signed_lineage(arguments.public_key(root), name)
    if pilot is not None:
        if lineage not in (None, pilot.lineage):
            raise InvalidInput("--lineage: a plan after a pilot has the pilot's lineage")
        lineage, name = pilot.lineage, pilot.lineage_name
    return Lineage(lineage or secrets.token_hex(16), name, tuple(args.continues))
