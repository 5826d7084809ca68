"""Long turns of `vega code`, by the installed wheel: which rounds of calls go on, and which end."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from campaigns.contract.stage import Done, Stage, stage

from vegakit.testing import ProviderReply, ProviderRequest, ProviderToolCall

pytestmark = pytest.mark.timeout(600)

Answer = list[tuple[str, dict[str, Any]]]
READ: Answer = [("read", {"path": "sum.py"})]
TEST: Answer = [("shell", {"command": "cat sum.py; exit 1"})]
FAILS_ALIKE: Answer = [("shell", {"command": "false"})]


def edit(number: int) -> Answer:
    """Another edit each time: the file holds the number of the last one."""
    return [("edit", {"path": "sum.py", "old": f"n = {number}", "new": f"n = {number + 1}"})]


def apart(times: int, look: Answer) -> list[Answer]:
    """Each edit and each look at it is an answer of its own."""
    return [answer for number in range(times) for answer in (edit(number), look)]


def together(times: int, look: Answer) -> list[Answer]:
    return [edit(number) + look for number in range(times)]


class CodingStage(Stage):
    """The model gives `answers` in this order, then it ends its turn."""

    answers: Iterator[Answer]

    def answer(self, request: ProviderRequest) -> ProviderReply:
        calls = [ProviderToolCall(*call) for call in next(self.answers, [])]
        return ProviderReply("" if calls else "Done.", calls, usage=self.usage)

    def turn(self, answers: list[Answer], settings: str = "") -> Done:
        self.answers = iter(answers)
        self.write({"sum.py": "n = 0\n"})
        folder = self.home / ".config" / "vega"
        folder.mkdir(parents=True)
        (folder / "vega.toml").write_text(settings, encoding="utf-8")
        words = ("--model", "fast", "--budget", "$90", "-p", "Go.", "--json")
        return self.run("vega", "code", *words)


def end_of(done: Done) -> dict[str, Any]:
    return json.loads(done.out.splitlines()[-1])


@pytest.mark.parametrize(
    "answers",
    [apart(40, READ), apart(6, TEST), together(6, FAILS_ALIKE)],
    ids=["reads", "tests", "tests that fail alike, in one answer"],
)
def test_the_same_call_after_another_edit_goes_on(wheel: Path, answers: list[Answer]) -> None:
    """However often the call is made."""
    with stage(wheel, CodingStage) as here:
        done = here.turn(answers)
        assert (done.code, end_of(done)["reason"]) == (0, "done"), done
        assert len(here.requests) == len(answers) + 1


@pytest.mark.parametrize(
    ("circle", "most", "settings"),
    [([READ], 5, "[bounds]\nrepeats = 1\n"), ([FAILS_ALIKE, READ], 9, ""), ([READ + TEST], 5, "")],
    ids=["one call", "two in turn", "two in one answer"],
)
def test_the_same_calls_with_the_same_results_end_the_turn(
    wheel: Path, circle: list[Answer], most: int, settings: str
) -> None:
    """At the fifth time; the bounds of programs say nothing about it."""
    with stage(wheel, CodingStage) as here:
        done = here.turn(circle * 20, settings)
        assert (done.code, end_of(done)["reason"]) == (4, "loop"), done
        assert len(here.requests) == most
