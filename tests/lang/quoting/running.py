"""A program quoted, then run at its worst."""

import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from tests.lang.quoting.spite import Spite
from tests.lang.quoting.writing import FLAGS
from vegakit.errors import VegaError
from vegakit.host.limiter import LimiterRules
from vegakit.lang.analysis.cost_sends import ModelTerms, Quote
from vegakit.lang.analysis.quotes import quote
from vegakit.lang.check.symbols import Checked
from vegakit.lang.codegen.bytecode import Module
from vegakit.lang.codegen.compiler import compile_program
from vegakit.lang.frontends import check_program
from vegakit.money import dollars
from vegakit.policy import BreakerRule, RateRule, RetryBudgetRule
from vegakit.prices import PAID_REPEATS
from vegakit.sdk.programs import VegaProgram
from vegakit.sdk.runtime import Runtime
from vegakit.testing.harness import VirtualClock, run_virtual

_PATIENT = LimiterRules(RateRule(), BreakerRule(threshold=10**9), RetryBudgetRule(100, 10**9))
"""A provider is not left alone, however often it fails."""


@dataclass
class Came:
    quote: Quote
    spent: int
    calls: int
    error: str

    @property
    def holds(self) -> bool:
        total, calls = self.quote.total, self.quote.calls
        most = None if calls is None else calls + (self.quote.paid_repeats or 0)
        return (total is None or self.spent <= total) and (most is None or self.calls <= most)

    @property
    def ratio(self) -> float | None:
        """What was quoted, to what was spent; None where there is no bound."""
        total = self.quote.total
        if total is None:
            return None
        return total / self.spent if self.spent else (1.0 if total == 0 else float("inf"))

    @property
    def is_payable(self) -> bool:
        """Every send of it fits its budgets, if only at the first time."""
        return all(line.calls != 0 for line in self.quote.lines)


def checked_of(text: str) -> Checked:
    checked, found = check_program(text, "main.vega", lambda _: None)
    errors = [one for one in found if one.severity == "error"]
    assert not errors, f"{errors[:2]}\n{text}"
    assert checked is not None
    return checked


def quoted(checked: Checked, spite: Spite) -> Quote:
    model = spite.model
    assert model.price is not None
    terms = ModelTerms(
        model.price, model.context_tokens, model.default_max_tokens, model.bound_input
    )
    return quote(checked, lambda _: terms, repeats=PAID_REPEATS)


Prepare: TypeAlias = Callable[[Runtime, VegaProgram], AbstractAsyncContextManager[VegaProgram]]
"""Changes a program before it is run."""


@asynccontextmanager
async def as_it_is(rt: Runtime, program: VegaProgram) -> AsyncGenerator[VegaProgram]:
    yield program


def at_its_worst(text: str, seed: int = 0, prepare: Prepare = as_it_is) -> Came:
    checked = checked_of(text)
    told = quoted(checked, Spite(seed))
    spite = Spite(seed, clock=VirtualClock(), pool=_pool(told, seed))
    flags = [Random(seed).random() < 0.5 for _ in range(FLAGS)]
    return _came(compile_program(checked), told, spite, flags, prepare)


def _pool(told: Quote, seed: int) -> int | None:
    """Return how many repeats the model makes: those of the pool, or now and then as many as it
    can, so that sends fail for want of one."""
    return None if seed % 4 == 0 else told.paid_repeats


def worst_of(text: str, tries: int, enough: float = 1.1) -> Came:
    """The most expensive run of so many; fewer where one comes close to the quote."""
    checked = checked_of(text)
    module, told, worst = compile_program(checked), quoted(checked, Spite(0)), None
    if not Came(told, 0, 0, "").is_payable:
        return Came(told, 0, 0, "")
    dearest = 0
    for seed in range(tries):
        chance = Random(seed)
        temper, bias = _temper(chance, seed), chance.random()
        flags = [chance.random() < bias for _ in range(FLAGS)]
        clock = VirtualClock() if seed % 2 else None
        least = dearest * chance.choice([0, 0.5, 0.8, 0.95, 1])
        spite = Spite(seed, temper, clock, told.paid_repeats, least)
        came = _came(module, told, spite, flags)
        dearest = max(dearest, spite.dearest)
        worst = came if worst is None or came.spent > worst.spent else worst
        if not came.holds or (worst.ratio is not None and worst.ratio <= enough):
            return came if not came.holds else worst
    assert worst is not None
    return worst


def _temper(chance: Random, seed: int) -> tuple[float, float, float]:
    first = [(0.0, 0.0, 0.0), (0.9, 0.0, 0.0), (0.3, 0.0, 0.0), (0.0, 0.3, 0.0)]
    if seed < len(first):
        return first[seed]
    return chance.choice([0, 0.1, 0.5, 1]), chance.choice([0, 0.1, 0.3]), chance.choice([0, 0.5])


def _came(
    module: Module, told: Quote, spite: Spite, flags: list[bool], prepare: Prepare = as_it_is
) -> Came:
    came = Came(told, 0, 0, "")
    with tempfile.TemporaryDirectory(prefix="vega-quote-") as folder:
        run_virtual(_run(came, module, spite, flags, Path(folder), prepare))
    return came


async def _run(
    came: Came, module: Module, spite: Spite, flags: list[bool], root: Path, prepare: Prepare
) -> None:
    clock = VirtualClock()
    parts: Any = {"models": lambda _: spite.model, "limits": lambda _: _PATIENT, "clock": clock}
    async with Runtime("$1000", **parts) as rt:
        given: list[object] = [["u", "v", "w"], flags]
        given = given[: len(module.functions[module.main].params)]
        try:
            async with prepare(rt, VegaProgram(module, root)) as program:
                await rt.program.run(program, "main", given, dollars("$100"), None)
        except VegaError as error:
            came.error = f"{type(error).__name__}: {error}"
        came.spent, came.calls = await rt.spent(), len(spite.model.requests)
