"""Traces in SQLite: the same records, found without reading the rest, whole after a kill."""

import json
import logging
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.telemetry.calls import AT_MS, call, paid, run
from vegakit.cli import main
from vegakit.config import load
from vegakit.events import CallKind, CallTraced
from vegakit.ids import TraceId
from vegakit.telemetry import (
    JsonLinesSink,
    Redactor,
    SqliteSink,
    line_of,
    load_runs,
    open_sink,
    sqlite,
)
from vegakit.telemetry.sqlite import LATEST, NAMED, OF_RUN

DAY_MS = 86_400_000


def soon() -> float:
    """A moment after the calls of these tests."""
    return AT_MS / 1000 + 60


def write(path: Path, *calls: CallTraced, now: Callable[[], float] = soon, **options: Any) -> Path:
    sink = SqliteSink(path, now=now, **options)
    for one in calls:
        sink.record(one)
    run(sink.aclose())
    return path


def query(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


def trace_id(number: int) -> TraceId:
    return TraceId(f"{number:032x}")


def test_it_holds_the_records_of_the_json_lines(tmp_path: Path) -> None:
    """In a file that only its owner may read, whose directory is made."""
    calls = [paid(1), call(2, parent_span=paid(1).span_id), call(3, trace_id=trace_id(7))]
    path = write(tmp_path / "deep" / "traces.db", *calls)
    lines = JsonLinesSink(tmp_path / "traces.jsonl")
    for one in calls:
        lines.record(one)
    run(lines.aclose())
    assert [(one.trace_id, one.calls) for one in load_runs(path)] == [
        (one.trace_id, one.calls) for one in load_runs(tmp_path / "traces.jsonl")
    ]
    records = {record for (record,) in query(path, "SELECT record FROM calls")}
    assert records == {line_of(one).decode().rstrip() for one in calls}
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["traces.db"]


def test_content_is_recorded_only_when_asked_for(tmp_path: Path) -> None:
    """And without keys then."""
    told = call(content={"prompt": "use sk-ant-api03-" + "a" * 80})
    write(tmp_path / "off", told)
    write(tmp_path / "on", told, redactor=Redactor(content=True))
    (off,) = load_runs(tmp_path / "off")
    (on,) = load_runs(tmp_path / "on")
    assert off.calls[0].content is None
    assert on.calls[0].content == {"prompt": "use [redacted]"}


def test_the_last_runs_are_found_by_time_and_one_by_its_id(tmp_path: Path) -> None:
    """Whenever they were written; a beginning of an id is enough."""
    calls = [call(n, trace_id=trace_id(n << 100), at_ms=AT_MS + (n * 7) % 50) for n in range(1, 50)]
    path = write(tmp_path / "t", *calls, call(99, trace_id=trace_id(7 << 100), at_ms=AT_MS + 49))
    last = load_runs(path, last=3)
    assert [one.at_ms - AT_MS for one in last] == [47, 48, 49]
    (one,) = load_runs(path, trace_id(7 << 100)[:8])
    assert len(one.calls) == 2
    assert load_runs(path, "f") == []


@pytest.mark.parametrize(
    ("statement", "given"), [(LATEST, (3,)), (NAMED, ("a", "b")), (OF_RUN, ("a", "b"))]
)
def test_nothing_is_read_that_is_not_shown(
    statement: str, given: tuple[Any, ...], tmp_path: Path
) -> None:
    """SQLite searches by the keys: it scans no table of calls, and sorts nothing."""
    path = write(tmp_path / "t", paid())
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", given).fetchall()
    plan = [row[3] for row in rows]
    assert any(step.startswith("SEARCH calls USING PRIMARY KEY") for step in plan)
    assert not [step for step in plan if "SCAN calls" in step or "TEMP B-TREE" in step]
    assert not [step for step in plan if step == "SCAN runs"]


def test_old_runs_are_forgotten(tmp_path: Path) -> None:
    """With all their calls, when the file is opened and then every hour."""
    clock = [soon()]
    sink = SqliteSink(tmp_path / "t", keep_ms=DAY_MS, now=lambda: clock[0])
    run(sink.aclose())  # now it writes at once
    sink.record(call(1, trace_id=trace_id(1)))
    sink.record(call(2, trace_id=trace_id(1)))
    clock[0] += 86_400 - 120
    sink.record(call(3, trace_id=trace_id(2), at_ms=round(clock[0] * 1000)))
    assert [len(one.calls) for one in load_runs(tmp_path / "t")] == [2, 1]
    clock[0] += 3_600
    sink.record(call(4, trace_id=trace_id(2), at_ms=round(clock[0] * 1000)))
    assert [one.trace_id for one in load_runs(tmp_path / "t")] == [trace_id(2)]
    assert query(tmp_path / "t", "SELECT count(*) FROM calls") == [(2,)]


def test_a_file_that_is_moved_away_is_made_anew(tmp_path: Path) -> None:
    """As one of JSON lines is."""
    sink = SqliteSink(tmp_path / "t", now=soon)
    sink.record(paid(1))
    sink._writer.flush()
    (tmp_path / "t").rename(tmp_path / "moved")
    for end in ("-wal", "-shm"):
        (tmp_path / f"t{end}").rename(tmp_path / f"moved{end}")
    sink.record(paid(2))
    run(sink.aclose())
    assert [one.span_id for one in load_runs(tmp_path / "moved")[0].calls] == [paid(1).span_id]
    assert [one.span_id for one in load_runs(tmp_path / "t")[0].calls] == [paid(2).span_id]


def test_a_disk_that_refuses_keeps_what_was_paid(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is written once the disk takes it; one error says what to do."""
    obstacle = tmp_path / "in the way"
    obstacle.touch()
    sink = SqliteSink(obstacle / "t", now=soon)
    run(sink.aclose())
    with caplog.at_level(logging.ERROR, "vegakit"):
        sink.record(paid(1))
        sink.record(call(2))
    obstacle.unlink()
    sink.record(paid(3))
    (found,) = load_runs(obstacle / "t")
    assert [one.span_id for one in found.calls] == [paid(1).span_id, paid(3).span_id]
    assert "set telemetry.sqlite to another file" in caplog.messages[0]
    assert len(caplog.messages) == 1
    (note,) = query(obstacle / "t", f"SELECT record FROM calls WHERE trace_id = '{'0' * 32}'")
    assert json.loads(note[0])["attributes"] == {"dropped": 1}


def test_another_database_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Such as the journal, by a slip in the settings; and a link is not followed."""
    with closing(sqlite3.connect(tmp_path / "other")) as connection:
        connection.execute("CREATE TABLE kept (x)")
    (tmp_path / "link").symlink_to(tmp_path / "aim")
    for name in ("other", "link"):
        write(tmp_path / name, paid())
    assert query(tmp_path / "other", "SELECT name FROM sqlite_master") == [("kept",)]
    assert not (tmp_path / "aim").exists()
    assert "it is a database of something else" in caplog.messages[0]
    with pytest.raises(OSError, match="it is a database of something else"):
        load_runs(tmp_path / "other")


def test_the_settings_open_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of the JSON lines, unless these are named, too; `vega trace` reads it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("VEGA_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("VEGA_TELEMETRY_SQLITE", str(tmp_path / "t.db"))
    settings = load()
    assert (settings.telemetry.jsonl, settings.traces_path) == ("", tmp_path / "t.db")
    sink = open_sink(settings, Redactor())
    sink.record(paid(at_ms=round(time.time() * 1000)))
    run(sink.aclose())
    assert [file.name for file in tmp_path.iterdir()] == ["t.db"]
    assert main(["trace"]) == 0
    monkeypatch.setenv("VEGA_TELEMETRY_JSONL", str(tmp_path / "t.jsonl"))
    both = open_sink(load(), Redactor())
    both.record(paid())
    run(both.aclose())
    assert (tmp_path / "t.jsonl").exists()


def test_vega_trace_lists_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As with JSON lines; the file says itself what it is."""
    ask = call(1, kind=CallKind.ASK, agent="Coder")
    path = write(tmp_path / "t", ask, paid(2, parent_span=ask.span_id))
    assert main(["trace", "--file", str(path)]) == 0
    listed = capsys.readouterr().out.splitlines()[1].split()
    assert listed[-3:] == ["1", "1,042", "$0.0043"]
    assert "Coder" in listed
    assert main(["trace", "aaa", "--file", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("└─ model anthropic:claude")


def test_a_damaged_file_is_said_to_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback."""
    path = write(tmp_path / "t", paid())
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 8000)
    assert main(["trace", "--file", str(path)]) == 1
    assert "cannot be read: " in capsys.readouterr().err


WRITER = """
import os, sys, time
from pathlib import Path
from vegakit.events import CallKind, CallTraced
from vegakit.telemetry import SqliteSink
sink = SqliteSink(Path(sys.argv[1]), capacity=20)
now = round(time.time() * 1000)
for number in range(int(sys.argv[3])):
    span_id = f"{number:016x}"
    sink.record(CallTraced(sys.argv[2] * 32, span_id, CallKind.MODEL, "m" * 200, now, 0.0, cost=1))
    if number % 100 == 99:
        print(number + 1, flush=True)
"""


def writer(path: Path, letter: str, count: int) -> "subprocess.Popen[bytes]":
    arguments = [sys.executable, "-c", WRITER, str(path), letter, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE)


def test_processes_share_a_file(tmp_path: Path) -> None:
    """Four of them write 500 records each, and end without closing their sink."""
    running = [writer(tmp_path / "t", letter, 500) for letter in "abcd"]
    for process in running:
        process.communicate(timeout=100)
    assert [len(found.calls) for found in load_runs(tmp_path / "t")] == [500] * 4


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is of POSIX")
def test_a_killed_process_leaves_a_whole_file(tmp_path: Path) -> None:
    """In the middle of a batch: what was written before is there, and others go on writing."""
    killed = writer(tmp_path / "t", "a", 1_000_000)
    assert killed.stdout is not None
    with killed.stdout as said:
        for _ in range(10):
            assert said.readline()
        killed.send_signal(signal.SIGKILL)
        killed.wait(60)
    (found,) = load_runs(tmp_path / "t")
    spans = [one.span_id for one in found.calls]
    assert len(spans) >= 1000 - 20
    assert sorted(spans) == [f"{number:016x}" for number in range(len(spans))]
    assert query(tmp_path / "t", "PRAGMA integrity_check") == [("ok",)]
    writer(tmp_path / "t", "b", 100).communicate(timeout=100)
    assert [len(one.calls) for one in load_runs(tmp_path / "t")][1:] == [100]


def test_a_lock_is_told_as_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No free space would help; what cost money is written when it is gone."""
    monkeypatch.setattr(sqlite, "_BUSY_S", 0.0)
    path = write(tmp_path / "t", paid(1))
    sink = SqliteSink(path, now=soon)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        sink.record(paid(2))
        sink._writer.flush()
    assert caplog.messages == [
        (
            f"traces cannot be written to {path} (database is locked); end what keeps it locked, "
            "or set telemetry.sqlite to another file"
        )
    ]
    run(sink.aclose())
    sink.record(paid(3))
    assert query(path, "SELECT count(*) FROM calls WHERE record LIKE '%\"cost_usd\"%'") == [(3,)]


def test_a_full_disk_is_told_as_a_full_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a database whose pages may not grow in number, as well as of a file of lines."""
    sink = SqliteSink(write(tmp_path / "t", paid(1)), now=soon)
    pages = sink._connected().execute("PRAGMA page_count").fetchone()[0]
    sink._connected().execute(f"PRAGMA max_page_count = {pages}")
    sink.record(paid(2, finish="x" * 100_000))
    sink._writer.flush()
    assert "(database or disk is full); free space there, or set " in caplog.text
    run(sink.aclose())
