"""A run that was cut off is taken up again: what was recorded is not bought again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.raising import raised
from vegakit.config import BudgetChange, ResumeTarget
from vegakit.conversation import ModelReply, ModelRequest
from vegakit.errors import AgentFailed, Paused, ProgramChanged, StoreError, Timeout, UserError
from vegakit.host import Agent
from vegakit.money import dollars
from vegakit.policy import BreakerRule, Rate, RateRule, RateStrategy, RetryRule
from vegakit.prices import PriceRow, PriceTier
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import ReplayJournal, open_journal
from vegakit.testing import FakeClock


class CutOffError(Exception):
    pass


def echo(request: ModelRequest) -> str:
    part: Any = request.messages[-1]
    return f"echo {part.parts[0].text}"


async def three_asks(path: str | Path, model: ScriptedModel, *, stop_after: int = 3) -> list[str]:
    agent = Agent("a", model=model)
    said: list[str] = []
    async with Runtime(journal=path) as rt:
        for number in range(3):
            if number == stop_after:
                raise CutOffError
            said.append((await rt.ask(agent, f"question {number}")).text)
    return said


async def test_what_was_recorded_is_not_bought_again(place: str) -> None:
    """Two answers come from the journal, one from the model."""
    path, model = place, ScriptedModel(echo)
    with pytest.raises(CutOffError):
        await three_asks(path, model, stop_after=2)
    assert len(model.requests) == 2
    said = await three_asks(path, model)
    assert said == [f"echo question {number}" for number in range(3)]
    assert len(model.requests) == 3


async def test_a_run_that_came_to_its_end_is_over(place: str) -> None:
    """The next one is a new run and asks anew."""
    path, model = place, ScriptedModel(echo)
    for _ in range(2):
        await three_asks(path, model)
    assert len(model.requests) == 6
    journal = open_journal(path)
    assert [run.ended_ms is not None for run in await journal.runs()] == [True, True]
    await journal.aclose()


async def test_an_edited_program_is_told_so(place: str) -> None:
    """Another request at the same place is ProgramChanged, never an answer to something else."""
    path, model = place, ScriptedModel(echo)

    async def ask(system: str, *, cut_off: bool) -> None:
        async with Runtime(journal=path) as rt:
            process = rt.spawn(Agent("a", model=model, system=system))
            await process.ask("the same question")
            if cut_off:
                raise CutOffError

    with pytest.raises(CutOffError):
        await ask("Be brief.", cut_off=True)
    with pytest.raises(ProgramChanged, match="start a new run"):
        await ask("Be long.", cut_off=False)
    assert len(model.requests) == 1


async def test_equal_questions_are_told_apart(place: str) -> None:
    """The second of two equal asks is bought, and found again as the second."""
    answers = iter("abc")
    path, model = place, ScriptedModel(lambda _: next(answers))

    async def ask(times: int, *, cut_off: bool) -> list[str]:
        async with Runtime(journal=path) as rt:
            said = [(await rt.ask(Agent("a", model=model), "same")).text for _ in range(times)]
            if cut_off:
                raise CutOffError
            return said

    with pytest.raises(CutOffError):
        await ask(2, cut_off=True)
    assert await ask(3, cut_off=False) == ["a", "b", "c"]


async def test_a_paused_run_goes_on_when_its_budget_is_raised(place: str) -> None:
    """The sum over both lives is below the new cap."""
    path, model = place, ScriptedModel(echo, name="m")
    agent = Agent("a", model=model, max_tokens=10)

    async def run(resume: ResumeTarget | None = None) -> int:
        async with Runtime("$0.0001", on_exceed="ask", journal=path, resume=resume) as rt:
            for number in range(20):
                await rt.ask(agent, f"question {number}")
            return await rt.spent()

    with pytest.raises(Paused, match="vega resume"):
        await run()
    first = len(model.requests)
    assert 0 < first < 20
    await run(raised("$1"))
    assert len(model.requests) == 20


async def test_a_cap_below_what_is_spent_is_refused(place: str) -> None:
    """An earlier resume raised the cap, and the run spent more than the first one."""
    agent = Agent("a", model=ScriptedModel(echo, name="m"), max_tokens=10)

    async def run(resume: ResumeTarget | None = None) -> None:
        async with Runtime("$0.0001", on_exceed="ask", journal=place, resume=resume) as rt:
            for number in range(20):
                await rt.ask(agent, f"question {number}")
            assert await rt.spent() > dollars("$0.0002")
            raise CutOffError

    with pytest.raises(Paused):
        await run()
    with pytest.raises(CutOffError):
        await run(raised("$1"))
    lower = BudgetChange(dollars("$0.0002"), is_more=False)
    with pytest.raises(UserError, match=r"has spent \$.* less"):
        await run(ResumeTarget(budget=lower))


async def test_a_replay_asks_nobody_and_stops_at_the_first_difference(place: str) -> None:
    """Offline, from what was recorded."""
    path, model = place, ScriptedModel(echo)
    said = await three_asks(path, model)

    async def replay(questions: int) -> list[str]:
        async with Runtime(journal=ReplayJournal(open_journal(path))) as rt:
            agent = Agent("a", model=model)
            return [(await rt.ask(agent, f"question {n}")).text for n in range(questions)]

    assert await replay(3) == said
    with pytest.raises(ProgramChanged, match="nothing is recorded"):
        await replay(4)
    assert len(model.requests) == 3


async def test_a_journal_has_one_writer(place: str) -> None:
    """The second is told what to do."""
    async with Runtime(journal=place):
        with pytest.raises(StoreError, match="another journal"):
            async with Runtime(journal=place):
                pass


async def test_a_crash_that_was_recorded_is_not_repeated_by_the_resume(place: str) -> None:
    """A poison answer crashed the first life; the resume joins the second life's answer."""
    poison = iter([ValueError("a broken adapter"), None, None])

    def answer(request: ModelRequest) -> str:
        failure = next(poison)
        if failure is not None:
            raise failure
        return "good"

    path, model = place, ScriptedModel(answer)

    async def ask(*, cut_off: bool) -> str:
        async with Runtime(journal=path) as rt:
            reply = await rt.spawn(Agent("a", model=model)).ask("hi")
            if cut_off:
                raise CutOffError
            return reply.text

    with pytest.raises(CutOffError):
        await ask(cut_off=True)
    assert await ask(cut_off=False) == "good"
    assert len(model.requests) == 2


async def test_a_failure_that_was_lived_on_is_recorded_too(place: str) -> None:
    """What the program was told and caught, it is told again."""
    never = RetryRule(max_attempts=1)
    path, model = place, ScriptedModel([{"error": "rejected"}, "later"])

    async def ask(*, cut_off: bool) -> None:
        async with Runtime(journal=path) as rt:
            with pytest.raises(AgentFailed, match="rejected"):
                await rt.ask(Agent("a", model=model, retry=never), "hi")
            if cut_off:
                raise CutOffError

    with pytest.raises(CutOffError):
        await ask(cut_off=True)
    await ask(cut_off=False)
    assert len(model.requests) == 1


async def test_a_failure_that_ended_the_run_is_asked_again(place: str) -> None:
    """Also where the program raised another error while it handled it."""
    never = RetryRule(max_attempts=1)
    path, model = place, ScriptedModel(["one", {"error": "rejected"}, "later"])

    async def ask() -> str:
        async with Runtime(journal=path) as rt:
            agent = Agent("a", model=model, retry=never)
            first = await rt.ask(agent, "hi")
            try:
                return first.text + (await rt.ask(agent, "and now?")).text
            except AgentFailed:
                raise CutOffError from None

    with pytest.raises(CutOffError):
        await ask()
    assert await ask() == "onelater"
    assert len(model.requests) == 3


@pytest.mark.parametrize("within_s", [0.001, 0.1])
async def test_a_deadline_that_was_lived_on_has_passed_again(place: str, within_s: float) -> None:
    """Nobody waits for it a second time; one that ended the run is waited for again. Whether it
    passed before the call was claimed or after it was sent."""
    path, long_s = place, 600.0

    async def run(model: ScriptedModel, within_s: float) -> list[str]:
        async with Runtime(journal=path) as rt:
            agent = Agent("a", model=model)
            with pytest.raises(Timeout, match="no answer"):
                await rt.ask(agent, "first", timeout=within_s)
            second = await rt.ask(agent, "second", timeout=long_s)
            third = await rt.ask(agent, "third", timeout=within_s)
            return [second.text, third.text]

    class Slow(ScriptedModel):
        async def ask(self, request: ModelRequest) -> ModelReply:
            if echo(request) != "echo second":
                await asyncio.Event().wait()
            return await super().ask(request)

    with pytest.raises(Timeout):
        await run(Slow(echo), within_s)
    quick = ScriptedModel(echo)
    assert await run(quick, long_s) == ["echo second", "echo third"]
    assert [echo(request) for request in quick.requests] == ["echo third"]


async def test_limits_of_an_agent_do_not_refuse_what_was_made_before(place: str) -> None:
    """Recorded answers come all at once, though an hour lay between the calls."""
    path, hour_ms = place, 3_600_000
    model = ScriptedModel([{"error": "server"}, "one", {"error": "server"}, "two"])
    agent = Agent(
        "a",
        model=model,
        retry=RetryRule(max_attempts=1),
        breaker=BreakerRule(threshold=1, reset_after_ms=hour_ms // 2),
        rate=RateRule(Rate(1, hour_ms // 2, 1), strategy=RateStrategy.REJECT),
    )

    async def run(clock: FakeClock, pause_ms: int) -> list[str]:
        async with Runtime(journal=path, clock=clock) as rt:
            process, said = rt.spawn(agent, name="a"), list[str]()
            with pytest.raises(AgentFailed):
                await process.ask("first")
            for question in ("second", "third"):
                clock.advance(pause_ms)
                said.append((await process.ask(question)).text)
            return said

    with pytest.raises(AgentFailed):
        await run(FakeClock(), hour_ms)
    assert await run(FakeClock(), 0) == ["one", "two"]
    assert len(model.requests) == 4


async def test_a_new_price_list_changes_no_answer(place: str) -> None:
    """What a call may cost is not part of what is asked."""
    path = place
    with pytest.raises(CutOffError):
        await three_asks(path, ScriptedModel(echo), stop_after=2)
    tier = PriceTier(*4 * [dollars("$7")])
    dearer = ScriptedModel(echo, price=PriceRow("scripted", (tier,)))
    assert len(await three_asks(path, dearer)) == 3
    assert len(dearer.requests) == 1
