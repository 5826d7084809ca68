"""`budget $5/day` of an agent: what all runs on one ledger may spend on it in a day."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.raising import raised
from vegakit.config import ResumeTarget, UserBudget
from vegakit.errors import BudgetExceeded, Paused
from vegakit.host import Agent
from vegakit.ids import ScopeId
from vegakit.money import Money, Period, dollars
from vegakit.policy import Counter, OnExceed, ScopeRule
from vegakit.providers import ScriptedModel
from vegakit.sdk import CostAlert, Runtime
from vegakit.store import MemoryLedger, open_journal, open_ledger
from vegakit.testing import FakeClock

CAP = "$0.002"
"""Enough for two answers of $0.0006 and no third, as a call could cost $0.001 and a little."""
ANSWER = {"text": "yes", "usage": {"input_tokens": 100, "output_tokens": 100}}
DAY_MS = 86_400_000


def model(answer: Any = ANSWER) -> ScriptedModel:
    return ScriptedModel(lambda _: answer)


def agent(on_exceed: str = "block", **more: Any) -> Agent[str]:
    return Agent(
        "a", model=model(), budget=f"{CAP}/day", on_exceed=on_exceed, max_tokens=200, **more
    )


def written(folder: Path, on_exceed: str = "block") -> Path:
    path = folder / "one.vega"
    path.write_text(
        f"""agent A {{ model m  max_tokens 200  budget {CAP}/day  on_exceed {on_exceed} }}
        fn main() -> str {{
            try {{ return A <- "?"; }} catch BudgetExceeded {{ return "BudgetExceeded"; }}
        }}"""
    )
    return path


async def test_runs_share_a_day(tmp_path: Path) -> None:
    """Each is a run of its own in one journal, with a cap of its own; the next day is new."""
    program, place, clock = written(tmp_path), str(tmp_path / "runs.db"), FakeClock()

    async def run() -> str:
        journal = open_journal(place, shared=True)
        models = model()
        async with Runtime("$1", journal=journal, models=lambda _: models, clock=clock) as rt:
            return await rt.load(program).main()

    assert [await run() for _ in range(4)] == ["yes", "yes", "BudgetExceeded", "BudgetExceeded"]
    clock.advance(DAY_MS)
    assert [await run() for _ in range(3)] == ["yes", "yes", "BudgetExceeded"]


async def test_its_figures_are_those_of_the_agent(tmp_path: Path) -> None:
    """By the runtime's name, the project, the program and the agent; another agent has its own."""
    ledger = open_ledger(str(tmp_path / "ledger.db"))
    async with Runtime("$1", ledger=ledger, models=lambda _: model(), clock=FakeClock()) as rt:
        assert await rt.load(written(tmp_path)).main() == "yes"
        agent = ScopeId(f"agent:default/{tmp_path.name}/one.vega/A")
        for period in (*Period, None):
            assert await ledger.counter(agent, period, rt.clock.now()) == Counter(600_000, 0)
        assert await rt.spent() == Money(600_000)


async def test_runtimes_at_once_never_pass_it(tmp_path: Path) -> None:
    """Each call is reserved in the run and in the day by one step, so that none slips between."""

    async def ask() -> int:
        place = str(tmp_path / "ledger.db")
        async with Runtime("$1", ledger=place) as rt:
            asked = [rt.ask(agent(), "?") for _ in range(4)]
            done = await asyncio.gather(*asked, return_exceptions=True)
            assert {type(one).__name__ for one in done} <= {"Reply", "BudgetExceeded"}
            return sum(type(one).__name__ == "Reply" for one in done)

    assert 1 <= sum(await asyncio.gather(ask(), ask(), ask())) <= 2


@pytest.mark.parametrize("is_vega", [False, True])
@pytest.mark.parametrize(
    ("on_exceed", "ends"),
    [("block", "BudgetExceeded"), ("ask", "Paused"), ("warn", "yes"), ("allow", "yes")],
)
async def test_each_word_says_what_happens(
    on_exceed: str, ends: str, is_vega: bool, tmp_path: Path
) -> None:
    """Only who warns is told of, once: when all of it is spent."""
    news: list[CostAlert] = []
    async with Runtime("$1", models=lambda _: model()) as rt:
        rt.on(CostAlert, news.append)

        async def ask() -> str:
            try:
                if is_vega:
                    return await rt.load(written(tmp_path, on_exceed)).main()
                return (await rt.ask(agent(on_exceed), "?")).text
            except (BudgetExceeded, Paused) as refused:
                return type(refused).__name__

        assert [await ask() for _ in range(5)] == ["yes", "yes", ends, ends, ends]
    assert [one.alert_at for one in news] == ([dollars(CAP)] if on_exceed == "warn" else [])


async def test_a_paused_run_goes_on_with_more(tmp_path: Path) -> None:
    """What a person adds to the run is added for the agent, too."""
    place, clock = str(tmp_path / "run.db"), FakeClock()

    async def run(resume: ResumeTarget | None = None) -> list[str]:
        async with Runtime("$1", journal=place, clock=clock, resume=resume) as rt:
            return [(await rt.ask(agent("ask"), "?")).text for _ in range(3)]

    with pytest.raises(Paused, match="vega resume --budget"):
        await run()
    assert await run(raised("$0.01")) == ["yes"] * 3


async def test_a_cap_for_one_ask_does_not_lift_it() -> None:
    """Nor does a longer wait, or a block that is closed again."""
    async with Runtime("$1", ledger=MemoryLedger(), clock=FakeClock()) as rt:
        assert (await rt.ask(agent(), "?", budget="$0.01")).text == "yes"
        with rt.budget("$0.5"):
            assert (await rt.ask(agent(), "?", max_wait="1h")).text == "yes"
        with pytest.raises(BudgetExceeded, match=r"agent:default/a.*next period, from"):
            await rt.ask(agent(), "?", budget="$0.01")
        with pytest.raises(BudgetExceeded):
            await rt.ask(agent(), "?")
        with pytest.raises(BudgetExceeded), rt.budget("$0.5"):
            await rt.ask(agent(), "?")


async def test_a_block_that_is_over_refuses_such_an_agent_too() -> None:
    """It is forgotten with what its agents spent in it."""
    async with Runtime("$1") as rt:
        with rt.budget("$0.5"):
            late = rt.ask(agent(), "?")
            await rt.ask(agent(), "?")
        with rt.budget("$0.5"):
            await rt.ask(agent("allow"), "?")
        with pytest.raises(BudgetExceeded, match="closed"):
            await late


def test_what_an_agent_says() -> None:
    """Nothing for one ask, and as much as it says for each period."""
    one = agent("warn")
    assert one.cap is None
    assert one.shared is not None
    assert (one.shared.cap, one.shared.period, one.shared.on_exceed) == (
        2_000_000,
        "day",
        OnExceed.WARN,
    )
    varied = one.varied("$0.001")
    assert (varied.cap, varied.shared) == (1_000_000, one.shared)
    assert Agent("b", budget="$5").shared is None


async def test_the_limit_of_a_user_is_raised_by_the_user(tmp_path: Path) -> None:
    """Not by the run, which is held to it though it began before: it says where to raise it."""
    place, clock = str(tmp_path / "ledger.db"), FakeClock()

    def runtime(cap: str) -> Runtime:
        rule = ScopeRule(dollars(cap), OnExceed.ASK, Period.DAY)
        user = UserBudget(rule, place)
        return Runtime("$1", name=cap, ledger=place, clock=clock, user_budget=lambda: user)

    plain = Agent("plain", model=model(), max_tokens=200)
    async with runtime("$1") as rt:
        async with runtime(CAP) as other:
            assert [(await one.ask(plain, "?")).text for one in (rt, other)] == ["yes", "yes"]
        with pytest.raises(Paused, match=r"'user'.*raise budget\.default in your own settings"):
            await rt.ask(plain, "?")
        async with runtime("$0.01"):
            assert (await rt.ask(plain, "?")).text == "yes"
