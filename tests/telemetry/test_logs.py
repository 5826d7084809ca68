"""Log lines: JSON that `json` reads, one line a record, and nobody else's logging touched."""

import json
import logging
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.patience import until
from tests.telemetry.calls import MemorySink, run
from tests.telemetry.canaries import CANARIES
from tests.telemetry.test_canaries import GIVEN, redactor
from vegakit.config import load
from vegakit.errors import AgentFailed
from vegakit.host import Agent, Supervisor
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.sdk.monitoring import RuntimeLog
from vegakit.telemetry import LogFormatter, LogOutput, Redactor, Tracer
from vegakit.telemetry.logs import LOGGER
from vegakit.testing import FakeClock


@pytest.fixture
def output() -> Iterator[Callable[..., LogOutput]]:
    opened: list[LogOutput] = []

    def open_(level: str = "info", *, json: bool = True, **context: str) -> LogOutput:
        formatter = LogFormatter(Redactor([GIVEN]), lambda: context, json=json)
        opened.append(LogOutput(formatter, level))
        opened[-1].open()
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_record_is_a_line_of_json(output: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """With time, level, logger, message, and what is known there."""
    output(run="r1", process="guide", agent="")
    LOGGER.warning("%d of\n%d", 1, 2, extra={"vega": {"agent": "Coder"}, "taskName": "t"})
    (line,) = lines(capsys)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "vegakit",
        "message": "1 of\n2",
        "run": "r1",
        "process": "guide",
        "agent": "Coder",
    }


def test_a_line_knows_its_trace(output: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the span that it is logged in."""
    output()
    with Tracer(MemorySink(), FakeClock()).span("index") as span:
        LOGGER.info("inside")
    (line,) = lines(capsys)
    assert (line["trace_id"], line["span_id"]) == (span.trace_id, span.span_id)


def test_an_exception_is_part_of_its_line(output: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Without keys."""
    output()
    LOGGER.error("it failed", exc_info=ValueError(GIVEN))
    (line,) = lines(capsys)
    assert "ValueError: [redacted]" in line["traceback"]
    assert line["level"] == "error"


def test_levels_are_kept(output: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What is below the level is not written."""
    output("warning")
    LOGGER.info("no")
    logging.getLogger("vegakit.below").error("yes")
    assert [line["logger"] for line in lines(capsys)] == ["vegakit.below"]


def test_a_text_line_is_one_line(output: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in it moves a terminal."""
    output(json=False, process="guide")
    LOGGER.warning("red \x1b[31m\nnext\u2028line")
    written = capsys.readouterr().err
    assert written.count("\n") == 1
    assert r"WARNING vegakit: red \x1b[31m\nnext\u2028line (process=guide)" in written


@pytest.mark.parametrize("form", [True, False])
def test_no_secret_is_logged(form: bool) -> None:
    """Of all canaries, in either form."""
    formatter = LogFormatter(redactor(), json=form)
    for name, (met, secret) in CANARIES.items():
        record = logging.LogRecord("vegakit", 30, "", 0, "met %s", (met,), None)
        written = formatter.format(record)
        assert "[redacted]" in written, name
        for spelled in (secret, secret.replace("\n", "\\n")):
            assert spelled not in written, name


def test_the_logger_is_left_as_it_was_found(output: Any) -> None:
    """And the root logger is never touched; of two outputs one writes."""
    before = LOGGER.level, LOGGER.propagate, [*LOGGER.handlers]
    root = logging.getLogger().level, [*logging.getLogger().handlers]
    first, second = output("debug"), output("error")
    assert len(LOGGER.handlers) == len(before[2]) + 1
    second.close()
    assert LOGGER.level == logging.DEBUG
    assert len(LOGGER.handlers) == len(before[2]) + 1
    first.close()
    first.close()
    assert (LOGGER.level, LOGGER.propagate, LOGGER.handlers) == before
    assert (logging.getLogger().level, logging.getLogger().handlers) == root


def test_threads_write_whole_lines(output: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """None in the middle of another."""
    output()
    threads = [
        threading.Thread(target=lambda: [LOGGER.info("x" * 300) for _ in range(100)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = capfd.readouterr().err.splitlines()
    assert len(written) == 400
    assert {json.loads(line)["message"] for line in written} == {"x" * 300}


def test_a_runtime_logs_what_happens(capsys: pytest.CaptureFixture[str]) -> None:
    """Asks at `info`, calls at `debug`, restarts; with run, process and trace; nothing of what was
    said."""
    lives = 0

    async def crashing() -> None:
        nonlocal lives
        lives += 1
        if lives == 1:
            raise ValueError("a secret prompt")

    async def work(path: str) -> str:
        log = RuntimeLog(Redactor(), "debug", json=True)
        model = ScriptedModel(["a secret answer", {"error": "auth"}])
        async with Runtime("$1", models=lambda _: model, journal=path, observers=[log]) as rt:
            agent = Agent("guide", model="any", max_tokens=10)
            await rt.ask(agent, "a secret prompt")
            with pytest.raises(AgentFailed):
                await rt.ask(agent, "a secret prompt")
            rt.spawn(crashing, name="worker", supervise=Supervisor(max_restarts=3))
            await until(lambda: lives == 2)
            assert rt.journaled
            return str(rt.journaled.run.program)

    with TemporaryDirectory() as folder:
        program = run(work(f"{folder}/run.db"))
    text = capsys.readouterr().err
    assert "secret" not in text
    written = [json.loads(line) for line in text.splitlines()]
    assert {line["run"] for line in written} == {program}
    by_kind = {(line.get("kind"), line.get("status")): line for line in written}
    assert by_kind["ask", "ok"]["level"] == "info"
    assert by_kind["ask", "ok"]["agent"] == "guide"
    assert len(by_kind["ask", "ok"]["trace_id"]) == 32
    assert by_kind["ask", "ok"]["process"]
    assert by_kind["model", "ok"]["level"] == "debug"
    assert by_kind["model", "failed"]["level"] == "info"
    assert by_kind["model", "failed"]["error"] == "auth"
    (restarted,) = [line for line in written if "restarted" in line["message"]]
    assert restarted["process"] == "worker"


PROGRAM = """
import asyncio, logging
from vegakit import Runtime
async def main():
    async with Runtime.from_config() as rt:
        print(logging.getLogger().handlers, [type(h).__name__ for h in
              logging.getLogger("vegakit").handlers], logging.getLogger("vegakit").level)
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("settings", "printed"),
    [
        ({}, "[] [] 0"),
        ({"VEGA_TELEMETRY_LOGS": "json"}, "[] ['StderrHandler'] 20"),
        (
            {"VEGA_TELEMETRY_LOGS": "text", "VEGA_TELEMETRY_LEVEL": "error"},
            "[] ['StderrHandler'] 40",
        ),
    ],
)
def test_settings_ask_for_lines(settings: dict[str, str], printed: str, tmp_path: Path) -> None:
    """Without them a library leaves logging alone."""
    with tempfile.TemporaryDirectory() as short:  # the path of a socket has at most 107 bytes
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"HOME": str(tmp_path), "VEGA_OBSERVABLE_SOCKETS": short, **settings},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (ran.stdout.strip(), ran.stderr) == (printed, "")


def test_levels_have_names() -> None:
    """As Python's logging has them."""
    assert load({"telemetry.level": "debug"}).telemetry.level == "debug"
