"""`vega ps`, `kill`, `interrupts` and `answer` on a served kernel: `--at URL`, with a token."""

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.serving import Said, ServerProcess, a_server, a_token, vega
from vegakit.cli import main

DIGEST = "0" * 32


class Desk:
    """A person at a shell, and a worker that asks."""

    def __init__(self, folder: Path, server: ServerProcess, operator: str, worker: str) -> None:
        self.folder, self.server = folder, server
        self.operator, self.worker = operator, worker

    def vega(self, *words: str, token: str | None = None) -> Said:
        mine = self.operator if token is None else token
        return vega(self.folder, *words, "--at", self.server.url, VEGA_TOKEN=mine)

    def work(self, name: str, **fields: object) -> Any:
        return self.server.call(self.worker, name, **fields)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Generator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    with a_server(folder) as server:
        yield Desk(folder, server, a_token(folder), a_token(folder, role="worker"))


def test_processes_are_shown_and_ended(desk: Desk) -> None:
    desk.work("create_process", pid="boss")
    for pid in ("boss/a", "boss/b"):
        desk.work("submit", pid=pid, parent="boss", priority="high")
    taken = desk.work("get_next_runnable", holder="worker 7")["process"]["pid"]
    shown = desk.vega("ps")
    assert shown.returncode == 0, shown.stderr
    (row,) = [line for line in shown.stdout.splitlines() if line.startswith(taken)]
    assert "running" in row
    assert "worker 7" in row
    assert [one["pid"] for one in json.loads(desk.vega("ps", "--json").stdout)["processes"]] == [
        "boss",
        "boss/a",
        "boss/b",
    ]
    assert desk.vega("kill", "boss/a").stdout == "✓ ended: boss/a\n"
    assert json.loads(desk.vega("kill", "--tree", "boss", "--json").stdout)["state"] == "terminated"
    assert desk.vega("ps").stdout == "No process lives there.\n"
    gone = desk.vega("kill", "nobody")
    assert gone.returncode == 1
    assert "nobody" in gone.stderr


def test_questions_are_shown_whole_and_answered_once(desk: Desk) -> None:
    """By the line that is shown. Yes wants the whole id, and an answer is that of the token's
    owner."""
    desk.work("submit", pid="buyer")
    ask = {"pid": "buyer", "kind": "confirmation", "question": "Pay $30?", "action": DIGEST}
    desk.work("create_interrupt", id="q1", **ask)
    shown = desk.vega("interrupts").stdout
    assert "  | Pay $30?" in shown
    assert "asked by buyer" in shown
    typed = re.search(r"\$ vega answer (\w+) yes\|no --at (\S+)", shown)
    assert typed
    assert typed[2] == desk.server.url
    assert "needs you" in desk.vega("ps").stdout
    short = desk.vega("answer", typed[1][:6], "yes")
    assert short.returncode == 1
    assert f"vega answer {typed[1]} yes --at" in " ".join(short.stderr.split())
    worker = desk.vega("answer", typed[1], "yes", token=desk.worker)
    assert worker.returncode == 1
    assert "right to answer" in " ".join(worker.stderr.split())
    assert desk.vega("answer", typed[1], "yes").stdout == f"answered {typed[1]}\n"
    settled = desk.work("get_interrupt", id="q1")["interrupt"]
    assert (settled["answer"]["type"], settled["answered_by"]) == ("Approved", "ann")
    again = desk.vega("answer", typed[1], "no")
    assert again.returncode == 1
    assert f"vega interrupts --at {desk.server.url}" in " ".join(again.stderr.split())


def test_words_answer_what_asks_for_words(desk: Desk) -> None:
    desk.work("submit", pid="writer")
    asked = {"pid": "writer", "kind": "clarification", "question": "Which owl?"}
    desk.work("create_interrupt", id="w1", **asked)
    (question,) = json.loads(desk.vega("interrupts", "--json").stdout)
    assert (question["text"], question["permits"]) == ("Which owl?", False)
    assert desk.vega("answer", question["id"][:6], "the", "barn", "owl").returncode == 0
    assert desk.work("get_interrupt", id="w1")["interrupt"]["answer"]["value"] == "the barn owl"
    assert "Nobody is asked anything" in desk.vega("interrupts").stdout


def test_who_calls_must_be_said(desk: Desk) -> None:
    without = desk.vega("ps", token="")
    assert without.returncode == 1
    assert "VEGA_TOKEN is not set" in " ".join(without.stderr.split())
    wrong = desk.vega("ps", token="vega_0_0")
    assert wrong.returncode == 1
    told = " ".join(wrong.stderr.split())
    assert "does not know the token in VEGA_TOKEN" in told
    assert "export VEGA_TOKEN=$(vega token create" in told


def test_a_kernel_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = vega(tmp_path, "ps", "--at", "http://127.0.0.1:9", VEGA_TOKEN="vega_0_0")
    assert done.returncode == 1
    assert "no connection" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("tree --at http://x:1", "those that take the URL of a kernel are vega ps, kill,"),
        ("logs --at https://x:1", "those that take the URL of a kernel are vega ps, kill,"),
        ("top --at http://x:1", "those that take the URL of a kernel are vega ps, kill,"),
        ("ps --at grpc://x:1", "gRPC, and this command line speaks HTTP name the http:// address"),
        ("kill p --at grpcs://x:1", "gRPC, and this command line speaks HTTP"),
        ("interrupts --at ftp://x", "ftp://x is no address of a kernel"),
    ],
)
def test_an_address_that_a_command_does_not_take_is_told(
    capsys: pytest.CaptureFixture[str], words: str, text: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words.split())
    assert text in " ".join(capsys.readouterr().err.split())
