"""Commands that run to their end, with their output as text."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def ran(
    *words: object, code: int | None = 0, seconds: float = 60, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command, whose exit code must be this one; None takes any."""
    done = subprocess.run(
        list(map(str, words)),
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        **options,
    )
    shown = f"{done.args}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"
    assert code is None or done.returncode == code, shown
    return done


def python(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return ran(sys.executable, *words, **options)
