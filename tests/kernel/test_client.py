"""The client of a served kernel, over real sockets: the table, refusals, deadlines, and streams
that outlive their servers."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert, to_builtins

from tests.kernel.examples import every_operation
from tests.kernel.kernels import ANN
from tests.kernel.serving import a_server, a_token
from tests.kernel.test_http import a_site, every_stream, in_thread
from tests.kernel.test_table import disagreements
from tests.kernel.web import free_port
from tests.patience import PATIENCE_S
from tools import kernel_calls  # pyright: ignore[reportAttributeAccessIssue]
from vegakit.control import (
    KERNEL_OPERATIONS,
    CreateProcessRequest,
    EmptyRequest,
    KernelClient,
    KernelUnavailableError,
    ListProcessesRequest,
    NextInstructionRequest,
    NextRunnableRequest,
    OperationError,
    PidRequest,
    RefusalCode,
    ReplyShape,
    WatchRequest,
)
from vegakit.errors import UserError
from vegakit.kernel import TenantKernel
from vegakit.server import TokenRole


def test_client_and_table_agree() -> None:
    """Type by type, as the kernel itself does; and the module is what the table makes of it."""
    assert disagreements(KernelClient) == []
    written = kernel_calls.TARGET.read_text(encoding="utf-8")
    assert written == kernel_calls.source(), "type: python tools/kernel_calls.py --write"


def test_the_client_needs_no_server_and_no_kernel() -> None:
    code = (
        "import sys; from vegakit.control import KernelClient; KernelClient('http://a', 'b'); "
        "print([n for n in sys.modules if n.startswith(('uvicorn', 'vegakit.kernel', "
        "'vegakit.server', 'vegakit.store', 'pydantic', 'grpc'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Typed:
    """Lets the walk through all operations go through the typed client."""

    def __init__(self, client: KernelClient, loop: asyncio.AbstractEventLoop) -> None:
        self._client, self._loop = client, loop

    def call(self, name: str, /, **fields: object) -> tuple[int, Any]:
        request = convert(fields, KERNEL_OPERATIONS[name].request)
        called = getattr(self._client, name)(request)
        reply = asyncio.run_coroutine_threadsafe(called, self._loop).result(PATIENCE_S)
        assert isinstance(reply, KERNEL_OPERATIONS[name].reply)
        return 200, to_builtins(reply)

    def events(
        self, most: int, after: str = "", operation: str = "watch_events", **fields: object
    ) -> list[tuple[int, Any]]:
        given = {**fields, "after": int(after)} if after else fields
        request = convert(given, KERNEL_OPERATIONS[operation].request)
        found = asyncio.run_coroutine_threadsafe(
            taken(getattr(self._client, operation)(request), most), self._loop
        ).result(PATIENCE_S)
        return [(item.number, to_builtins(item)) for item in found]


async def taken(stream: AsyncGenerator[Any], most: int) -> list[Any]:
    """Return up to so many items."""
    found: list[Any] = []
    async with aclosing(stream) as items:
        async for item in items:
            found.append(item)
            if len(found) == most:
                break
    return found


async def test_every_operation_works_through_the_client() -> None:
    async with (
        a_site() as site,
        KernelClient(*(await address(site))) as client,
        KernelClient(*(await address(site, TokenRole.ADMIN))) as administers,
    ):
        loop = asyncio.get_running_loop()
        walk: Any = Typed(client, loop)
        replies = await in_thread(every_operation, walk.call, Typed(administers, loop).call)
        await in_thread(every_stream, walk)
        events = await in_thread(walk.events, 1_000)
    streams = {name for name, row in KERNEL_OPERATIONS.items() if row.shape is ReplyShape.STREAM}
    assert {*replies} | streams == {*KERNEL_OPERATIONS}
    numbers = [number for number, _ in events]
    assert numbers == [*range(1, len(numbers) + 1)]


async def address(site: Any, role: TokenRole = TokenRole.OPERATOR) -> tuple[str, str]:
    return f"http://127.0.0.1:{site.port}", (await site.client(role)).token


async def test_a_refusal_is_the_kernels_own() -> None:
    async with a_site() as site, KernelClient(*(await address(site))) as client:
        near = TenantKernel(site.kernel, ANN)
        told: list[tuple[RefusalCode, str]] = []
        for kernel in (near, client):
            with pytest.raises(OperationError) as refused:
                await kernel.get_process(PidRequest("nobody"))
            told.append((refused.value.code, str(refused.value)))
        assert told[0] == told[1]
        assert told[0][0] is RefusalCode.NOT_FOUND
        stranger = KernelClient(f"http://127.0.0.1:{site.port}", "vega_0_0")
        with pytest.raises(OperationError) as refused:
            await stranger.get_process_counts(EmptyRequest())
        assert refused.value.code is RefusalCode.UNAUTHENTICATED
        with pytest.raises(OperationError):
            await taken(stranger.watch_events(WatchRequest(follow=True)), 1)


# What a server does that is none of ours: it counts what it is sent.


class Heard(list[bytes]):
    """Requests as they came; `url` is where to."""

    url = ""

    def header(self, at: int, name: str) -> str:
        found = re.search(rf"(?im)^{name}: *(.*?)\r$", self[at].decode())
        return found[1] if found else ""


@asynccontextmanager
async def odd_server(
    answer: Callable[[int], Awaitable[bytes]],
) -> AsyncGenerator[Heard]:
    """Answer the request of each number so; nothing closes the connection."""
    heard = Heard()

    async def on_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = re.search(rb"(?i)content-length: (\d+)", head)
            head += await reader.readexactly(int(size[1]) if size else 0)
            heard.append(head)
            writer.write(await answer(len(heard)))
            await writer.drain()
        finally:
            writer.close()

    async with await asyncio.start_server(on_client, "127.0.0.1", 0) as server:
        heard.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield heard


COUNTS = b'{"by_state":{},"total":0}'
REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(COUNTS), COUNTS)


async def test_a_call_is_repeated_only_where_that_does_no_harm() -> None:
    """The first connection is closed with no answer."""

    async def second_time_well(number: int) -> bytes:
        return b"" if number == 1 else REPLY

    async with odd_server(second_time_well) as heard:
        client = KernelClient(heard.url, "t")
        assert (await client.get_process_counts(EmptyRequest())).total == 0
        assert len(heard) == 2
    async with odd_server(second_time_well) as heard:
        with pytest.raises(KernelUnavailableError) as broken:
            await KernelClient(heard.url, "t").get_next_runnable(NextRunnableRequest("w"))
        assert broken.value.may_be_done
        assert len(heard) == 1


async def test_a_deadline_is_passed_on_and_holds_here_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vegakit.control.kernel_client._MARGIN_S", 0.1)

    async def never(_: int) -> bytes:
        await asyncio.Event().wait()
        return b""

    async with odd_server(never) as heard:
        client = KernelClient(heard.url, "t", timeout_ms=200)
        with pytest.raises(KernelUnavailableError, match="deadline") as late:
            await client.list_processes(ListProcessesRequest())
        assert late.value.may_be_done
        with pytest.raises(KernelUnavailableError, match="deadline"):
            await client.get_next_instruction(NextInstructionRequest("p", wait_ms=300))
        assert [heard.header(n, "vega-timeout-ms") for n in (0, 1)] == ["200", "500"]
        assert heard.header(0, "authorization") == "Bearer t"


async def test_what_is_no_kernel_is_told() -> None:
    async def page(_: int) -> bytes:
        return b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnone"

    async with odd_server(page) as heard:
        with pytest.raises(KernelUnavailableError, match="status 404, and not from a kernel"):
            await KernelClient(heard.url, "t").get_process_counts(EmptyRequest())
    nobody = KernelClient(heard.url, "t")
    with pytest.raises(KernelUnavailableError, match="no connection") as gone:
        await nobody.submit(CreateProcessRequest())
    assert not gone.value.may_be_done
    with pytest.raises(KernelUnavailableError, match="no connection"):
        await taken(nobody.watch_events(WatchRequest(follow=True)), 1)
    for url, token in (("vega.example.com", "t"), ("http://a", "a\nb")):
        with pytest.raises(UserError):
            KernelClient(url, token)


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        ("200 OK", b'{"processes": "\xff"}', "none that this version knows"),
        ("200 OK", b'{"processes": ' + b"[" * 100_000, "none that this version knows"),
        ("500 No", b'{"error": {"code": "\xff"}}', "not from a kernel"),
    ],
    ids=["no UTF-8", "deep", "an error without UTF-8"],
)
async def test_a_reply_that_is_no_json_is_told(status: str, body: bytes, told: str) -> None:
    async def page(_: int) -> bytes:
        return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body

    async with odd_server(page) as heard:
        with pytest.raises(KernelUnavailableError, match=told):
            await KernelClient(heard.url, "t").get_process_counts(EmptyRequest())


async def test_a_stream_outlives_its_servers(tmp_path: Path) -> None:
    """One server is drained and one is killed: nothing is missed or told twice."""
    port, token = free_port(), await in_thread(a_token, tmp_path)
    client = KernelClient(f"http://127.0.0.1:{port}", token)
    reading: asyncio.Task[list[Any]] | None = None
    for number, end in enumerate((signal.SIGTERM, signal.SIGKILL, None)):
        server = a_server(tmp_path, port=port)
        process = (await in_thread(server.__enter__)).process
        try:
            reading = reading or asyncio.create_task(
                taken(client.watch_events(WatchRequest(follow=True, kinds=())), 18)
            )
            for n in range(3):
                await client.submit(CreateProcessRequest(pid=f"{number}-{n}"))
            if end is None:
                found = await asyncio.wait_for(reading, PATIENCE_S)
                assert [event.number for event in found] == [*range(1, 19)]
            else:
                process.send_signal(end)
                await in_thread(process.wait)
        finally:
            await in_thread(server.__exit__, None, None, None)


async def test_a_stream_gives_up_in_the_end() -> None:
    async with a_site() as site:
        client = KernelClient(*(await address(site)), reconnect_ms=300)
        await client.submit(CreateProcessRequest(pid="p"))
        events = client.watch_events(WatchRequest(follow=True))
        assert (await anext(events)).number == 1
        assert (await anext(events)).number == 2
        site.kernel.drain()
    with pytest.raises(KernelUnavailableError, match="no connection"):
        await anext(events)
