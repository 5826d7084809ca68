"""One run of a program: on virtual time, in a folder of its own, with all that can be seen of it.

Written down by themselves are: what was printed, noted, asked of people and written, in one order;
files; calls of models with what each was charged; refusals for want of money.
"""

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from campaigns.parallel.oracle import Oracle, current_life
from vegakit.control import Question
from vegakit.effects import AskHuman, CallTool, Effect
from vegakit.errors import UserError, VegaError, error_name
from vegakit.events import HostEvent, OutcomeArrived, charged_for
from vegakit.host import LimiterRules
from vegakit.lang import Module, check_program, compile_program
from vegakit.money import dollars
from vegakit.policy import BreakerRule, RateRule, RetryBudgetRule
from vegakit.ports import Model
from vegakit.program import Bounds, Printed, TraceNote, WastedCost
from vegakit.sdk import Runtime, VegaProgram
from vegakit.testing import VirtualClock, run_virtual
from vegakit.vm import Vm, restored, text_of

__all__ = ["Seen", "compiled", "run"]

FILES = {"a/x.txt": "ax", "a/y.txt": "ay", "a/deep/z.txt": "az", "b/x.txt": "bx"}
PATIENCE_S = 1_000
"""Of virtual time; no program takes a tenth of it."""
CALM = LimiterRules(RateRule(), BreakerRule(threshold=1_000_000), RetryBudgetRule(100, 1_000_000))
"""What belongs to the world, and not to the program, never says no."""
_AGAIN = re.compile(r"#\d+(\.\d+)?|(?<=~)-\d+")
"""What it has seen of the world before it, and in which life."""
_TIMES = re.compile(r"\b\d+ ms\b")
_ROOM = re.compile(r"has only \$[\d.,]+ left")
"""What a refusal says of the moment: waste is not left."""
_BUDGETS = ("$100", "$100", "$100", "$0.4", "$0.05", "$0.008")


@dataclass
class Seen:
    """`log` is what others see, in the order in which they see it; `charged` what calls cost by
    their place, at which a call may be made anew; `refused` the tickets of what did not fit."""

    log: list[str] = field(default_factory=list[str])
    result: str = ""
    error: str = ""
    files: dict[str, str] = field(default_factory=dict[str, str])
    charged: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    refused: list[str] = field(default_factory=list[str])
    took_ms: int = 0
    spent: int = 0
    wasted: int = 0

    def add_waste(self, amount: int) -> None:
        self.wasted += amount

    @property
    def told(self) -> str:
        return "\n".join([*self.log, self.error])


def compiled(text: str) -> Module | None:
    """None if it is refused."""
    checked, found = check_program(text, "main.vega", lambda _: None)
    if checked is None or any(one.severity == "error" for one in found):
        return None
    return compile_program(checked)


def run(
    module: Module,
    seed: int,
    window: int,
    *,
    rich: bool = False,
    easy: bool = False,
    given: Sequence[Any] = (),
    tempo: int = 0,
    guesses: bool = True,
) -> Seen:
    """`rich`: no budget around the whole. `easy`: more money than any program can want, and models
    that never fail; what fails is the program's own doing. `tempo`: after other times. `guesses`:
    calls may begin behind guards."""
    seen = Seen()
    folder = Path(tempfile.mkdtemp(prefix="vega-parallel-")).resolve()
    try:
        _lay_out(folder)
        budget = "$100" if rich else _BUDGETS[seed % len(_BUDGETS)]
        with _noting_refusals(seen):
            oracle = partial(Oracle, seed, never_fails=easy, tempo=tempo)
            bounds = Bounds(window=window, guesses=None if guesses else 0)
            run_virtual(_run(seen, module, seed, bounds, folder, budget, given, oracle, easy=easy))
        seen.files = _files(folder)
    finally:
        shutil.rmtree(folder)
    return seen


def _lay_out(folder: Path) -> None:
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")


def _files(folder: Path) -> dict[str, str]:
    return {
        os.path.relpath(path, folder): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@contextmanager
def _noting_refusals(seen: Seen) -> Generator[None]:
    fail = Vm.fail

    def noting(self: Vm, ticket: str, error: str, reason: str, cause: tuple[str, ...] = ()) -> bool:
        if error == "BudgetExceeded":
            seen.refused.append(_AGAIN.sub("", ticket))
        return fail(self, ticket, error, reason, cause)

    Vm.fail = noting
    try:
        yield
    finally:
        Vm.fail = fail


async def _run(
    seen: Seen,
    module: Module,
    seed: int,
    bounds: Bounds,
    folder: Path,
    budget: str,
    given: Sequence[Any],
    oracle: Callable[[str, VirtualClock], Oracle],
    *,
    easy: bool,
) -> None:
    clock = VirtualClock()
    models: dict[str, Oracle] = {}

    def model_of(name: str) -> Model:
        return models.setdefault(name, oracle(name, clock))

    began = clock.now()
    whole, budget = ("$1000000", "$900000") if easy else ("$1000", budget)
    async with Runtime(
        whole, models=model_of, clock=clock, limits=lambda _: CALM, bounds=bounds
    ) as rt:
        rt.gate.chance = _Half()
        rt.on(Printed, lambda news: seen.log.append(_plain(f"print {news.text}")))
        rt.on(TraceNote, lambda news: seen.log.append(f"note {news.kind} {news.text}"))
        rt.on(WastedCost, lambda news: seen.add_waste(news.amount))
        rt.on(Question, lambda question: _answer(rt, question, seed))
        _watch(rt, seen)
        try:
            async with asyncio.timeout(PATIENCE_S):
                result = await rt.program.run(
                    VegaProgram(module, folder), "main", given, dollars(budget), None
                )
            seen.result = text_of(restored(result))
        except TimeoutError:
            seen.error = "it never ends"
        except VegaError as error:
            seen.error = _plain(f"{error_name(error)}: {error}")
        seen.took_ms = clock.now() - began
    seen.spent = await rt.spent()


def _plain(told: str) -> str:
    return _ROOM.sub("has some left", _TIMES.sub("some ms", told))


class _Half(Random):
    def random(self) -> float:
        return 0.5


def _answer(rt: Runtime, question: Question, seed: int) -> None:
    draw = Random(f"{seed} {question.text}").randrange(4)
    answer = draw > 0 if question.permits else f"person {draw}"

    async def give() -> None:
        with suppress(UserError):
            await rt.answer(question.id, answer)

    asyncio.ensure_future(give())  # noqa: RUF006


def _watch(rt: Runtime, seen: Seen) -> None:
    """What the host is asked to begin, and what each call came to."""
    host = rt.program.host
    start, tell = host.start, host.tell

    def starting(effect: Effect, *, speculative: bool = False) -> None:
        match effect.request:
            case CallTool(tool, arguments) if tool.startswith("file::write@"):
                seen.log.append(f"write {arguments['path']} {arguments['content']}")
            case AskHuman(question=question):
                seen.log.append(f"ask {question}")
            case _:
                pass
        current_life.set(effect.path.incarnations[-1].generation if effect.path.incarnations else 0)
        start(effect, speculative=speculative)

    def telling(event: HostEvent) -> None:
        if isinstance(event, OutcomeArrived) and (charge := charged_for(event.outcome)) > 0:
            seen.charged.setdefault(_AGAIN.sub("", str(event.path)), []).append(charge)
        tell(event)

    host.start, host.tell = starting, telling  # pyright: ignore[reportAttributeAccessIssue]
