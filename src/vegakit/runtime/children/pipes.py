"""The pipes between the runtime and a child: its stdin, stdout and stderr."""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

__all__ = ["Ends", "Input", "Output", "open_ends", "read_from", "write_to"]


class Ends(NamedTuple):
    """Ours as files; theirs as descriptors in the order of their numbers."""

    stdin: BinaryIO | None
    stdout: BinaryIO
    stderr: BinaryIO
    theirs: tuple[int, int, int]


@contextmanager
def open_ends(stdin: int) -> Generator[Ends]:
    """Closes theirs; ours too if something fails."""
    with ExitStack() as theirs, ExitStack() as ours:
        feed = None
        if stdin == PIPE:
            reading, feed = _pipe(reader=theirs, writer=ours)
            stdin = reading.fileno()
        elif stdin == DEVNULL:
            stdin = theirs.enter_context(Path(os.devnull).open("rb", buffering=0)).fileno()
        stdout, their_stdout = _pipe(reader=ours, writer=theirs)
        stderr, their_stderr = _pipe(reader=ours, writer=theirs)
        yield Ends(feed, stdout, stderr, (stdin, their_stdout.fileno(), their_stderr.fileno()))
        ours.pop_all()


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[BinaryIO, BinaryIO]:
    reading, writing = os.pipe()
    return (
        reader.enter_context(os.fdopen(reading, "rb", buffering=0)),
        writer.enter_context(os.fdopen(writing, "wb", buffering=0)),
    )


class Output(NamedTuple):
    stream: asyncio.StreamReader
    finish: Callable[[object], None]
    """To be called when all writers are dead: unread output then holds no descriptor."""


class Input(NamedTuple):
    stream: asyncio.StreamWriter
    finish: Callable[[object], None]


async def read_from(pipe: BinaryIO) -> Output:
    stream = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), pipe
    )

    def finish(_: object) -> None:
        if transport.is_closing():
            return
        transport.pause_reading()
        with suppress(BlockingIOError):  # a writer outside the tree was given the pipe
            while left := os.read(pipe.fileno(), 1 << 16):
                stream.feed_data(left)
        transport.close()

    return Output(stream, finish)


async def write_to(pipe: BinaryIO) -> Input:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
    )

    def finish(_: object) -> None:
        if not transport.is_closing():
            transport.abort()

    return Input(asyncio.StreamWriter(transport, protocol, None, loop), finish)
