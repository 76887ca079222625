"""What commands print for programs and scripts; `terminal` prints for people."""

from __future__ import annotations

import sys
from typing import Any

import orjson

from calmstream.common.text import visible


def say(*lines: object, error: bool = False) -> None:
    """Print lines; control characters in labels and names are made visible."""
    for line in lines:
        print(visible(str(line)), file=sys.stderr if error else sys.stdout, flush=True)


def say_json(*documents: Any, option: int = 0) -> None:
    """Print JSON, one document a line."""
    for document in documents:
        sys.stdout.buffer.write(orjson.dumps(document, option=option) + b"\n")
    sys.stdout.flush()
