"""`vega interrupts` and `vega answer`, over the death of the program that asks."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from vegakit.cli.questions import render_questions
from vegakit.control import Question
from vegakit.ids import Digest
from vegakit.policy import InterruptKind

PROGRAM = """
import asyncio
from pathlib import Path
from vegakit import Agent, Runtime
from vegakit.conversation import ToolMessage
from vegakit.control import Question
from vegakit.testing import ScriptedModel
from vegakit.tools import tool

@tool(capabilities=["net::post"])
async def pay(ctx, amount: int) -> str:
    "Pay an amount."
    with Path("paid.txt").open("a") as file:
        print(amount, ctx.idempotency_key, file=file)
    return f"paid {amount}"

def say(request):
    told = isinstance(request.messages[-1], ToolMessage)
    call = {"calls": [{"name": "pay", "arguments": {"amount": 30}}]}
    return request.messages[-1].results[0].content.replace("\\n", " ") if told else call

async def main():
    agent = Agent("buyer", model=ScriptedModel(say), tools=[pay])
    async with Runtime(journal="run.db", mode="ask", observable=True) as rt:
        rt.on(Question, lambda question: print("asked", question.id, flush=True))
        buyer = rt.spawn(agent)
        for question in rt.interrupts():
            print("asked before", question.id, flush=True)
        print((await buyer.ask("buy")).text, flush=True)

asyncio.run(main())
"""


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"VEGA_OBSERVABLE_SOCKETS": str(folder / "sockets")}


def vega(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "vegakit", *words]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextmanager
def running(folder: Path, words: Sequence[str]) -> "Generator[subprocess.Popen[str]]":
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def test_a_question_outlives_the_kill_of_its_program(folder: Path) -> None:
    """Killed while it waits, resumed, answered: the tool runs once."""
    with running(folder, ["program.py"]) as program:
        asked = line_of(program)
        assert asked.startswith("asked ")
        program.send_signal(signal.SIGKILL)
    resting = vega(folder, "answer", asked.split()[1], "yes")
    assert resting.returncode == 1
    assert "vega resume run.db" in resting.stderr
    with running(folder, ["-m", "vegakit", "resume", "run.db"]) as program:
        assert line_of(program) == asked.replace("asked", "asked before")
        [question] = json.loads(vega(folder, "interrupts", "--json").stdout)
        assert 'pay {\\"amount\\":30}' in json.dumps(question["text"])
        assert not (folder / "paid.txt").exists()
        half = vega(folder, "answer", question["id"][:6], "yes")
        assert "yes is given to a whole id" in half.stderr
        answered = vega(folder, "answer", question["id"], "yes")
        assert answered.stdout == f"answered {question['id']}\n"
        assert line_of(program) == "<untrusted> paid 30 </untrusted>"
        assert program.wait(20) == 0
    late = vega(folder, "answer", question["id"], "yes")
    assert (late.returncode, "of run.db has ended" in late.stderr) == (1, True), late.stderr
    assert len((folder / "paid.txt").read_text().splitlines()) == 1


def test_a_person_says_no(folder: Path) -> None:
    """In words; the agent hears that it may not."""
    with running(folder, ["program.py"]) as program:
        question = line_of(program).split()[1]
        assert question in vega(folder, "interrupts").stdout
        wrong = vega(folder, "answer", question, "perhaps")
        assert "wants yes or no" in wrong.stderr
        assert vega(folder, "answer", question, "no,", "not", "today").returncode == 0
        assert "declined by a person: not today" in line_of(program)
        gone = vega(folder, "answer", question, "yes")
        assert (gone.returncode, (folder / "paid.txt").exists()) == (1, False)


def question(**facts: Any) -> Question:
    given: dict[str, Any] = {
        "id": "0123456789ab",
        "kind": InterruptKind.CONFIRMATION,
        "process": "team/buyer",
        "text": "buyer: pay 30",
        "opened_ms": 0,
        "expires_ms": 3_600_000,
        "permits": True,
        "action": Digest("a"),
    }
    return Question(**given | facts)


def test_a_question_is_shown_with_how_to_answer_it() -> None:
    """And how long there is."""
    assert render_questions([question()], 60_000) == (
        "0123456789ab  confirmation, asked by team/buyer, 59 m left\n"
        "  | buyer: pay 30\n"
        "  $ vega answer 0123456789ab yes|no"
    )
    words = question(kind=InterruptKind.CLARIFICATION, permits=False, expires_ms=None)
    assert render_questions([words], 0).endswith("$ vega answer 0123456789ab 'WORDS'")
    assert render_questions([], 0) == "Nobody is asked anything. To see what runs, type: vega ps"


def test_nothing_of_a_question_is_cut_or_steers_the_terminal() -> None:
    """What is not shown is not approved."""
    shown = render_questions([question(text="a" * 90 + "\x1b[2K\nb")], 0, width=42)
    assert shown.count("a" * 37) == 2
    assert "\x1b" not in shown
    assert "  | aaaaaaaaaaaaaaaa\\u001b[2K\\n\n  | b\n" in shown
    assert max(map(len, shown.splitlines()[1:-1])) == 41
