"""JSON lines: whole, shared, and patient with a full disk."""

import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.telemetry.calls import call, paid, run
from vegakit.telemetry import JsonLinesSink, Redactor, aside_of
from vegakit.telemetry.jsonl import set_aside


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines() if line]


def test_one_line_per_call(tmp_path: Path) -> None:
    """In a file that only its owner may read, whose directory is made."""
    path = tmp_path / "deep" / "traces.jsonl"
    sink = JsonLinesSink(path)
    sink.record(paid(1))
    sink.record(call(2))
    run(sink.aclose())
    assert [line["cost_usd"] for line in lines(path)] == [0.0043, 0]
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_recorded_makes_no_file(tmp_path: Path) -> None:
    """And starts no thread."""
    run(JsonLinesSink(tmp_path / "t.jsonl").aclose())
    assert not [*tmp_path.iterdir()]


def test_content_stays_here_unless_asked_for(tmp_path: Path) -> None:
    """Prompts and answers are off by default."""
    for name, redactor in (("off", None), ("on", Redactor(content=True))):
        sink = JsonLinesSink(tmp_path / name, redactor)
        sink.record(call(content={"prompt": "hello"}))
        run(sink.aclose())
    assert "content" not in lines(tmp_path / "off")[0]
    assert lines(tmp_path / "on")[0]["content"] == {"prompt": "hello"}


def test_what_was_dropped_is_noted(tmp_path: Path) -> None:
    """As the last line."""
    sink = JsonLinesSink(tmp_path / "t", capacity=0)
    for number in range(5):
        sink.record(call(number))
    run(sink.aclose())
    (note,) = lines(tmp_path / "t")
    assert note["name"] == "records dropped"
    assert note["attributes"] == {"dropped": 5}


def blocked(directory: Path, capacity: int = 10) -> tuple[Path, JsonLinesSink]:
    """A file stands where a directory should be made; the sink writes at once."""
    (directory / "in the way").touch()
    sink = JsonLinesSink(directory / "in the way" / "t", capacity=capacity)
    run(sink.aclose())
    return directory / "in the way", sink


def test_a_disk_that_refuses_keeps_what_was_paid(tmp_path: Path) -> None:
    """It is written before the new ones once the disk takes it; the rest is counted."""
    obstacle, sink = blocked(tmp_path)
    sink.record(paid(1))
    sink.record(call(2))
    obstacle.unlink()
    sink.record(paid(3))
    written = lines(obstacle / "t")
    assert [line["span_id"][-1] for line in written] == ["1", "3", "0"]
    assert written[-1]["attributes"] == {"dropped": 1}


def test_it_keeps_no_more_than_its_capacity(tmp_path: Path) -> None:
    """Of a disk that refuses for long; what does not fit is counted too."""
    obstacle, sink = blocked(tmp_path, capacity=2)
    for number in range(1, 6):
        sink.record(paid(number))
    obstacle.unlink()
    sink.record(paid(6))
    written = lines(obstacle / "t")
    assert [line["span_id"][-1] for line in written] == ["1", "2", "6", "0"]
    assert written[-1]["attributes"] == {"dropped": 3}


def test_one_error_says_what_to_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not one per record."""
    _, sink = blocked(tmp_path)
    with caplog.at_level(logging.ERROR, "vegakit"):
        sink.record(paid(1))
        sink.record(call(2))
    (error,) = caplog.messages
    assert "set telemetry.jsonl to another file" in error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is full")
def test_a_full_disk_fails_no_call() -> None:
    """Not even the one that is written by its caller."""
    sink = JsonLinesSink(Path("/dev/full"), capacity=0)
    sink.record(paid())
    run(sink.aclose())


WRITER = """
import asyncio, sys
from pathlib import Path
from vegakit.events import CallKind, CallTraced
from vegakit.telemetry import JsonLinesSink
sink = JsonLinesSink(Path(sys.argv[1]), capacity=20)
for number in range(500):
    span_id = f"{number:016x}"
    sink.record(CallTraced(sys.argv[2] * 32, span_id, CallKind.MODEL, "m" * 200, 0, 0.0, cost=1))
"""


def test_processes_share_a_file(tmp_path: Path) -> None:
    """Four of them write 500 lines each, none torn, and end without closing their sink."""
    path = tmp_path / "t.jsonl"
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), letter]) for letter in "abcd"
    ]
    assert [process.wait(60) for process in running] == [0] * 4
    found = [(line["trace_id"], line["span_id"]) for line in lines(path)]
    assert len(found) == len({*found}) == 2000


def test_a_file_that_is_too_large_is_set_aside(tmp_path: Path) -> None:
    """In place of the one before; every line is in one of the two, and both are whole."""
    path = tmp_path / "t.jsonl"
    numbers, both = iter(range(1, 10_000)), list[dict[str, Any]]()
    for _ in range(6):
        sink = JsonLinesSink(path, most_bytes=2_000)
        for _ in range(10):
            sink.record(call(next(numbers)))
        run(sink.aclose())
        aside = aside_of(path)
        both = [*(lines(aside) if aside.exists() else []), *lines(path)]
        assert both[-1]["span_id"]
        assert len({line["span_id"] for line in both}) == len(both)
    assert aside_of(path).exists()
    assert {one.name for one in tmp_path.iterdir()} == {"t.jsonl", "t.jsonl.1"}
    assert path.stat().st_size < 10_000
    assert lines(path)[-1]["span_id"] == both[-1]["span_id"]


def test_of_several_who_find_it_too_large_one_sets_it_aside(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("old\n" * 1_000)
    one, other = os.open(path, os.O_WRONLY), os.open(path, os.O_WRONLY)
    try:
        assert set_aside(path, one, 100)
        path.write_text("new\n")
        assert not set_aside(path, other, 100)  # locked
        os.close(one)
        one = os.open(path, os.O_WRONLY)
        assert set_aside(path, other, 100)  # what it has open is the old one
        assert not set_aside(path, one, 100)
    finally:
        os.close(one)
        os.close(other)
    assert path.read_text() == "new\n"
    assert aside_of(path).read_text().startswith("old\n")
