"""Thirty programs in each syntax that were written from an earlier card alone, without running any:
each works as written, or is refused by `vega check` with edits that make it work.

They are run on virtual time, in the worlds that quotes are measured in (`campaigns.quote_tasks`):
answers of chance by the shape that is asked for, and files, pages, commands and people that a case
says. What a task demands of that is `DEMANDS`. Rights are those of the program: hosts and commands
are refused as they are outside.
"""

import asyncio
import json
import re
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch
from urllib.parse import urlsplit

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from campaigns.quote_tasks import CASES, PROGRAMS, Answers, TaskCase
from vegakit.control import Question
from vegakit.conversation import (
    AssistantMessage,
    Finish,
    ModelReply,
    ModelRequest,
    Text,
    ToolCall,
    Usage,
)
from vegakit.errors import ToolFailed, VegaError, error_name
from vegakit.lang import Diagnostic, check_program, compile_program
from vegakit.ports import CommandResult
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, VegaProgram
from vegakit.testing import VirtualClock, run_virtual
from vegakit.tools import SandboxPool, SandboxSpec
from vegakit.tools.http import FetchRequest, FetchResponse

SUFFIXES: Final = (".vega", ".py")
_MOST_EDITS = 12
_TOOL_CALLS = 3
_USAGE = Usage(20, 5)
_EXAMPLE = '"api.example.com"'


def source_of(task: str, suffix: str) -> str:
    """Return a program as it was written."""
    name = f"{task}{suffix}" if suffix == ".vega" else f"{task}{suffix}.txt"
    return (PROGRAMS / name).read_text(encoding="utf-8")


# What check says, done.


class Repaired(Struct):
    """A program after the edits that check suggested; `left` is an error without one."""

    text: str
    told: list[Diagnostic]
    left: Diagnostic | None = None


def repaired(text: str, file: str, hosts: Sequence[str] = ()) -> Repaired:
    """Apply the edit of the first error until there is none. An example among hosts is replaced by
    those of the run, as the advice says."""
    told = list[Diagnostic]()
    while error := _first_error(text, file):
        edit = error.edit
        if edit is None or len(told) == _MOST_EDITS:
            return Repaired(text, told, error)
        told.append(error)
        written = edit.text
        if "in place of this one" in error.help and hosts:
            written = written.replace(_EXAMPLE, ", ".join(f'"{host}"' for host in hosts))
        text = text[: edit.at] + written + text[edit.end :]
    return Repaired(text, told)


def _first_error(text: str, file: str) -> Diagnostic | None:
    _, found = check_program(text, file, lambda _: None)
    return next((one for one in found if one.severity == "error"), None)


def hosts_of(case: TaskCase) -> list[str]:
    """Return the hosts that the arguments of a case name."""
    urls: list[str] = re.findall(r"https?://[^\s\"]+", json.dumps(case.arguments))
    return list(dict.fromkeys(urlsplit(url).netloc for url in urls))


# A run in the world of a case.


class Outcome(Struct):
    """What a run came to, as seen from outside."""

    result: Any = None
    error: str = ""
    calls: int = 0
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    posts: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    commands: list[str] = field(default_factory=list[str])
    questions: int = 0


def run_in_world(text: str, file: str, case: TaskCase) -> Outcome:
    """Run a program that checks."""
    checked, _ = check_program(text, file, lambda _: None)
    assert checked is not None, file
    seen = Outcome()
    with tempfile.TemporaryDirectory(prefix="vega-earlier-") as folder:
        root = Path(folder).resolve()
        for name, content in case.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content, encoding="utf-8")
        program = VegaProgram(compile_program(checked), root)
        with _pages(case, seen):
            run_virtual(_run(program, case, seen))
        seen.files = {
            path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
    return seen


async def _run(program: VegaProgram, case: TaskCase, seen: Outcome) -> None:
    clock = VirtualClock()
    answers, people = Answers(case, 1), iter(case.people)

    def answer(rt: Runtime, question: Question) -> None:
        seen.questions += 1
        if (said := next(people, None)) is not None:
            told = said == "yes" if question.permits else said
            asyncio.ensure_future(rt.answer(question.id, told))  # noqa: RUF006

    def model(name: str) -> ScriptedModel:
        return ScriptedModel(lambda request: _reply(answers, request, seen), name, clock=clock)

    rt = Runtime("$1000", models=model, clock=clock)
    rt.sandboxes = _Commands(rt, case, seen)
    async with rt:
        rt.on(Question, lambda question: answer(rt, question))
        try:
            result = await rt.program.run(program, "main", list(case.arguments), None, None)
            seen.result = to_builtins(result)
        except VegaError as error:
            seen.error = f"{error_name(error)}: {error}"


def _reply(answers: Answers, request: ModelRequest, seen: Outcome) -> ModelReply:
    seen.calls += 1
    done = sum(1 for message in request.messages if getattr(message, "tool_calls", ()))
    if request.tools and done < _TOOL_CALLS:
        tool = request.tools[min(done, len(request.tools) - 1)]
        arguments = dict.fromkeys(tool.parameters.get("properties", {}), "docs/1.md")
        call = ToolCall(f"c{done}", tool.name, arguments)
        message = AssistantMessage((call,), request.model)
        return ModelReply(message, _USAGE, Finish.TOOL_CALLS)
    most = request.settings.max_tokens
    said = (
        answers.text(most)
        if request.output is None
        else answers.of_schema(dict(request.output.json_schema), most)
    )
    return ModelReply(AssistantMessage((Text(said),), request.model), _USAGE, Finish.STOP)


@contextmanager
def _pages(case: TaskCase, seen: Outcome) -> Generator[None]:
    """Pages of the case behind the rights of the program; what is posted is taken."""

    async def send(request: FetchRequest, *_: object) -> FetchResponse:
        if request.method == "POST":
            seen.posts.append((request.url, json.loads(request.body)))
            return FetchResponse(request.url, 202, (), b"")
        return FetchResponse(request.url, case.status, (), case.page.encode())

    async def anywhere(*_: object) -> tuple[()]:
        return ()

    room = "vegakit.tools.http"
    with patch(f"{room}._sender", lambda: send), patch(f"{room}.reachable_addresses", anywhere):
        yield


class _Commands(SandboxPool):
    """Commands that say what the case says; one whose tests failed ends with exit code 1."""

    def __init__(self, rt: Runtime, case: TaskCase, seen: Outcome) -> None:
        super().__init__(rt.children, rt.clock, str)
        self._case, self._seen = case, seen

    async def run(
        self,
        argv: Sequence[str],
        spec: SandboxSpec,
        said: bytes = b"",
        on_output: Callable[[bytes], object] | None = None,
    ) -> CommandResult:
        """Return what the case says of the command, one after the other."""
        name = " ".join(argv)
        given = next(
            (one for words, one in self._case.commands.items() if name.startswith(words)), None
        )
        if given is None:
            raise ToolFailed(f"there is no command {name!r}")
        turn = sum(one.split()[0] == name.split()[0] for one in self._seen.commands)
        text = given if isinstance(given, str) else given[min(turn, len(given) - 1)]
        self._seen.commands.append(name)
        return CommandResult(int(text.endswith("failed")), text, "", 1)


# What the tasks demand of these worlds.


Holds = Callable[[Outcome, TaskCase], bool]


def _is_text(seen: Outcome, _: TaskCase) -> bool:
    return isinstance(seen.result, str) and len(seen.result) > 0


def _same_file(path: str) -> Holds:
    return lambda seen, _: _is_text(seen, _) and seen.files.get(path) == seen.result


def _review(seen: Outcome, _: TaskCase) -> bool:
    text = seen.files["out/review.md"]
    return text.count("[high]") == seen.result and f"high: {seen.result}," in text


def _rewritten(seen: Outcome, case: TaskCase) -> bool:
    changed = sum(seen.files[path] != text for path, text in case.files.items())
    return 0 < changed == len(case.files) - len(seen.result)


def _cleaned(seen: Outcome, _: TaskCase) -> bool:
    good, bad = (seen.files[f"data/{name}.csv"].splitlines() for name in ("clean", "bad"))
    return len(good) - 1 == seen.result and len(bad) == seen.calls - seen.result


def _translated(seen: Outcome, case: TaskCase) -> bool:
    made = [json.loads(seen.files[path]) for path in seen.files if path.startswith("out/")]
    keys = json.loads(case.files["catalogue.json"])
    return len(made) == 3 and all(one.keys() == keys.keys() for one in made)


DEMANDS: Final[Mapping[str, tuple[int, Holds]]] = {
    "01": (51, _same_file("out/summary.md")),
    "02": (12, _review),
    "03": (200, lambda seen, case: [*seen.result] == [one["id"] for one in case.arguments[0]]),
    "04": (8, _is_text),
    "05": (7, lambda seen, _: seen.result["winner"] in ("pro", "con")),
    "06": (2, lambda seen, _: seen.result is True and len(seen.commands) == 3),
    "07": (120, _translated),
    "08": (2, lambda seen, _: seen.result["total"] == 0.0),
    "09": (2, lambda seen, _: seen.result is True and len(seen.posts) == 1),
    "10": (3, lambda seen, _: seen.result == 3),
    "11": (60, lambda seen, _: seen.result is None),
    "12": (7, lambda seen, _: 0 < seen.result["share"] <= 1),
    "13": (15, lambda seen, case: seen.result in case.arguments[1]),
    "14": (16, _is_text),
    "15": (20, _is_text),
    "16": (60, _cleaned),
    "17": (26, _rewritten),
    "18": (14, lambda seen, _: seen.files["out/newsletter.md"].count("\n### [") == 5),
    "19": (1, lambda seen, _: seen.result == 1.0 and len(seen.posts) == 1),
    "20": (40, lambda seen, case: [*seen.result] == case.arguments[0]),
    "21": (96, lambda seen, case: len(seen.result) == len(case.arguments[0])),
    "22": (200, lambda seen, _: [*seen.result] == [f"c{nth}" for nth in range(5)]),
    "23": (6, _is_text),
    "24": (1, lambda seen, _: seen.result.startswith("## ")),
    "25": (31, _is_text),
    "26": (13, _is_text),
    "27": (13, lambda seen, _: len(seen.result) >= 10),
    "28": (7, lambda seen, _: seen.result.startswith("| claim | verdict | source |\n|---")),
    "29": (15, _same_file("CHANGELOG.md")),
    "30": (20, lambda seen, case: len(seen.result) == len(case.arguments[0])),
}
"""By task, how often models are asked in its world, and what else has to be so."""
SILENT: Final[Mapping[str, Holds]] = {
    "09": lambda seen, _: seen.result is False and not seen.posts,
    "10": lambda seen, _: seen.calls == 0,
    "29": lambda seen, _: seen.files["CHANGELOG.md"].startswith("# Changes since v1.2\n\n## "),
}
"""The same where nobody answers: nothing is sent, asked or overwritten for it."""


class Judged(Struct):
    """A program: what check said of it as it was written, and what is wrong after its edits."""

    told: list[Diagnostic]
    fault: str = ""


def judged(task: str, suffix: str) -> Judged:
    """Check, repair and run a program."""
    case, file = CASES[task], f"{task}{suffix}"
    made = repaired(source_of(task, suffix), file, hosts_of(case))
    if made.left is not None:
        return Judged([*made.told, made.left], f"no edit for {made.left.code}")
    return Judged(made.told, _fault(task, made.text, file, case))


def _fault(task: str, text: str, file: str, case: TaskCase) -> str:
    seen = run_in_world(text, file, case)
    calls, holds = DEMANDS[task]
    if seen.error:
        return seen.error.partition("\n")[0]
    if seen.calls != calls or not holds(seen, case):
        return f"{seen.calls} calls, {json.dumps(seen.result)[:80]}"
    if task in SILENT:
        alone = run_in_world(text, file, replace(case, people=()))
        return "" if SILENT[task](alone, case) else f"where nobody answers: {alone.result}"
    return ""


def rows() -> dict[str, list[Judged]]:
    """Return what became of each program, by task: one for each syntax."""
    return {task: [judged(task, suffix) for suffix in SUFFIXES] for task in CASES}


def table(found: Mapping[str, Sequence[Judged]]) -> str:
    """Return the table of the page: what is told of each program that is not right as it stands."""
    lines = [
        "| task | `.vega` is told | and then | Python is told | and then |",
        "|---|---|---|---|---|",
    ]
    for task, pair in found.items():
        if any(one.told for one in pair):
            lines.append(f"| {task} | {' | '.join(map(_cells, pair))} |")
    return "\n".join(lines)


def _cells(one: Judged) -> str:
    names = ("`Max`" if "`Max`" in told.message else f"`{told.code}`" for told in one.told)
    codes = ", ".join(dict.fromkeys(names))
    return f"{codes or 'nothing'} | {one.fault or 'works'}"


def figures(found: Mapping[str, Sequence[Judged]]) -> list[str]:
    """Return a line for each syntax."""
    lines = list[str]()
    for nth, shown in enumerate((".vega", "Python")):
        column = [pair[nth] for pair in found.values()]
        stands = sum(not one.told and not one.fault for one in column)
        edited = sum(bool(one.told) and not one.fault for one in column)
        lines.append(
            f"{shown}, earlier 30: {stands} work as written, {edited} with the edits of check, "
            f"{len(column) - stands - edited} do not (wanted 0)"
        )
    return lines


if __name__ == "__main__":
    made = rows()
    print(table(made), "", *figures(made), sep="\n")
