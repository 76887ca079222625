"""Names of windows in questions."""

from __future__ import annotations

import pytest

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.ranges import Windows, read_windows
from tests.support.publisher import published_plan

START = 1_767_225_600  # 2026-01-01T00:00:00Z
PLAN = published_plan(start=START, window=3600, windows=100)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("total", Windows(0, 90, total=True)),
        ("latest", Windows(90, 90)),
        ("current", Windows(90, 90, current=True)),
        ("last:7", Windows(84, 90)),
        ("last:2d", Windows(43, 90)),
        ("0", Windows(0, 0)),
        (" 7 ", Windows(7, 7)),
        ("3..9", Windows(3, 9)),
        ("0..90", Windows(0, 90)),
        ("2026-01-01..2026-01-01", Windows(0, 23)),
        ("2026-01-02..2026-01-03", Windows(24, 71)),
        ("2025-12-01..2026-01-01T00:00", Windows(0, 0)),
        ("2026-01-01T00:30..2026-01-01T02:00", Windows(1, 2)),
        ("2026-01-01T02:00+01:00..2026-01-01T02:59+01:00", Windows(1, 1)),
        ("2026-01-04..2027-01-01", Windows(72, 90)),
        ("2026-01-02", Windows(24, 47)),
        ("2026-01-02 Europe/Berlin", Windows(23, 46)),
        ("2026-01-02..2026-01-02 UTC", Windows(24, 47)),
        ("last 2 days", Windows(43, 90)),
        ("last hour", Windows(90, 90)),
        ("last 9 weeks", Windows(0, 90)),
        ("last 7 windows", Windows(84, 90)),
    ],
)
def test_windows_are_read(text: str, found: Windows) -> None:
    assert read_windows(text, PLAN, newest=90) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected current, total, latest, a number"),
        ("-1", "expected current, total, latest, a number"),
        ("last 7 moons", "expected current, total, latest, a number"),
        ("2026-01-02 Mars/Berlin", "expected current, total, latest, a number"),
        ("2026-01-02 ../../etc/passwd", "expected current, total, latest, a number"),
        ("9..3", "range; windows 0 to 90 are final and begin"),
        ("91", "the newest final window is 90"),
        ("3..91", "the newest final window is 90"),
        ("1..x", "such as 2026-01-01..2026-01-31"),
        ("2026-01-01..9999-12-31", "such as 2026-01-01..2026-01-31"),
        ("2026-13-01..2026-01-02", "such as 2026-01-01..2026-01-31"),
        ("2027-01-01..2027-02-01", "range; windows 0 to 90 are final and begin"),
        ("2025-01-01..2025-02-01", "range; windows 0 to 90 are final and begin"),
        ("2026-01-01T00:10..2026-01-01T00:20", "range; windows 0 to 90 are final and begin"),
    ],
)
def test_other_texts_are_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        read_windows(text, PLAN, newest=90)


def test_windows_overlap_where_one_is_in_both() -> None:
    assert Windows(0, 3).overlaps(Windows(3, 4))
    assert not Windows(0, 3).overlaps(Windows(4, 4))
    assert not Windows(4, 4).overlaps(Windows(0, 3))
    assert [str(w) for w in (Windows(2, 2), Windows(2, 4), Windows(0, 4, total=True))] == [
        "window 2",
        "windows 2 to 4",
        "all windows through 4",
    ]
