"""Nothing before an answer, little before a guard: `python -m campaigns.consent [PROGRAMS | full]`.

Random programs ask persons, and have guards, in every place: inline, in helpers and tools, nested,
behind `as`, in `try` and `catch`, in tools that a model calls. They run on the scripted model in
virtual time: one call after another, and side by side with three limits on guesses. In each run

- no call begins that stands behind a question before that is answered;
- calls that were begun behind guards and not used cost no more than the limit;
- what is printed, asked and raised is that of the run in order.

Then faults are planted, each of which must be found. Prints a table of time and waste, and its
figures last; exits 1 when one falls short.
"""

import asyncio
import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import Figure, show
from msgspec import Struct, field

from campaigns.consent_programs import places_of, program
from campaigns.parallel.running import CALM, compiled
from vegakit.control import Question
from vegakit.conversation import (
    ModelReply,
    ModelRequest,
    Text,
    ToolMessage,
    Usage,
    UserMessage,
)
from vegakit.errors import ErrorClass, UserError, VegaError, error_name
from vegakit.lang import EffectSet, Module, Op, SpeculationRules
from vegakit.money import dollars
from vegakit.prices import PriceRow, PriceTier
from vegakit.program import Bounds, Printed, WastedCost
from vegakit.program.speculation import Speculation
from vegakit.providers import ScriptedModel
from vegakit.providers.scripted import ReplySpec
from vegakit.sdk import Runtime, VegaProgram
from vegakit.testing import VirtualClock, run_virtual
from vegakit.vm import lookahead, strict_lookahead
from vegakit.vm.module_facts import COLD, KNOWN_FACTS

__all__ = ["FAULTS", "found_by", "look_at", "main", "planted"]

PROGRAMS, ALL_PROGRAMS = 1_000, 10_000
MOST_FOR_A_FAULT = 150
IN, OUT = dollars("$3"), dollars("$15")
PRICE = PriceRow("scripted", (PriceTier(IN, OUT, cache_read=IN, cache_write=IN),))
USAGE = Usage(2, 300)
"""Of each answer to `Work`, which is as long as it may be."""
ANSWER_MS, CALL_MS = 700, 400
YES, FAILS = 80, 40
"""Of a hundred guards and questions so many say yes, of a hundred shaky calls so many fail."""
CAP = "$20"
LIMITS: dict[str, int | None] = {"0": 0, "default": None, "unlimited": dollars("$1000")}
"""Limits on guesses; None is what holds where nobody says one."""


class Seen(Struct):
    """One run. `began` and `answered` are places with the moment, counted over both; `printed` is
    in order with what was asked. `most` is the most that was ever at stake."""

    printed: list[str] = field(default_factory=list[str])
    asked: list[str] = field(default_factory=list[str])
    began: list[tuple[tuple[int, ...], int]] = field(
        default_factory=list[tuple[tuple[int, ...], int]]
    )
    answered: list[tuple[tuple[int, ...], int]] = field(
        default_factory=list[tuple[tuple[int, ...], int]]
    )
    moments: int = 0
    error: str = ""
    took_ms: int = 0
    wasted: int = 0
    most: int = 0
    limit: int = 0

    def moment(self) -> int:
        """Count what happens."""
        self.moments += 1
        return self.moments


class Looked(NamedTuple):
    """What a program came to: `problems`, and time and waste by limit."""

    seed: int
    problems: tuple[str, ...]
    questions: int
    calls: int
    took_ms: dict[str, int]
    wasted: dict[str, int]


def _asked_in(request: ModelRequest) -> tuple[str, bool]:
    """Return what a model is asked, and whether it has called a tool already."""
    asked = [one for one in request.messages if isinstance(one, UserMessage)][-1]
    text = "".join(part.text for part in asked.parts if isinstance(part, Text))
    return text, isinstance(request.messages[-1], ToolMessage)


class _World:
    """Answers calls and questions by their places, so that equal ones get equal answers."""

    def __init__(self, seed: int, seen: Seen) -> None:
        self._seed = seed
        self._seen = seen

    def draw(self, text: str) -> int:
        """Return a number below 100 that follows from the place."""
        word = f"{self._seed} {places_of(text)}"
        return int.from_bytes(blake2b(word.encode(), digest_size=4).digest()) % 100

    def begin(self, request: ModelRequest) -> int:
        """Note that a call begins, and return how long it takes."""
        text, has_asked = _asked_in(request)
        if not has_asked:
            self._seen.began.append((places_of(text), self._seen.moment()))
        latency_ms = CALL_MS + 10 * self.draw(text)
        return latency_ms // 2 if text.startswith("guard") else latency_ms

    def reply(self, request: ModelRequest) -> ReplySpec:
        """Return what a model says."""
        text, has_asked = _asked_in(request)
        if text.startswith("guard"):
            return "yes" if self.draw(text) < YES else "no"
        if text.startswith("shaky") and self.draw(text) < FAILS:
            return {"error": ErrorClass.REJECTED}
        if text.startswith("asker") and not has_asked and self.draw(text) < YES:
            place = ".".join(map(str, places_of(text)))
            return {"calls": [{"name": "person", "arguments": {"place": place}}]}
        said = {"text": f"word {self.draw(text)}"}
        return {**said, "usage": USAGE} if text.startswith("work") else said

    def answer(self, rt: Runtime, question: Question) -> None:
        """Answer a question after a while."""
        self._seen.asked.append(question.text)
        agrees = self.draw(question.text) < YES
        said: Any = agrees if question.permits else ("GO" if agrees else "STAY")

        async def give() -> None:
            await asyncio.sleep(ANSWER_MS / 1_000)
            self._seen.answered.append((places_of(question.text), self._seen.moment()))
            with suppress(UserError):
                await rt.answer(question.id, said)

        asyncio.ensure_future(give())  # noqa: RUF006


class _TimedModel(ScriptedModel):
    """A scripted model that takes its time, and says when it is asked."""

    def __init__(self, world: _World, name: str, clock: VirtualClock) -> None:
        super().__init__(world.reply, name=f"scripted:{name}", price=PRICE, clock=clock)
        self._world = world

    async def ask(self, request: ModelRequest) -> ModelReply:
        await asyncio.sleep(self._world.begin(request) / 1_000)
        return await super().ask(request)


def run(module: Module, seed: int, *, window: int, guesses: int | None) -> Seen:
    """Return what a run of the program did."""
    seen = Seen()
    run_virtual(_run(module, _World(seed, seen), seen, Bounds(window=window, guesses=guesses)))
    return seen


async def _run(module: Module, world: _World, seen: Seen, bounds: Bounds) -> None:
    clock = VirtualClock()
    began = clock.now()
    names = ("guard", "work", "shaky", "asker")
    models = {name: _TimedModel(world, name, clock) for name in names}
    async with Runtime(
        CAP, models=models.__getitem__, clock=clock, limits=lambda _: CALM, bounds=bounds
    ) as rt:
        rt.on(Printed, lambda news: seen.printed.append(news.text))
        rt.on(WastedCost, partial(_add_waste, seen))
        rt.on(Question, partial(world.answer, rt))
        try:
            await rt.program.run(VegaProgram(module, Path()), "main", [], None, None)
        except VegaError as error:
            seen.error = error_name(error)
        seen.took_ms = clock.now() - began
        state = rt.program.machine.state
    seen.most, seen.limit = state.guesses.peak, state.bounds.guesses or 0


def _add_waste(seen: Seen, news: WastedCost) -> None:
    seen.wasted += news.amount


def look_at(seed: int) -> Looked:
    """Run a program in order and with each limit, and return what does not hold."""
    strict_lookahead(on=True)
    calm = seed % 2 == 0
    module = compiled(program(seed, calm=calm))
    assert module is not None, f"program {seed} does not compile"
    in_order = run(module, seed, window=0, guesses=0)
    took_ms, wasted = {"in order": in_order.took_ms}, {"in order": in_order.wasted}
    problems = [f"in order: {one}" for one in _too_early(in_order)]
    for name, limit in LIMITS.items():
        seen = run(module, seed, window=64, guesses=limit)
        took_ms[name], wasted[name] = seen.took_ms, seen.wasted
        found = [*_too_early(seen), *_too_much(seen, name, calm=calm), *_differs(seen, in_order)]
        problems += [f"limit {name}: {one}" for one in found]
    questions, calls = len(in_order.asked), len(in_order.began)
    return Looked(seed, tuple(problems), questions, calls, took_ms, wasted)


def _too_early(seen: Seen) -> Generator[str]:
    """Yield the calls that began before a question was answered which stands before them."""
    for place, answered in seen.answered:
        for call, began in seen.began:
            if call > place and began < answered:
                yield f"the call at {call} began before the question at {place} was answered"


def _too_much(seen: Seen, limit: str, *, calm: bool) -> Generator[str]:
    """Yield what was wasted above the limit. Where calls fail, what was begun behind those is
    wasted besides."""
    if limit == "unlimited":
        return
    most = max(seen.limit, 2 * MOST_OF_A_CALL if limit == "default" else 0)
    if seen.most > most:
        yield f"{seen.most} at stake, and at most {most} may be"
    if calm and seen.wasted > most:
        yield f"{seen.wasted} wasted, and at most {most} may be"


MOST_OF_A_CALL = dollars("$0.03")
"""More than the dearest call of a program could cost, with all its attempts."""


def _differs(seen: Seen, in_order: Seen) -> Generator[str]:
    for name in ("printed", "asked", "error"):
        mine, theirs = getattr(seen, name), getattr(in_order, name)
        if mine != theirs:
            yield f"{name} {mine!r}, in order {theirs!r}"
    if seen.took_ms > in_order.took_ms:
        yield f"it took {seen.took_ms} ms, in order {in_order.took_ms} ms"


# Faults, each of which a program must show.


def _never(*_: Any, **_options: Any) -> bool:
    return False


def _always(*_: Any) -> bool:
    return True


def _helpers_do_not_hold(put: Callable[[Any, Any, Any], None]) -> None:
    """A question holds back what is behind it in its own function alone."""
    ask = lookahead.OPS[COLD + Op.HOST]

    def host(vm: Any, task: Any, frame: Any, operands: Any) -> int | None:
        is_question = operands[1].startswith("human::")
        if is_question and len(task.frames) > 1:
            frame.registers[operands[0]] = True
            return None
        return ask(vm, task, frame, operands)

    put(lookahead.OPS, COLD + Op.HOST, host)


def _catches_do_not_hold(put: Callable[[Any, Any, Any], None]) -> None:
    put(SpeculationRules, "asks_on_failure", _never)


def _models_may_ask(put: Callable[[Any, Any, Any], None]) -> None:
    def conflict(one: EffectSet, other: EffectSet) -> bool:
        return False

    put(lookahead, "conflict", conflict)


def _casts_are_no_guards(put: Callable[[Any, Any, Any], None]) -> None:
    put(SpeculationRules, "is_literal", _never)


def _no_limit(put: Callable[[Any, Any, Any], None]) -> None:
    put(Speculation, "_may_guess", _always)


def _guesses_are_no_guesses(put: Callable[[Any, Any, Any], None]) -> None:
    put(lookahead.Lookahead, "_is_guess", False)


FAULTS: dict[str, Callable[[Callable[[Any, Any, Any], None]], None]] = {
    "questions in helpers hold nothing back": _helpers_do_not_hold,
    "questions in a catch hold nothing back": _catches_do_not_hold,
    "questions of tools that models call hold nothing back": _models_may_ask,
    "a cast to one text is no guard": _casts_are_no_guards,
    "guesses have no limit": _no_limit,
    "calls behind guards are no guesses": _guesses_are_no_guesses,
}


@contextmanager
def planted(name: str) -> Generator[None]:
    """Plant a fault."""
    before: list[Callable[[], None]] = []

    def put(on: Any, at: Any, value: Any) -> None:
        if on is lookahead.OPS:
            before.append(partial(on.__setitem__, at, on[at]))
            on[at] = value
        else:
            before.append(partial(setattr, on, at, on.__dict__[at]))
            setattr(on, at, value)

    KNOWN_FACTS.clear()
    FAULTS[name](put)
    try:
        yield
    finally:
        for take_out in reversed(before):
            take_out()
        KNOWN_FACTS.clear()


def found_by(name: str) -> int | None:
    """Return after how many programs the fault is found, None if it is not."""
    with planted(name):
        for seed in range(MOST_FOR_A_FAULT):
            if look_at(seed).problems:
                return seed + 1
    return None


# The campaign.


def main(*words: str) -> int:
    """Return 1 if a figure falls short."""
    programs = next((int(word) for word in words if word.isdigit()), PROGRAMS)
    programs = ALL_PROGRAMS if "full" in words else programs
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), initializer=gc.freeze) as pool:
        looked = [*pool.map(look_at, range(programs), chunksize=8)]
        found = dict(zip(FAULTS, pool.map(found_by, FAULTS), strict=True))
    for one in [one for one in looked if one.problems][:5]:
        print(f"program {one.seed}:", *one.problems[:5], sep="\n  ")
    print(_table(looked))
    figures = [*_figures(looked), *(_figure_of(name, after) for name, after in found.items())]
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


def _table(looked: Sequence[Looked]) -> str:
    took, wasted = Counter[str](), Counter[str]()
    for one in looked:
        took.update(one.took_ms)
        wasted.update(one.wasted)
    lines = [f"{'limit on guesses':<18}{'makespan':>12}{'of in order':>14}{'waste':>12}"]
    whole = took["in order"] or 1
    for name in took:
        share, cost = took[name] / whole, wasted[name] / 1e9
        lines.append(f"{name:<18}{took[name] / 1000:>10,.0f} s{share:>14.1%}{cost:>11,.4f} $")
    return "\n".join(lines)


def _figures(looked: Sequence[Looked]) -> Generator[Figure]:
    problems = [problem for one in looked for problem in one.problems]
    yield Figure("programs, each in order and with three limits", f"{len(looked):,}")
    yield Figure("questions / calls in order", f"{_sum(looked, 1):,} / {_sum(looked, 2):,}")
    early = sum("began before" in one for one in problems)
    yield Figure("calls before an answer", f"{early}", "0", not early)
    much = sum("may be" in one for one in problems)
    yield Figure("runs that waste more than the limit", f"{much}", "0", not much)
    rest = len(problems) - early - much
    yield Figure("runs that differ from the run in order", f"{rest}", "0", not rest)


def _sum(looked: Sequence[Looked], what: int) -> int:
    return sum(one.questions if what == 1 else one.calls for one in looked)


def _figure_of(name: str, after: int | None) -> Figure:
    said = "not found" if after is None else f"after {after}"
    return Figure(f"fault: {name}", said, f"≤ {MOST_FOR_A_FAULT} programs", after is not None)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
