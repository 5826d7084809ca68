"""The parsers that take bytes from outside, each as a function of one input for `campaigns.fuzz`.

A parser may refuse an input by its `allowed` errors. Any other exception is a finding. The first
byte of an input chooses a variant where a parser has several: the wire format, the size of the
pieces in which the bytes arrive, the charset.
"""

import asyncio
import contextlib
import gzip
import os
import struct
import tempfile
import zlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

__all__ = ["FINDINGS", "TARGETS", "FuzzTarget", "OpenTarget", "seeds_of"]

ROOT = Path(__file__).parents[1]
FINDINGS = ROOT / "tests" / "data" / "fuzz"
"""Inputs that were findings, a folder for each target. They are seeds and regression tests."""
Parser: TypeAlias = Callable[[bytes], object]


class OpenTarget(NamedTuple):
    """A parser that is loaded, and the errors by which it refuses an input."""

    parse: Parser
    allowed: tuple[type[Exception], ...]


class FuzzTarget(NamedTuple):
    """`open` imports the parser, so that `atheris` can instrument it."""

    name: str
    seeds: Callable[[], Iterator[bytes]]
    open: Callable[[], OpenTarget]
    max_bytes: int = 1 << 16


def seeds_of(target: FuzzTarget) -> list[bytes]:
    """Return the corpus of a target: its samples and the inputs that were findings."""
    kept = sorted((FINDINGS / target.name).glob("*"))
    return [*target.seeds(), *(path.read_bytes() for path in kept)]


def _files(*patterns: str) -> Iterator[bytes]:
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            yield path.read_bytes()


def _pieces(data: bytes) -> Iterator[bytes]:
    """Yield the bytes after the first in pieces. The first one gives their size."""
    size = (1, 7, 1000, 1 << 20)[data[0] & 3] if data else 1
    for at in range(1, len(data), size):
        yield data[at : at + size]


def _finished(work: Coroutine[Any, Any, object]) -> object:
    """Run a coroutine that waits for nothing but what is there."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("the parser waits, and nothing more comes")


# HTTP answers of providers.


def _http_seeds() -> Iterator[bytes]:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    chunked = b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n3;a=b\r\n[1]\r\n0\r\nx: y\r\n\r\n"
    yield b"\3" + head + b"content-length: 2\r\n\r\n{}"
    yield b"\1" + head + chunked
    yield b"\2HTTP/1.1 100 Continue\r\n\r\n" + head + b"content-length: 0\r\n\r\n"
    yield b"\2HTTP/1.0 429 Slow\r\nretry-after: 3\r\nconnection: close\r\n\r\nno"
    for name, body in (("gzip", gzip.compress(b"a" * 999)), ("deflate", zlib.compress(b"b" * 99))):
        length = f"content-encoding: {name}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        yield b"\3" + head + length + body


def _open_http() -> OpenTarget:
    from vegakit.providers import BrokenError, Deadlines, HttpAnswer

    class Source:
        is_writing = False

        async def wait(self, goal: str, within_s: float) -> None:
            raise BrokenError(self.answer.stage(), f"no {goal} within {within_s} s")

        def stop_reading(self) -> None: ...

        def go_on_reading(self) -> None: ...

        answer: HttpAnswer

    async def read_pieces(answer: HttpAnswer) -> None:
        async for _ in answer.pieces(ends_itself=True):
            pass

    def parse(data: bytes) -> None:
        source = Source()
        answer = source.answer = HttpAnswer(source, Deadlines())
        pieces = _pieces(data)
        while not (answer.fault or answer.whole) and (piece := next(pieces, None)):
            answer.feed(piece)
        if answer.headed:
            _finished(answer.read() if data[0] & 4 else read_pieces(answer))

    return OpenTarget(parse, (BrokenError,))


# Answers of models: events, frames and JSON of each wire format.


def _wires() -> list[tuple[Any, Any]]:
    from vegakit import wires

    names = ("ANTHROPIC", "CHAT", "RESPONSES", "GEMINI", "BEDROCK", "OLLAMA")
    return [(getattr(wires, name), getattr(wires, f"{name}_SERVER")) for name in names]


def _wire_seeds() -> Iterator[bytes]:
    from tests.wires.varied import SERVED, ServedAsk

    from vegakit.records import to_json

    for number, (_, server) in enumerate(_wires()):
        for reply in SERVED.values():
            opening, pieces, closing = server.stream(reply, ServedAsk())
            for size in (1, 3):
                yield bytes([number << 2 | size]) + b"".join([opening, *pieces, closing])
            yield bytes([number << 2 | 32]) + to_json(server.whole(reply, ServedAsk()))


def _open_wires() -> OpenTarget:
    from vegakit.errors import WorldError
    from vegakit.wires import UNREADABLE

    formats = [wire for wire, _ in _wires()]

    def parse(data: bytes) -> None:
        chosen = data[0] if data else 0
        wire = formats[(chosen >> 2) % 8 % len(formats)]
        wire.failure(500, data[1:])
        if chosen & 32:
            wire.decode(data[1:], "answer" if chosen & 64 else None)
            return
        reader = wire.reader("answer" if chosen & 64 else None)
        for piece in _pieces(data):
            reader.feed(piece)
        reader.close()
        if reader.ended:
            reader.reply()

    return OpenTarget(parse, (*UNREADABLE, WorldError))


# Pages of the web, settings of a repository.


_KINDS = (
    *("text/html", "text/plain", "application/json", "text/html; charset=utf-16"),
    *("text/html; charset=gb18030", "text/html; charset=iso-2022-jp", "text/html; charset=big5"),
    *("text/html; charset=shift_jis", "text/html; charset=euc-kr", "text/html; charset=punycode"),
)


def _page_seeds() -> Iterator[bytes]:
    from tests.sage.test_pages import MARKS, PAGES

    for page in (*PAGES, *MARKS):
        yield b"\0" + page.encode()
    for number in range(1, len(_KINDS)):
        yield bytes([number]) + b"<p>\x1b$B\xa4\xa2\xff\xfe&eacute;</p>"


def _open_pages() -> OpenTarget:
    from vegakit.sage.tools.pages import read_page

    def parse(data: bytes) -> None:
        read_page(data[1:], _KINDS[data[0] % len(_KINDS)] if data else "")

    return OpenTarget(parse, ())


def _git_seeds() -> Iterator[bytes]:
    yield b"core.bare\nfalse\0remote.origin.url\nhttps://example.com/a.git\0"
    yield b"remote.origin.url\next::sh -c x\0branch.a.b.merge\nrefs/heads/a\0alias.x\n!y\0"


def _open_git() -> OpenTarget:
    from vegakit.sage.git_settings import find_refused_setting

    def parse(data: bytes) -> None:
        find_refused_setting(data.decode(errors="surrogateescape").split("\0"))

    return OpenTarget(parse, ())


# Files: nodes, YAML, bytecode, programs.


def _open_nodes() -> OpenTarget:
    from vegakit.errors import UserError
    from vegakit.vesper import parse_node

    return OpenTarget(lambda data: parse_node(data, "a.vsp"), (UserError,))


def _yaml_seeds() -> Iterator[bytes]:
    for content in _files("tests/data/tools.yaml", "examples/pipelines/*.yaml"):
        yield b"\0" + content
        yield b"\1" + content
    for content in _files("examples/workers/pipeline.json"):
        yield b"\2" + content


def _open_yaml() -> OpenTarget:
    from vegakit.errors import UserError
    from vegakit.sdk import read_pipeline
    from vegakit.tools import read_yaml

    folder = Path(tempfile.mkdtemp(prefix="vega-fuzz-"))

    def parse(data: bytes) -> None:
        chosen = data[0] % 3 if data else 0
        if chosen == 0:
            read_yaml(data[1:])
            return
        path = folder / ("a.yaml" if chosen == 1 else "a.json")
        path.write_bytes(data[1:])
        read_pipeline(path)

    return OpenTarget(parse, (UserError,))


_VGB_HEAD = struct.Struct(">4sHI32s")


def _bytecode_seeds() -> Iterator[bytes]:
    """Yield a whole file, and bodies that get a right head: behind a digest nobody would come."""
    for content in _files("tests/data/formats/*.vgb"):
        yield b"\0" + content
        yield b"\1" + content[_VGB_HEAD.size :]


def _open_bytecode() -> OpenTarget:
    from vegakit.errors import InvalidRecordError
    from vegakit.lang import from_vgb

    def parse(data: bytes) -> None:
        body = data[1:]
        if data[:1] != b"\0":
            digest = blake2b(body, digest_size=32).digest()
            body = _VGB_HEAD.pack(b"VEGA", 1, len(body), digest) + body
        from_vgb(body)

    return OpenTarget(parse, (InvalidRecordError,))


def _vega_seeds() -> Iterator[bytes]:
    from tests.lang.bombs import BOMBS

    yield from _files("examples/*.vega")
    for make in BOMBS.values():
        yield make()[:400].encode(errors="replace")


def _open_programs(file: str) -> OpenTarget:
    from vegakit.lang import as_json, check_program, compile_program, format_source, render, to_vgb

    def parse(data: bytes) -> None:
        text = data.decode(errors="replace")
        checked, diagnostics = check_program(text, file, lambda _: None)
        render(diagnostics, {file: text})
        as_json(diagnostics, {file: text})
        if checked is not None and not diagnostics:
            to_vgb(compile_program(checked))
        if file.endswith(".vega"):
            format_source(text)

    return OpenTarget(parse, ())


# Messages of peers: editors and MCP servers in JSON-RPC, clients of the kernel in protobuf.


def _rpc_seeds() -> Iterator[bytes]:
    for choice in (b"\0", b"\x81"):
        yield choice + b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"b":[1,2.5,null]}}\n'
        yield choice + b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}\n'
        yield choice + b'{"jsonrpc":"2.0","id":"x","result":{}}\n[]\n{}\nno JSON\n\n'
        yield choice + b'{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"m","data":{}}}\n'


def _open_rpc() -> OpenTarget:
    import anyio

    from vegakit.server.json_rpc import RpcPeer
    from vegakit.tools.mcp.transport import BoundedReader, LineReader

    class Output:
        def __init__(self, pieces: Iterator[bytes]) -> None:
            self._pieces = pieces

        async def read(self, size: int) -> bytes:
            return next(self._pieces, b"")[:size]

    async def from_server(data: bytes) -> None:
        reader = LineReader(Output(_pieces(data)), lambda _: None)
        bounded = BoundedReader(reader, lambda: None, lambda _: None)
        with contextlib.suppress(anyio.EndOfStream):
            while True:
                await bounded.receive()

    async def answer(params: dict[str, Any]) -> object:
        return params

    async def from_editor(data: bytes) -> None:
        peer = RpcPeer({"a": answer}, {"b": lambda _: None}, most_bytes=1 << 15)
        reading, writing = os.pipe()
        os.write(writing, data[1:])
        os.close(writing)
        await peer.serve(reading, os.open(os.devnull, os.O_WRONLY))

    def parse(data: bytes) -> None:
        is_server = bool(data) and data[0] & 128
        asyncio.run((from_server if is_server else from_editor)(data))

    return OpenTarget(parse, ())


def _protobuf_seeds() -> Iterator[bytes]:
    from tests.kernel.examples import EXAMPLES
    from tests.kernel.rpc import filled

    from vegakit.server.protobuf import kernel_messages

    for number, codec in enumerate(kernel_messages().paths().values()):
        message = kernel_messages().message_class(codec.row.request.__name__)()
        yield bytes([number]) + filled(message, EXAMPLES[codec.row.name].fields).SerializeToString()


def _open_protobuf() -> OpenTarget:
    from vegakit.control import OperationError
    from vegakit.server.protobuf import kernel_messages

    codecs: Sequence[Any] = [*kernel_messages().paths().values()]

    def parse(data: bytes) -> None:
        codecs[data[0] % len(codecs) if data else 0].request_from(data[1:])

    return OpenTarget(parse, (OperationError,))


TARGETS = {
    target.name: target
    for target in (
        FuzzTarget("http", _http_seeds, _open_http),
        FuzzTarget("wires", _wire_seeds, _open_wires),
        FuzzTarget("html", _page_seeds, _open_pages),
        FuzzTarget("git", _git_seeds, _open_git),
        FuzzTarget("vsp", lambda: _files("examples/nodes/*.vsp"), _open_nodes),
        FuzzTarget("yaml", _yaml_seeds, _open_yaml),
        FuzzTarget("vgb", _bytecode_seeds, _open_bytecode),
        FuzzTarget("vega", _vega_seeds, lambda: _open_programs("main.vega")),
        FuzzTarget(
            "python",
            lambda: _files("tests/language_python/*/*.py", "tests/lang/python/refused/*.py"),
            lambda: _open_programs("main.py"),
        ),
        FuzzTarget("rpc", _rpc_seeds, _open_rpc, max_bytes=1 << 15),
        FuzzTarget("protobuf", _protobuf_seeds, _open_protobuf),
    )
}
