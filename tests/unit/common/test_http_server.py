"""What both HTTP servers share."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

import pytest

from calmstream.common.errors import FatalError
from calmstream.common.http_server import defect, listen, send_at_once


def test_an_address_in_use_is_one_clear_line() -> None:
    with closing(listen("127.0.0.1", 0, "tests")) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(FatalError, match=rf"cannot serve tests on 127\.0\.0\.1:{port}: "):
            listen("127.0.0.1", port, "tests")


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_port_that_does_not_exist_is_refused(port: int) -> None:
    with pytest.raises(FatalError, match=f"cannot serve tests on 127.0.0.1:{port}: "):
        listen("127.0.0.1", port, "tests")


def test_accepted_connections_send_at_once() -> None:
    async def accepted() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        class Connection(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                send_at_once(transport)
                own = transport.get_extra_info("socket")
                found.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

        bound = listen("127.0.0.1", 0, "tests")
        server = await asyncio.get_running_loop().create_server(Connection, sock=bound)
        with closing(socket.create_connection(bound.getsockname(), timeout=30)):
            option = await asyncio.wait_for(found, 30)
        server.close()
        return option

    assert asyncio.run(accepted()) == 1


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
