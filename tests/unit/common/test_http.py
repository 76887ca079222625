from __future__ import annotations

from contextlib import closing

import pytest

from calmstream.common.errors import FatalError
from calmstream.common.http.server import defect, listen


def test_an_address_in_use_is_one_clear_line() -> None:
    with closing(listen("127.0.0.1", 0, "tests")) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(FatalError, match=rf"cannot serve tests on 127\.0\.0\.1:{port}: "):
            listen("127.0.0.1", port, "tests")


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_port_that_does_not_exist_is_refused(port: int) -> None:
    with pytest.raises(FatalError, match=f"cannot serve tests on 127.0.0.1:{port}: "):
        listen("127.0.0.1", port, "tests")


def test_a_defect_is_named_by_kind_and_place() -> None:
    def broken() -> None:
        raise ValueError("a value of a request")

    with pytest.raises(ValueError, match="a value") as caught:
        broken()
    found = defect(caught.value)
    assert found["kind"] == "ValueError"
    assert found["place"].startswith("broken:")
    assert "request" not in str(found)
    assert defect(None) == {"kind": "NoneType", "place": ""}
