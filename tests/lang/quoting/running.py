"""A program quoted, then run at its worst."""

import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace as replaced
from itertools import pairwise
from math import inf
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from msgspec.structs import replace

from tests.lang.quoting.spite import KINDS, Spite, Temper
from tests.lang.quoting.writing import FLAGS
from vegakit.errors import VegaError
from vegakit.host import LimiterRules
from vegakit.lang import (
    Checked,
    KnownRun,
    ModelTerms,
    Module,
    Quote,
    check_program,
    compile_program,
    quote,
    sends_of,
)
from vegakit.money import Money, dollars
from vegakit.policy import BreakerRule, RateRule, RetryBudgetRule
from vegakit.ports import RunQuote, tokenizer_of
from vegakit.prices import PAID_REPEATS
from vegakit.program import Action, Event
from vegakit.sdk import ProjectWorld, Runtime, VegaProgram
from vegakit.testing import VirtualClock, run_virtual

_PATIENT = LimiterRules(RateRule(), BreakerRule(threshold=10**9), RetryBudgetRule(100, 10**9))
"""A provider is not left alone, however often it fails."""


@dataclass
class Came:
    quote: Quote
    spent: int
    calls: int
    error: str
    saved: tuple[int, ...] = ()
    """By how much the quote was lower, after each step."""

    @property
    def live(self) -> tuple[int, ...]:
        """What the run could still come to at most, after each step."""
        quoted = RunQuote(Money(self.quote.total or 0))
        return tuple(quoted.bound(saved) or 0 for saved in self.saved)

    @property
    def live_holds(self) -> bool:
        """It only falls, from what was quoted, and is never below what is spent in the end."""
        falls = all(later <= before for before, later in pairwise(self.live))
        return falls and self.live[0] <= (self.quote.total or 0) and self.live[-1] >= self.spent

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


def quoted(checked: Checked, spite: Spite, known: KnownRun | None = None) -> Quote:
    model = spite.model
    assert model.price is not None
    terms = ModelTerms(
        model.price,
        model.context_tokens,
        model.default_max_tokens,
        model.bound_input,
        tokenizer=tokenizer_of(model),
    )
    return quote(checked, lambda _: terms, known=known, repeats=PAID_REPEATS)


Prepare: TypeAlias = Callable[[Runtime, VegaProgram], AbstractAsyncContextManager[VegaProgram]]
"""Changes a program before it is run."""


@asynccontextmanager
async def as_it_is(rt: Runtime, program: VegaProgram) -> AsyncGenerator[VegaProgram]:
    yield program


def at_its_worst(text: str, seed: int = 0, prepare: Prepare = as_it_is) -> Came:
    """Every third is quoted with its arguments, and has the pool of that quote."""
    checked, flags = checked_of(text), [Random(seed).random() < 0.5] * FLAGS
    module, known = compile_program(checked), None
    if seed % 3 == 0:
        given = (["u", "v", "w"], flags)[: len(module.functions[module.main].params)]
        known = KnownRun(given, ProjectWorld(Path()))
        module = replace(module, sends=sends_of(checked, known))
    told = quoted(checked, Spite(seed), known)
    spite = Spite(seed, clock=VirtualClock(), pool=_pool(told, seed))
    return _came(module, told, spite, flags, prepare)


def _pool(told: Quote, seed: int) -> int | None:
    """Return how many repeats the model makes: those of the pool, or now and then as many as it
    can, so that sends fail for want of one."""
    return None if seed % 4 == 0 else told.paid_repeats


def worst_of(text: str, tries: int, enough: float = 1.1) -> Came:
    """The most expensive run of so many; fewer where one comes close to the quote. Every other one
    changes a little of the most expensive one before it."""
    checked = checked_of(text)
    module, told = compile_program(checked), quoted(checked, Spite(0))
    worst = Came(told, 0, 0, "")
    if not worst.is_payable:
        return worst
    costliest, best = 0, _Way.by_chance(0)
    for seed in range(tries):
        is_near = seed >= len(_FIRST) and seed % 2
        way = best.changed(Random(seed), text.count("is[")) if is_near else _Way.by_chance(seed)
        clock = VirtualClock() if way.is_slow else None
        spite = Spite(way.seed, way.temper, clock, told.paid_repeats, costliest * way.least)
        came = _came(module, told, spite, way.flags)
        costliest = max(costliest, spite.costliest)
        if came.spent > worst.spent:
            worst, best = came, way
        if not came.holds or (worst.ratio is not None and worst.ratio <= enough):
            return came if not came.holds else worst
    return worst


_FIRST = [Temper(0, 0, 0), Temper(0.9, 0, 0), Temper(0.3, 0, 0), Temper(0, 0.3, 0)]


@dataclass(frozen=True)
class _Way:
    """How a program is run: by what model, and which of its branches are taken. Repeats are for
    requests that cost a share of the costliest one, `least`."""

    seed: int
    temper: Temper
    flags: list[bool]
    is_slow: bool
    least: float

    @classmethod
    def by_chance(cls, seed: int) -> "_Way":
        chance = Random(seed)
        temper = _FIRST[seed] if seed < len(_FIRST) else _temper(chance)
        bias = chance.random()
        flags = [chance.random() < bias for _ in range(FLAGS)]
        return cls(seed, temper, flags, bool(seed % 2), chance.choice(_SHARES))

    def changed(self, chance: Random, flags: int) -> "_Way":
        """Return the same with another branch, another temper or other luck."""
        kind = chance.choice(["seed", "least", "bills", *["temper", "flag"] * 2])
        if kind == "flag" and flags:
            at = chance.randrange(flags)
            return replaced(self, flags=[is_on != (n == at) for n, is_on in enumerate(self.flags)])
        if kind == "temper":
            other, name = _temper(chance), chance.choice(Temper._fields)
            return replaced(self, temper=self.temper._replace(**{name: getattr(other, name)}))
        if kind == "bills":
            bills = [*self.temper.bills]
            bills[chance.randrange(KINDS)] = chance.choice(_BILLS)
            return replaced(self, temper=self.temper._replace(bills=tuple(bills)))
        if kind == "least":
            return replaced(self, least=chance.choice(_SHARES))
        return replaced(self, seed=chance.randrange(10**6), is_slow=chance.random() < 0.5)


_SHARES = [0, 0.5, 0.8, 0.95, 1, 2]
_BILLS = [0, 0.3, 0.45, 1]


def _temper(chance: Random) -> Temper:
    fails, is_short = chance.choice([0, 0.1, 0.5, 1]), chance.choice([0, 0.1, 0.3])
    is_empty, rounds = chance.choice([0, 0, 0, 0.5]), chance.choice([None, 0, 1, 2, inf])
    says_no, is_even = chance.choice([0, 0.5]), chance.random() < 0.7
    bills = tuple(1 if is_even else chance.choice([*_BILLS, 1]) for _ in range(KINDS))
    return Temper(fails, is_short, says_no, is_empty, rounds, bills)


def _came(
    module: Module, told: Quote, spite: Spite, flags: list[bool], prepare: Prepare = as_it_is
) -> Came:
    came = Came(told, 0, 0, "")
    with tempfile.TemporaryDirectory(prefix="vega-quote-") as folder:
        run_virtual(_run(came, module, spite, flags, Path(folder), prepare))
    return came


def generous_run(text: str, seed: int) -> Came:
    """Run a program by a model that now and then makes it as expensive as it can, and now and then
    bills little, says little and fails."""
    checked, chance = checked_of(text), Random(seed)
    told = quoted(checked, Spite(0))
    fails, is_short = chance.choice([0, 0.1, 0.5]), chance.choice([0.1, 0.5, 0.9])
    temper = Temper(fails, is_short, chance.choice([0, 0.5]))
    clock = VirtualClock() if seed % 2 else None
    spite = Spite(seed, temper, clock, chance.choice([0, told.paid_repeats]))
    flags = [chance.random() < 0.5 for _ in range(FLAGS)]
    return _came(compile_program(checked), told, spite, flags)


async def _run(
    came: Came, module: Module, spite: Spite, flags: list[bool], root: Path, prepare: Prepare
) -> None:
    clock = VirtualClock()
    parts: Any = {"models": lambda _: spite.model, "limits": lambda _: _PATIENT, "clock": clock}
    async with Runtime("$1000", **parts) as rt:
        given: list[object] = [["u", "v", "w"], flags]
        given = given[: len(module.functions[module.main].params)]
        saved = _watched(rt)
        try:
            async with prepare(rt, VegaProgram(module, root)) as program:
                await rt.program.run(program, "main", given, dollars("$100"), None)
        except VegaError as error:
            came.error = f"{type(error).__name__}: {error}"
        came.spent, came.calls = await rt.spent(), len(spite.model.requests)
        came.saved = (*saved, rt.program.machine.state.saved)


def _watched(rt: Runtime) -> list[int]:
    """Return a list to which each step of the machine adds what was saved by then."""
    machine, saved = rt.program.machine, list[int]()
    step = machine.step

    def watched(event: Event, now: int) -> list[Action]:
        actions = step(event, now)
        saved.append(machine.state.saved)
        return actions

    machine.step = watched
    return saved
