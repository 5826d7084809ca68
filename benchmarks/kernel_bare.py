"""A server that does what the kernel's does to its database, and nothing else.

A bare `grpc.aio` handler takes a connection of a pool and runs the recorded statements of the call,
in their transactions; then it answers as many bytes as the kernel did. A stream sends the events
that it has read, each as a message. Nothing is decoded, decided or checked.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import msgspec
import psycopg
from msgspec import Struct

from benchmarks.kernel_life import ENVELOPE_MARK, MARK, Recorded, Statement

__all__ = ["Asked", "run_bare"]

_POOL = 8
_EVENTS = "SELECT number,"
POLL_S = 0.25


class Asked(Struct, array_like=True):
    """What a client asks: which call of whose recorded life, for which process; a stream from where
    on, and whether it goes on for ever. `body` is what the kernel would be sent."""

    tenant: str
    place: int
    pid: str = ""
    after: int = 0
    follow: bool = False
    body: bytes = b""


class _Bare(grpc.GenericRpcHandler):
    def __init__(self, pool: "_Pool", lives: dict[str, list[Recorded]]) -> None:
        self._pool, self._lives = pool, lives
        self._decode = msgspec.msgpack.Decoder(Asked).decode
        self._changed = {tenant: asyncio.Event() for tenant in lives}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        calls: Any = grpc.unary_unary_rpc_method_handler
        streams: Any = grpc.unary_stream_rpc_method_handler
        match handler_call_details.method:
            case "/bare/Call":
                return calls(self._call)
            case "/bare/Watch":
                return streams(self._watch)
            case _:
                return None

    async def _call(self, body: bytes, _: object) -> bytes:
        asked = self._decode(body)
        recorded = self._lives[asked.tenant][asked.place]
        async with self._pool.taken() as connection:
            for text, values in recorded.statements:
                cursor = await connection.execute(text.encode(), named(values, asked.pid))
                if cursor.description:
                    await cursor.fetchall()
        changed = self._changed[asked.tenant]
        changed.set()
        changed.clear()
        return bytes(recorded.reply_bytes)

    async def _watch(self, body: bytes, _: object) -> AsyncGenerator[bytes]:
        """Read on as the kernel does: after every change here, and four times a second."""
        asked = self._decode(body)
        statements = self._lives[asked.tenant][asked.place].statements
        while True:
            async with self._pool.taken() as connection:
                for row in await self._rows(connection, statements, asked):
                    asked.after = row[0]
                    yield bytes(row[2])
            if not asked.follow:
                yield asked.after.to_bytes(8, "big")
                return
            # What the stream is let in by is asked for once.
            statements = [one for one in statements if one.text.startswith(_EVENTS)]
            waiting = self._changed[asked.tenant].wait()
            try:
                await asyncio.wait_for(waiting, POLL_S)
            except TimeoutError:
                continue

    async def _rows(
        self, connection: Any, statements: Sequence[Statement], asked: Asked
    ) -> list[tuple[Any, ...]]:
        found, after = list[Any](), asked.after
        for text, values in statements:
            is_page = text.startswith(_EVENTS)
            sent: list[Any] = [values[0], after, *values[2:]] if is_page else values
            cursor = await connection.execute(text.encode(), sent)
            rows: list[Any] = await cursor.fetchall() if cursor.description else []
            if is_page and rows:
                found += rows
                after = rows[-1][0]
        return found


def named(values: Sequence[Any], pid: str) -> list[Any]:
    """Put a process in the place of the marks, and its envelope."""
    return [_named(value, pid) for value in values]


def _named(value: Any, pid: str) -> Any:
    envelope = f"e{pid[1:]}"
    if isinstance(value, str):
        return value.replace(MARK, pid).replace(ENVELOPE_MARK, envelope)
    if isinstance(value, bytes):
        return value.replace(MARK.encode(), pid.encode()).replace(
            ENVELOPE_MARK.encode(), envelope.encode()
        )
    return value


class _Pool:
    """So many connections, each for one caller at a time."""

    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn, self._schema = dsn, schema
        self._free: asyncio.Queue[Any] = asyncio.Queue()

    async def open(self) -> None:
        for _ in range(_POOL):
            connection = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True)
            await connection.execute(f"SET search_path TO {self._schema}".encode())
            self._free.put_nowait(connection)

    @asynccontextmanager
    async def taken(self) -> AsyncGenerator[Any]:
        connection = await self._free.get()
        try:
            yield connection
        finally:
            self._free.put_nowait(connection)


async def _serve(pipe: Any, dsn: str, schema: str, lives: dict[str, list[Recorded]]) -> None:
    pool = _Pool(dsn, schema)
    await pool.open()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Bare(pool, lives),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    pipe.send(port)
    await asyncio.to_thread(pipe.recv)
    await server.stop(0)


def run_bare(pipe: Any, dsn: str, schema: str, lives: dict[str, list[Recorded]]) -> None:
    """Say the port, and serve until anything is said back."""
    asyncio.run(_serve(pipe, dsn, schema, lives))
