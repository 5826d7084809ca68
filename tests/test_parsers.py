"""Bytes from outside: where this process reads them, how many it takes, and that time grows with
their number.

| from                       | read in                        | at most                            |
|----------------------------|--------------------------------|------------------------------------|
| providers: HTTP            | `providers/answer.py`          | head 64 KB; body and inflated 64 MB|
| providers: streams         | `wires/sse.py`, `wires/aws.py` | line, event or frame 16 MB; in all |
|                            |                                | 64 MB and 1,000 bytes a token      |
| providers: answers in JSON | `wires/*.py`                   | the body; arguments 200 levels deep|
| pages, HTTP for tools      | `sage/tools/pages.py`          | 5 MB, 2,000,000 characters, a list |
|                            |                                | of charsets                        |
| MCP servers                | `tools/mcp/transport.py`       | line 4 MB, 64 MB an answer         |
| editors (JSON-RPC)         | `server/json_rpc.py`           | line 64 MB                         |
| kernel clients: JSON       | `server/asgi.py`               | body, values and levels            |
| kernel clients: protobuf   | `server/protobuf.py`           | message of gRPC; no unknown fields |
| kernel servers             | `control/kernel_client.py`     | as answers and streams of providers|
| `.vega`                    | `lang/syntax/lexer.py`         | 1 MiB, 50,000 tokens, some levels  |
| programs in Python         | `lang/python/lowering.py`      | 200,000 characters, 30,000 nodes   |
| `.vgb`                     | `lang/codegen/verifier.py`     | 16 MiB, by a digest                |
| `.vsp`, tools, pipelines   | `tools/tool_tables.py`         | 64 KiB, 5,000 values, 12 levels    |
| pipelines in JSON          | `sdk/pipeline_files.py`        | 256 KiB                            |
| settings of git            | `sage/git_settings.py`         | output of the sandbox              |
| output of commands         | `policy/safe_text.py`          | what the sandbox keeps of it       |
| answers of functions and   | `tools/decorator.py`,          | what the sandbox keeps of it       |
| plugins in a sandbox       | `sage/extensions/plugins.py`   |                                    |

Source files for `map` are parsed in a sandbox with limits of CPU and memory, searches run there.
`tests/lang/test_bombs.py` and `tests/sage/test_pages.py` measure their parsers themselves, and
`campaigns.fuzz` looks for inputs that nobody thought of.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from campaigns.fuzz_targets import FINDINGS, TARGETS, OpenTarget, seeds_of

from tests.cost import growth
from vegakit.errors import UserError
from vegakit.lang import check_program
from vegakit.records import to_json
from vegakit.sdk import read_pipeline
from vegakit.server.kernel_mcp import KernelMcp
from vegakit.vesper.repository import read_lock
from vegakit.wires import BEDROCK, CHAT, OLLAMA, EventDecoder
from vegakit.wires.aws import write_frame
from vegakit.wires.sse import write_event

ROOT = Path(__file__).parents[1]
NOT_JSON = {
    "no UTF-8": b'{"params": {"name": "\xff"}}',
    "deep": b'{"params": ' + b"[" * 100_000,
    "cut off": b'{"params": ',
    "half a character": b'{"params": {"name": "\xed\xa0\x80"}}',
}


# The table above names files that are there.


def test_every_place_of_the_table_is_there() -> None:
    places = re.findall(r"`(\w+/[\w/*]+\.py)`", str(__doc__).partition("Source files")[0])
    assert len(places) > 15
    assert all([*(ROOT / "src" / "vegakit").glob(place)] for place in places)


# Faults that were found by fuzzing and reading.


@pytest.fixture(scope="module", params=sorted(TARGETS))
def opened(request: pytest.FixtureRequest) -> tuple[str, OpenTarget]:
    return request.param, TARGETS[request.param].open()


def refusals(target: OpenTarget, inputs: list[bytes]) -> Iterator[Exception | None]:
    for data in inputs:
        try:
            target.parse(data)
        except target.allowed as refused:
            yield refused
        else:
            yield None


def test_seeds_and_earlier_findings_are_read_or_refused(opened: tuple[str, OpenTarget]) -> None:
    """Some are read to their end: a target that refuses everything finds nothing."""
    name, target = opened
    assert None in [*refusals(target, seeds_of(TARGETS[name])[-40:])]


def test_every_finding_belongs_to_a_target() -> None:
    assert {path.parent.name for path in FINDINGS.glob("*/*")} <= TARGETS.keys()


def test_a_program_with_very_many_hidden_characters_is_refused() -> None:
    checked, diagnostics = check_program("\u202e" * 1_000, "main.py", lambda _: None)
    assert checked is None
    assert {one.code for one in diagnostics} == {"hidden-character"}


@pytest.mark.parametrize("content", NOT_JSON.values(), ids=NOT_JSON)
def test_files_that_are_no_json_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match="no JSON"):
        read_pipeline(path)
    with pytest.raises(UserError, match="no lock"):
        read_lock(path)


@pytest.mark.parametrize("content", NOT_JSON.values(), ids=NOT_JSON)
def test_a_message_of_mcp_that_is_no_json_takes_the_place_of_a_call(content: bytes) -> None:
    kernel = object.__new__(KernelMcp)
    assert kernel.place_of(content) is kernel.place_of(b"{}")


# What has no end.


def test_an_event_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vegakit.wires.sse._LONGEST_EVENT", 1 << 16)
    with pytest.raises(ValueError, match="an event of a stream"):
        EventDecoder().feed(b"data: 12345678\n" * 10_000)
    for feed in (EventDecoder().feed, OLLAMA.reader(None).feed):
        with pytest.raises(ValueError, match="a line of a stream"):
            [feed(b"12345678") for _ in range(10_000)]
    decoder = EventDecoder()
    events = [decoder.feed(b"data: 12345678\n\n") for _ in range(10_000)]
    assert events[-1][0].data == b"12345678"


# Time by length. A row makes hostile bytes of a length; the target reads or refuses them.


class Hostile(NamedTuple):
    """The time for bytes that `make` returns for a size, beside an eighth of that size."""

    make: Callable[[int], bytes]
    size: int


def repeated(text: bytes, start: bytes = b"") -> Callable[[int], bytes]:
    return lambda size: start + text * size


def keys(size: int) -> bytes:
    return b"\0" + b"".join(b"k%d: v\n" % number for number in range(size))


_CHUNKED = b"\2HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
_CALL = b'{"id":1,"method":"a","params":{}}\n'
HOSTILE = {
    ("http", "chunks"): Hostile(repeated(b"1\r\na\r\n", _CHUNKED), 20_000),
    ("http", "headers"): Hostile(repeated(b"a:\r\n", b"\3HTTP/1.1 200 OK\r\n"), 12_000),
    ("wires", "events"): Hostile(repeated(b"data: {}\n\n", b"\7"), 4_000),
    ("git", "names"): Hostile(repeated(b".a", b"branch"), 400_000),
    ("yaml", "keys"): Hostile(
        lambda size: b"\0" + b"".join(b"k%d: v\n" % n for n in range(size)), 4_000
    ),
    ("yaml", "brackets"): Hostile(repeated(b"[a, ", b"\0"), 8_000),
    ("yaml", "quotes"): Hostile(repeated(b"\\x41", b'\0a: "'), 8_000),
    ("yaml", "JSON"): Hostile(repeated(b'{"a":[', b"\2"), 20_000),
    ("vsp", "nesting"): Hostile(repeated(b"- ", b"node_id: a\nflow:\n"), 30_000),
    ("vgb", "rows"): Hostile(repeated(b"[1],", b"\1["), 100_000),
    ("python", "calls"): Hostile(repeated(b"f("), 20_000),
    ("python", "operators"): Hostile(repeated(b"1+"), 20_000),
    ("rpc", "requests"): Hostile(repeated(_CALL, b"\0"), 800),
    ("rpc", "messages of servers"): Hostile(repeated(b"{}\n", b"\x83"), 8_000),
    ("protobuf", "fields"): Hostile(repeated(b"\xfa\x3f\1a", b"\0"), 15_000),
}


@pytest.mark.parametrize(("target", "name"), HOSTILE)
def test_time_grows_with_the_length(target: str, name: str) -> None:
    hostile, opened = HOSTILE[target, name], TARGETS[target].open()
    assert growth(lambda data: [*refusals(opened, [data])], hostile.make, hostile.size) <= 24


# Time by the number of pieces: bytes that come one by one are joined once.


def unended(start: bytes) -> Callable[[int], list[bytes]]:
    return lambda size: [start + b"x" * 100 * size, *([b"x"] * size)]


def unended_frame(size: int) -> list[bytes]:
    return [write_frame({}, bytes(300 * size))[: 100 * size], *([b"\0"] * size)]


def names(size: int) -> list[bytes]:
    """A call whose name has no end."""

    def event(name: str) -> bytes:
        call = {"index": 0, "function": {"name": name}}
        return write_event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})

    return [event("y"), *([event("x" * 200)] * size)]


def signatures(size: int) -> list[bytes]:
    """A thought whose signature has no end."""
    thought = {"reasoningContent": {"signature": "x" * 200}}
    headers = {":message-type": "event", ":event-type": "contentBlockDelta"}
    return [write_frame(headers, to_json({"contentBlockIndex": 0, "delta": thought}))] * size


DRIBBLES = {
    "a line of an event": (EventDecoder, unended(b"data: ")),
    "a line of JSON": (partial(OLLAMA.reader, None), unended(b"")),
    "a frame": (partial(BEDROCK.reader, None), unended_frame),
    "a name": (partial(CHAT.reader, None), names),
    "a signature": (partial(BEDROCK.reader, None), signatures),
}


@pytest.mark.parametrize("name", DRIBBLES)
def test_pieces_of_what_has_not_ended_are_joined_once(name: str) -> None:
    reader, make = DRIBBLES[name]

    def read(pieces: list[bytes]) -> None:
        feed = reader().feed
        for piece in pieces:
            feed(piece)

    assert growth(read, make, 16_000) <= 24
