"""Quotes of thirty tasks beside what their runs cost: `python -m campaigns.quote_ratios [NN …]`.

Each program is quoted with its arguments and files, as `vega cost FILE ARGS` does, and run once in
the same world. Prices are those of the models that the programs name; a token is taken to be four
bytes, of what is sent and of what is answered. Nothing is paid for. Prints a row for each task and
the figures last; exits 1 when one falls short.
"""

import asyncio
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.figures import Figure, show
from msgspec import Struct

from campaigns.quote_tasks import CASES, Answers, TaskCase, source_of
from vegakit.cli.cost import PriceBook
from vegakit.config import load
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
from vegakit.errors import VegaError, error_name
from vegakit.host import deployment
from vegakit.lang import AgentSpec, KnownRun, Quote, compile_program, quote
from vegakit.lang.frontends import check_program
from vegakit.prices import PAID_REPEATS
from vegakit.providers.scripted import ScriptedModel
from vegakit.records import to_json
from vegakit.sdk import ProjectWorld, Runtime, VegaProgram
from vegakit.testing.harness import VirtualClock, run_virtual

MEDIAN, FEW, MOST_OF_FEW = 25, 20, 50
TYPICAL, LEAST_TYPICAL, MOST_TYPICAL = 24, 0.5, 2.0
_BYTES_A_TOKEN = 4
_STEPS = 3
"""An agent with tools calls one so often, and then answers."""


class TaskRun(Struct):
    """What one task was quoted, and what it came to."""

    task: str
    quoted: Quote
    spent: int = 0
    calls: int = 0
    error: str = ""

    @property
    def ratio(self) -> float:
        total = self.quoted.total
        return float("inf") if total is None or not self.spent else total / self.spent

    @property
    def typical(self) -> float:
        total = self.quoted.typical
        return float("inf") if total is None or not self.spent else total / self.spent


class _Counted(ScriptedModel):
    """One whose input is counted as that of the model it stands for."""

    bound_input: Any


class _Model:
    """The models of one run; what they answer is billed by its length."""

    def __init__(self, case: TaskCase, seed: int, prices: PriceBook, clock: VirtualClock) -> None:
        self._answers, self._prices, self._clock = Answers(case, seed), prices, clock
        self.models: list[ScriptedModel] = []

    def __call__(self, name: str) -> ScriptedModel:
        terms = self._prices(AgentSpec("any", name))
        assert terms is not None
        model = _Counted(
            self._reply,
            name,
            price=terms.price,
            clock=self._clock,
            context_tokens=terms.window,
            default_max_tokens=terms.max_tokens,
        )
        model.bound_input = terms.count
        self.models.append(model)
        return model

    def _reply(self, request: ModelRequest) -> ModelReply:
        taken = len(to_json((request.system, request.tools, request.output, request.messages)))
        most = request.settings.max_tokens
        done = sum(1 for message in request.messages if getattr(message, "tool_calls", ()))
        parts: tuple[Any, ...]
        finish = Finish.STOP
        if request.tools and done < _STEPS:
            tool = request.tools[min(done, len(request.tools) - 1)]
            arguments = dict.fromkeys(tool.parameters.get("properties", {}), "docs/1.md")
            parts, finish = (ToolCall(f"c{done}", tool.name, arguments),), Finish.TOOL_CALLS
        elif request.output is not None:
            parts = (Text(self._answers.of_schema(dict(request.output.json_schema), most)),)
        else:
            parts = (Text(self._answers.text(most)),)
        said = min(len(to_json(parts)) // _BYTES_A_TOKEN, most)
        return ModelReply(
            AssistantMessage(parts, request.model), Usage(taken // _BYTES_A_TOKEN, said), finish
        )


@contextmanager
def _stand_ins(case: TaskCase) -> Generator[None]:
    """Commands and pages that say what the case says."""

    ran: list[str] = []

    async def fetch(_: object, url: str, body: str = "") -> dict[str, Any]:
        return {"status": case.status, "body": case.page}

    async def run(_: object, command: str) -> dict[str, Any]:
        said = next(text for words, text in case.commands.items() if command.startswith(words))
        said = said if isinstance(said, str) else said[min(len(ran), len(said) - 1)]
        ran.append(command)
        return {"code": 0, "out": said, "err": ""}

    async def execute(context: object, command: str) -> str:
        return (await run(context, command))["out"]

    stand_ins: Mapping[str, Any] = {
        "http::get": fetch,
        "http::post": fetch,
        "exec": execute,
        "exec::run": run,
        "exec::look": run,
    }
    with patch.dict(deployment.FUNCTIONS, stand_ins):
        yield


def run_task(task: str, seed: int = 1) -> TaskRun:
    """Quote a task and run it."""
    case = CASES[task]
    checked, found = check_program(source_of(task, case), f"{task}.vega", lambda _: None)
    assert checked is not None, found
    prices = PriceBook(load({}))
    with tempfile.TemporaryDirectory(prefix="vega-quote-") as folder, _stand_ins(case):
        root = Path(folder).resolve()
        for name, text in case.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        known = KnownRun(case.arguments, ProjectWorld(root))
        ran = TaskRun(task, quote(checked, prices, known=known, repeats=PAID_REPEATS, typical=True))
        program = VegaProgram(compile_program(checked), root)
        run_virtual(_run(ran, case, seed, program, prices))
    return ran


async def _run(
    ran: TaskRun, case: TaskCase, seed: int, program: VegaProgram, prices: PriceBook
) -> None:
    clock = VirtualClock()
    model, people = _Model(case, seed, prices, clock), iter(case.people)

    def answer(rt: Runtime, question: Question) -> None:
        said = next(people)
        told = said == "yes" if question.permits else said
        asyncio.ensure_future(rt.answer(question.id, told))  # noqa: RUF006

    async with Runtime("$1000", models=model, clock=clock) as rt:
        rt.on(Question, lambda question: answer(rt, question))
        try:
            await rt.program.run(program, "main", list(case.arguments), None, None)
        except VegaError as error:
            ran.error = f"{error_name(error)}: {error}"
        ran.spent = await rt.spent()
        ran.calls = sum(len(one.requests) for one in model.models)


def main(tasks: list[str]) -> int:
    """Print the table and the figures."""
    rows = [run_task(task) for task in tasks or CASES]
    print("task   at most   typical      real  calls  at most / real  typical / real")
    for row in rows:
        amounts = (row.quoted.total, row.quoted.typical, row.spent)
        shown = "".join(f"{'none' if a is None else f'{a / 1e9:.4f}':>10}" for a in amounts)
        error = f"  {row.error[:60]}" if row.error else ""
        print(f"{row.task:4}{shown}{row.calls:7}{row.ratio:16.1f}{row.typical:16.2f}{error}")
    figures = _figures(rows)
    print("", show(figures), sep="\n")
    return 0 if tasks or all(figure.holds for figure in figures) else 1


def _figures(rows: list[TaskRun]) -> list[Figure]:
    ratios = sorted(row.ratio for row in rows)
    near = sum(ratio <= MOST_OF_FEW for ratio in ratios)
    above = sum(row.ratio < 1 for row in rows)
    typical = sum(LEAST_TYPICAL <= row.typical <= MOST_TYPICAL for row in rows)
    return [
        Figure("tasks", f"{len(rows)}", f"{sum(bool(row.error) for row in rows)} ended in errors"),
        Figure("runs above at most", f"{above}", "= 0", above == 0),
        Figure(
            "at most / real, median",
            f"{median(ratios):.1f}",
            f"≤ {MEDIAN}",
            median(ratios) <= MEDIAN,
        ),
        Figure(f"at most / real ≤ {MOST_OF_FEW}", f"{near}", f"≥ {FEW}", near >= FEW),
        Figure("typical / real in 0.5 to 2", f"{typical}", f"≥ {TYPICAL}", typical >= TYPICAL),
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
