"""Paid repeats: what may have been billed is asked again from one pool for the whole program."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from vegakit.conversation import ModelRequest
from vegakit.errors import ContractViolated, ErrorClass, Phase, Timeout, VegaError, WorldError
from vegakit.host import Agent, LimiterRules
from vegakit.lang import check_program, compile_program
from vegakit.policy import Backoff, BreakerRule, Grant, RateRule, RetryBudgetRule, RetryRule
from vegakit.ports import RunRecord
from vegakit.program import Bounds
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, VegaProgram
from vegakit.testing import VirtualClock, run_virtual

HEAD = """
type Answer { yes: bool }
agent A { retry { max_attempts 3  backoff exponential(1ms, 1.0, 1ms)
    on [overloaded, timeout, connection] } }
"""
MANY = 'for i in range(100) { try { A <- "{i}"; } catch { let lost = true; } }'
PATIENT = LimiterRules(RateRule(), BreakerRule(threshold=10**9), RetryBudgetRule(100, 10**9))
"""A provider is not left alone, however often it fails."""
BILLED = WorldError("lost", ErrorClass.TIMEOUT, phase=Phase.UNKNOWN)
DROPPED = WorldError("dropped", ErrorClass.CONNECTION, phase=Phase.UNKNOWN)
FREE = WorldError("busy", ErrorClass.OVERLOADED, phase=Phase.ANSWERED)
REFUSED = WorldError("refused", ErrorClass.CONNECTION, phase=Phase.NOTHING_SENT)


async def ran(body: str, model: ScriptedModel, percent: int = 20, **more: Any) -> None:
    checked, _ = check_program(HEAD + body, "main.vega", lambda _: None)
    assert checked is not None
    bounds = Bounds(window=more.pop("window", 64), paid_repeats=percent, sends=more.get("sends"))
    parts: Any = {"models": lambda _: model, "limits": lambda _: PATIENT, "bounds": bounds}
    async with Runtime("$100", **parts) as rt:
        program = VegaProgram(compile_program(checked), Path.cwd())
        await rt.run(program, *more.get("given", ()))


@pytest.mark.parametrize("window", [0, 64])
@pytest.mark.parametrize(
    ("failure", "requests"), [(BILLED, 120), (DROPPED, 120), (FREE, 300), (REFUSED, 300)]
)
async def test_only_what_may_be_billed_takes_from_the_pool(
    failure: WorldError, requests: int, window: int
) -> None:
    """A provider that fails for ever: a fifth of a hundred sends is repeated and paid, and what is
    free as often as `retry` says."""
    model = ScriptedModel(lambda _: failure)
    await ran(MANY, model, window=window)
    assert len(model.requests) == requests


async def test_each_run_of_a_program_has_a_pool_of_its_own() -> None:
    """It begins full, and is gone with the run."""
    model = ScriptedModel([BILLED, "", "a"] * 3)
    checked, _ = check_program(f'{HEAD}fn main() {{ A <- "x"; }}', "main.vega", lambda _: None)
    assert checked is not None
    async with Runtime("$100", models=lambda _: model, limits=lambda _: PATIENT) as rt:
        program = VegaProgram(compile_program(checked), Path.cwd())
        for _ in range(3):
            await rt.run(program)
        state = rt.program.machine.state
        assert (state.pools, state.parked) == ({}, {})
    assert len(model.requests) == 9


async def test_a_plain_ask_keeps_its_retry() -> None:
    model = ScriptedModel(lambda _: BILLED)
    rule = RetryRule(max_attempts=5, backoff=Backoff(1, 1.0, 1))
    async with Runtime("$100", bounds=Bounds(paid_repeats=0)) as rt:
        with pytest.raises(Timeout):
            await rt.ask(Agent("a", model, retry=rule), "x")
    assert len(model.requests) == 5


async def test_who_finds_the_pool_empty_is_told_why() -> None:
    """By the error that went before, which a program may catch."""
    model = ScriptedModel("no such record")
    with pytest.raises(ContractViolated) as caught:
        await ran('let a: Answer = A <- "x";', model, percent=0)
    assert len(model.requests) == 1
    assert "the run has no paid repeat for it: it may pay no repeats" in str(caught.value)
    assert "raise paid_repeats of Bounds, or of [bounds] in vega.toml, which is 0" in str(
        caught.value
    )
    assert str(caught.value).startswith("1 answer of scripted did not fit")
    assert "resume" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "answers"),
    [
        ('A <- "x"; let a: Answer = A <- "y";', ["", "a", "wrong", "wrong", "wrong"]),
        ('A <- "x"; A <- "y"; A <- "z";', ["", "a", "", "b", "", "c"]),
        ('A <- "x"; A <- "y";', [BILLED, "", "a", BILLED, "b"]),
    ],
)
async def test_empty_and_wrong_answers_and_timeouts_share_the_pool(
    body: str, answers: list[Any]
) -> None:
    """Two repeats for the whole program, whatever they are for."""
    model = ScriptedModel(answers)
    with pytest.raises(VegaError, match="its 2 are used up"):
        await ran(body, model, window=0)
    used = sum(one in ("", BILLED, "wrong") for one in answers[: len(model.requests)])
    assert used == 3


async def test_sends_without_a_bound_have_no_pool() -> None:
    """Only the agent's own rule bounds them, and the quote says that there is no bound."""
    body = 'fn main() { let n = 0; while n < 5 { try { A <- "x"; } catch { n = n + 1; } } }'
    model = ScriptedModel(lambda _: BILLED)
    await ran(body, model, percent=0, window=0)
    assert len(model.requests) == 15


@pytest.mark.parametrize(("sends", "repeats"), [(None, 20), (10, 2), (40, 8)])
async def test_a_run_has_the_pool_of_its_quote_with_its_arguments(
    sends: int | None, repeats: int
) -> None:
    """A list without a bound has none before; the run is told how many sends its arguments make."""
    body = "fn main(xs: [str]) { for x in xs { try { A <- x; } catch { let lost = true; } } }"
    model = ScriptedModel(lambda _: BILLED)
    await ran(body, model, given=[["x"] * 10], sends=sends)
    assert len(model.requests) == 10 + repeats


async def test_a_run_never_has_a_larger_pool_than_its_program_says() -> None:
    model = ScriptedModel(lambda _: BILLED)
    await ran(MANY, model, sends=1_000)
    assert len(model.requests) == 120


async def test_only_the_program_that_is_run_has_the_pool_of_the_run() -> None:
    """One that somebody sent has its own quote, which does not know of that pool."""
    model, bounds = ScriptedModel(lambda _: BILLED), Bounds(sends=10)
    checked, _ = check_program(HEAD + MANY, "main.vega", lambda _: None)
    assert checked is not None
    parts: Any = {"models": lambda _: model, "limits": lambda _: PATIENT, "bounds": bounds}
    async with Runtime("$100", **parts) as rt:
        program = VegaProgram(compile_program(checked), Path.cwd())
        await rt.program.run_ephemeral(program, [], Grant(), 10**9)
    assert len(model.requests) == 120


async def test_a_run_goes_on_by_the_rule_it_began_with(tmp_path: Path) -> None:
    """One that was recorded before there were pools has none, whatever the settings say now."""
    place, settings = str(tmp_path / "run.db"), Bounds(paid_repeats=0)
    async with Runtime("$1", journal=place, bounds=Bounds(paid_repeats=50, sends=7)) as rt:
        assert rt.journaled is not None
        begun = rt.journaled.run
        assert (begun.paid_repeats, begun.sends) == (50, 7)
        kept = rt.journaled.bounds(replace(settings, sends=9))
        assert (kept.paid_repeats, kept.sends) == (50, 7)
        rt.journaled.run = replace(begun, paid_repeats=RunRecord(begun.program, 0).paid_repeats)
        assert rt.journaled.bounds(settings).paid_repeats is None
        rt.journaled.run = begun


class Uneven(ScriptedModel):
    """It takes ten seconds for what is slow; an answer of a type does not fit at first."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(self._says)
        self._time = clock

    def _says(self, request: ModelRequest) -> str:
        if request.output is None:
            return "fine"
        return '{"yes": true}' if "does not fit" in str(request.messages) else "wrong"

    async def _wait(self, latency_ms: int) -> None:
        slow = "slow" in str(self.requests[-1].messages)
        await self._time.wait_until(self._time.now() + (10_000 if slow else 10))


@pytest.mark.parametrize("window", [0, 64])
def test_the_time_until_its_turn_does_not_count_for_a_send(window: int) -> None:
    """One that was begun early, and waits for a repeat, has as much time as in its turn."""
    clock = VirtualClock()
    model = Uneven(clock)
    body = 'fn main() -> bool { let a = A <- "slow"; let b: Answer = A <- "x" timeout 2s; '
    checked, _ = check_program(f"{HEAD}{body} return b.yes; }}", "main.vega", lambda _: None)
    assert checked is not None

    async def run() -> object:
        bounds = Bounds(window=window)
        async with Runtime("$1", models=lambda _: model, clock=clock, bounds=bounds) as rt:
            return await rt.run(VegaProgram(compile_program(checked), Path.cwd()))

    assert run_virtual(run()) is True
    assert len(model.requests) == 3
