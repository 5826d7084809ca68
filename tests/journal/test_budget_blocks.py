"""A `with rt.budget(…)` block belongs to its run: it goes on with it, and no other run meets it."""

import asyncio

import pytest

from tests.raising import raised
from vegakit.config import ResumeTarget
from vegakit.conversation import ModelRequest
from vegakit.errors import AgentFailed, BudgetExceeded
from vegakit.host import Agent
from vegakit.money import Dollars, dollars
from vegakit.policy import RetryRule
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import open_ledger

FAILS_AT_THE_SECOND = ["one", {"error": "rejected"}, "two"]


def one_attempt(model: ScriptedModel) -> Agent[str]:
    return Agent("a", model=model, max_tokens=100, retry=RetryRule(max_attempts=1))


async def test_a_run_that_failed_inside_a_block_goes_on_in_it(place: str) -> None:
    """Also when it asked somebody else after it had left the block."""
    model = ScriptedModel(FAILS_AT_THE_SECOND)
    cleaner = Agent("cleaner", model=ScriptedModel("clean"), max_tokens=100)

    async def run() -> tuple[str, Dollars]:
        async with Runtime("$1", journal=place) as rt:
            try:
                with rt.budget("$0.01"):
                    said = [str(await rt.ask(one_attempt(model), text)) for text in "xy"]
                    return " ".join(said), await rt.spent()
            except AgentFailed:
                await rt.ask(cleaner, "Clean up.")
                raise

    with pytest.raises(AgentFailed):
        await run()
    said, spent = await run()
    assert said == "one two"
    assert spent == dollars("$0.000012"), "two answers, of which the first life paid for one"
    assert len(model.requests) == 3


@pytest.mark.parametrize("budget", ["$1", "$1/day"])
async def test_each_run_has_blocks_of_its_own(place: str, budget: str) -> None:
    model = ScriptedModel("fine")
    for _ in range(3):
        async with Runtime(budget, journal=place) as rt:
            with rt.budget("$0.01"):
                assert await rt.remaining() == Dollars("$0.01")
                await rt.ask(one_attempt(model), "?")
    assert len(model.requests) == 3


async def test_each_runtime_on_a_ledger_has_blocks_of_its_own(place: str) -> None:
    """Without a journal, too, one after the other and beside each other."""
    for _ in range(2):
        async with Runtime(ledger=open_ledger(place)) as rt, Runtime(ledger=open_ledger(place)):
            with rt.budget("$0.01"):
                await rt.ask(one_attempt(ScriptedModel("fine")), "?")


async def test_a_block_that_was_met_is_raised_with_its_run(place: str) -> None:
    def wordy(request: ModelRequest) -> str:
        del request
        return "word " * 100

    model = ScriptedModel(wordy)

    async def run(resume: ResumeTarget | None = None) -> None:
        async with Runtime("$1", journal=place, resume=resume) as rt:
            with rt.budget("$0.0011"):
                for number in range(4):
                    await rt.ask(one_attempt(model), f"question {number}")

    with pytest.raises(BudgetExceeded):
        await run()
    asked = len(model.requests)
    assert 0 < asked < 4
    await run(raised("$0.01"))
    assert len(model.requests) == 4


async def test_a_cap_is_of_each_run_of_a_journal_and_of_all_its_lives(place: str) -> None:
    model = ScriptedModel(FAILS_AT_THE_SECOND)

    async def run() -> tuple[Dollars, Dollars | None]:
        async with Runtime("$0.01", journal=place) as rt:
            for text in "xy":
                await rt.ask(one_attempt(model), text)
            return await rt.spent(), await rt.remaining()

    with pytest.raises(AgentFailed):
        await run()
    went_on = await run()
    assert went_on == (Dollars("$0.000012"), Dollars("$0.009988")), "the first life's answer, too"
    async with Runtime("$0.01", journal=place) as rt:
        assert (await rt.spent(), await rt.remaining()) == (Dollars("$0"), Dollars("$0.01"))


@pytest.mark.parametrize("named", ["a period", "a ledger"])
async def test_runs_share_a_cap_that_says_so(place: str, named: str) -> None:
    for run in range(2):
        ledger = open_ledger(place) if named == "a ledger" else None
        budget = "$0.01" if ledger else "$0.01/day"
        async with Runtime(budget, journal=place, ledger=ledger) as rt:
            assert await rt.spent() == Dollars("$0.000006" if run else "$0")
            await rt.ask(one_attempt(ScriptedModel("one")), "x")


@pytest.mark.parametrize("ends", ["by the first refusal", "by a group", "by itself"])
async def test_calls_side_by_side_that_were_refused_are_asked_when_there_is_money(
    place: str, ends: str
) -> None:
    """One refusal fails the run; the others must not be told again once the cap is raised."""
    model = ScriptedModel(lambda _: "fine")
    agent = Agent("a", model=model, max_tokens=100)

    async def run(budget: str) -> int:
        async with Runtime(budget, journal=place) as rt:
            questions = [f"question {number}" for number in range(6)]
            asks = [rt.ask(agent, question, wait_for_budget=False) for question in questions]
            if ends == "by the first refusal":
                return len(await rt.batch(*asks))
            said = await asyncio.gather(*asks, return_exceptions=True)
            if bad := [one for one in said if isinstance(one, Exception)]:
                raise SystemExit(1) if ends == "by itself" else ExceptionGroup("refused", bad)
            return len(said)

    with pytest.raises((BudgetExceeded, ExceptionGroup, SystemExit)):
        await run("$0.0006")
    asked = len(model.requests)
    assert await run("$1") == 6
    assert len(model.requests) <= 6 + (ends == "by the first refusal") * asked


async def test_a_refusal_that_was_lived_on_stays_so_without_more_money(place: str) -> None:
    """A run that was cut off goes the same way again; with more money it is decided anew."""
    dear, cheap = ScriptedModel(lambda _: "dear"), ScriptedModel(lambda _: "cheap")

    async def run(budget: str, *, fails: bool) -> list[str]:
        async with Runtime(budget, journal=place) as rt:
            try:
                said = await rt.ask(Agent("dear", model=dear, max_tokens=900), "?")
            except BudgetExceeded:
                said = await rt.ask(Agent("cheap", model=cheap, max_tokens=100), "?")
            if fails:
                raise LookupError
            return [str(said)]

    for _ in range(2):
        with pytest.raises(LookupError):
            await run("$0.001", fails=True)
    assert (len(dear.requests), len(cheap.requests)) == (0, 1)
    assert await run("$1", fails=False) == ["dear"]
    assert (len(dear.requests), len(cheap.requests)) == (1, 1)


async def test_a_program_that_exits_with_success_has_ended(place: str) -> None:
    """`sys.exit(0)` in the block is no failure: the next start is a new run, with a cap of its
    own; any other exit goes on."""

    async def run(code: object) -> Dollars:
        async with Runtime("$0.01", journal=place) as rt:
            spent = await rt.spent()
            await rt.ask(one_attempt(ScriptedModel("one")), "x")
            if code is not None:
                raise SystemExit(code)
            return spent

    with pytest.raises(SystemExit):
        await run(0)
    with pytest.raises(SystemExit):
        await run("it failed")
    assert await run(None) == Dollars("$0.000006"), "only the run that had failed goes on"
