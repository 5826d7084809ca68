"""Formats keep their promise: the page names the version that the code has, a file of each version
is kept and read, and one of a later version is read or refused in words.

`python -m tests.docs.test_versions` writes those of the present versions, once, before a release
that changes one. Journals are kept by `tests/journal/test_formats.py`.
"""

import json
import re
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.telemetry.calls import call
from vegakit.control.sockets import CONTROL_VERSION
from vegakit.conversation import CONVERSATION_VERSION, Conversation, Text, UserMessage
from vegakit.errors import InvalidRecordError
from vegakit.events import ENVELOPE_VERSION, Envelope
from vegakit.lang import from_vgb, to_vgb
from vegakit.lang.codegen import verifier
from vegakit.program.state import STATE_VERSION
from vegakit.records import from_json, to_json
from vegakit.sdk import check_source
from vegakit.store.audit import _AUDIT
from vegakit.store.ledger_rows import LEDGER
from vegakit.store.postgres.journal import _JOURNAL as ON_POSTGRES
from vegakit.store.sqlite.journal import _JOURNAL as IN_A_FILE
from vegakit.store.sqlite.stores import DOCUMENTS
from vegakit.telemetry import line_of, load_runs, sqlite as sqlite_traces
from vegakit.telemetry.jsonl import LINE_VERSION
from vegakit.tools.mcp.pins import PINS_VERSION
from vegakit.vesper.node_traces import TRACE_VERSION

ROOT = Path(__file__).parents[2]
STORED = ROOT / "tests" / "data" / "formats"
TRACE = "a" * 32

VERSIONS = {
    "event envelope": f"{ENVELOPE_VERSION} (`ENVELOPE_VERSION`)",
    "conversation": f"{CONVERSATION_VERSION} (`CONVERSATION_VERSION`)",
    "history": f"{STATE_VERSION} (`STATE_VERSION`)",
    "journal": f"{IN_A_FILE.version}; on PostgreSQL {ON_POSTGRES.version}",
    "ledger": str(LEDGER.version),
    "questions": str(DOCUMENTS.version),
    "audit": str(_AUDIT.version),
    "pins": f"{PINS_VERSION} (`PINS_VERSION`)",
    "traces": str(LINE_VERSION),
    "traces in SQLite": str(sqlite_traces._VERSION),
    "node traces": f"{TRACE_VERSION} (`TRACE_VERSION`)",
    "view": f"{CONTROL_VERSION} (`CONTROL_VERSION`)",
    "bytecode": str(verifier._VERSION),
}


@pytest.mark.parametrize("name", VERSIONS)
def test_the_page_names_the_version_of_the_code(name: str) -> None:
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
    assert row.split(" | ")[-1].removesuffix(" |") == VERSIONS[name]


def test_every_format_of_tables_is_on_the_page() -> None:
    """Documents of a store hold the questions to people."""
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    source = "\n".join(path.read_text() for path in (ROOT / "src/vegakit/store").rglob("*.py"))
    subjects = set(re.findall(r'Format\(\s*"(\w+)"', source)) - {"documents"} | {"questions"}
    assert {one for one in subjects if f"\n| {one} |" not in page} == set()
    assert len(subjects) == 6


# Files of each version, and what reads them.


def read_lines(path: Path) -> object:
    return [run.trace_id for run in load_runs(path)]


def read_program(path: Path) -> object:
    module = from_vgb(path.read_bytes())
    return module.functions[module.main].name


def read_conversation(path: Path) -> object:
    return from_json(Conversation, path.read_bytes()).messages


def read_envelope(path: Path) -> object:
    return from_json(Envelope, path.read_bytes()).kind


SAID = (UserMessage((Text("Hello"),)),)
READERS: dict[str, tuple[Callable[[Path], object], object]] = {
    "traces-1.jsonl": (read_lines, [TRACE]),
    "traces-1.db": (read_lines, [TRACE]),
    "program-1.vgb": (read_program, "main"),
    "conversation-1.json": (read_conversation, SAID),
    "envelope-1.json": (read_envelope, "started"),
}


@pytest.mark.parametrize("name", READERS)
def test_a_stored_file_is_read(name: str, tmp_path: Path) -> None:
    """As it was written, by whichever version that was; a copy, since SQLite writes beside it."""
    read, expected = READERS[name]
    assert read(Path(shutil.copy(STORED / name, tmp_path))) == expected


def test_every_stored_file_has_a_reader() -> None:
    assert {path.name for path in STORED.iterdir()} == READERS.keys()


def later_json(stored: bytes) -> bytes:
    """The same a version later, with a field that nobody knows today."""
    return json.dumps(json.loads(stored) | {"v": 2, "colour": "red"}).encode() + b"\n"


@pytest.mark.parametrize("name", ["traces-1.jsonl", "conversation-1.json", "envelope-1.json"])
def test_a_later_version_that_only_adds_is_read(name: str, tmp_path: Path) -> None:
    """Formats grow by adding only, so an older reader passes over what it does not know."""
    read, expected = READERS[name]
    path = tmp_path / name
    path.write_bytes(later_json((STORED / name).read_bytes()))
    assert read(path) == expected


def test_a_later_program_is_refused(tmp_path: Path) -> None:
    """Instructions are no fields: what is not known cannot be passed over."""
    stored = (STORED / "program-1.vgb").read_bytes()
    path = tmp_path / "later.vgb"
    path.write_bytes(stored[:4] + struct.pack(">H", 2) + stored[6:])
    with pytest.raises(InvalidRecordError, match=r"has format 2; .* build it again with"):
        read_program(path)


def test_a_later_file_of_traces_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "later.db"
    path.write_bytes((STORED / "traces-1.db").read_bytes())
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version = 2")
    with pytest.raises(OSError, match="another version of vegakit wrote it"):
        read_lines(path)


def test_the_policy_is_about_the_formats_that_are_listed() -> None:
    """Versions and formats are explained in one place each, and lead to each other."""
    page = (ROOT / "docs" / "reference" / "versions.md").read_text(encoding="utf-8")
    assert "(../formats.md)" in page
    assert len(re.findall(r"^## ", page, re.MULTILINE)) == 4


def write() -> None:
    """Keep a file of each present version; one that is there was released, and stays."""
    from tests.telemetry.calls import run
    from vegakit.lang import compile_program
    from vegakit.telemetry import SqliteSink

    STORED.mkdir(exist_ok=True)
    checked = check_source(ROOT / "examples" / "flaky.vega").checked
    assert checked is not None
    sink = SqliteSink(STORED / f"traces-{sqlite_traces._VERSION}.db", keep_ms=10**15)
    sink.record(call())
    run(sink.aclose())
    envelope = Envelope.__struct_fields__
    started = {"v": 1, "id": "e1", "at": 0, "tenant": "t", "program": "p", "path": "main"}
    assert started.keys() <= set(envelope)
    files = {
        f"traces-{LINE_VERSION}.jsonl": line_of(call()),
        f"program-{verifier._VERSION}.vgb": to_vgb(compile_program(checked)),
        f"conversation-{CONVERSATION_VERSION}.json": to_json(Conversation(SAID)),
        f"envelope-{ENVELOPE_VERSION}.json": json.dumps(
            started | {"kind": "started", "body": None}
        ).encode(),
    }
    for name, content in files.items():
        (STORED / name).write_bytes(content)


if __name__ == "__main__":
    write()
