"""Check what settings of a worker may not be together."""

from __future__ import annotations

import pytest

from calmstream.common.errors import InvalidInput
from calmstream.common.settings import load
from calmstream.consumer.runtime.config import TallyConfig


def test_a_session_is_longer_than_two_polls() -> None:
    message = (
        "^CALMSTREAM_SESSION_SECONDS must be at least twice the time of a poll, 0.6 s, not 1 s"
    )
    with pytest.raises(InvalidInput, match=message):
        load(TallyConfig, session_seconds=1.0, poll_seconds=0.6)
