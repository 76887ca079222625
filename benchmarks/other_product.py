"""Lets a script of this checkout try the product of another one: ``PYTHONPATH=CHECKOUT``.

The product is the one that Python finds; the helpers in ``tests`` are this checkout's.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def use_own_tests() -> None:
    """Make ``tests`` and ``tests/integration`` of this checkout importable, and no other one's."""
    # Behind whatever PYTHONPATH names.
    sys.path += [str(ROOT), str(ROOT / "tests" / "integration")]
    importlib.import_module("tests").__path__ = [str(ROOT / "tests")]


def product() -> Path:
    """The checkout that the product comes from."""
    found = importlib.import_module("calmstream").__file__
    assert found is not None
    return Path(found).parents[1]
