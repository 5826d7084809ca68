"""Asking from a script, and what one ask alone may cost and take."""

import asyncio
from pathlib import Path

import pytest

from tests.config.house import House
from vegakit import Agent, BudgetExceeded, Dollars, Runtime, Timeout
from vegakit.errors import SettingsError, UserError
from vegakit.providers import ScriptedModel
from vegakit.testing import VirtualClock, run_virtual


def agent(*answers: str, **options: object) -> Agent[str]:
    return Agent("a", model=ScriptedModel(list(answers) or ["yes"]), max_tokens=100, **options)  # type: ignore[arg-type]


def test_a_script_asks_again_and_again() -> None:
    """In one loop, with one budget, and in the budget of the block around the line."""
    asked = agent("one", "two")
    with Runtime(budget="$1") as rt:
        first = rt.run_sync(asked, "?")
        with rt.budget("$0.000001"), pytest.raises(BudgetExceeded):
            rt.run_sync(asked, "?")
        second = rt.run_sync(asked, "?")
    assert (first.text, second.text) == ("one", "two")


def test_one_ask_opens_the_runtime_and_closes_it() -> None:
    """Whoever asks twice is told how."""
    rt = Runtime()
    assert rt.run_sync(agent(), "?").text == "yes"
    with pytest.raises(UserError, match=r"closed; for several asks write `with Runtime"):
        rt.run_sync(agent(), "?")


async def test_inside_a_loop_it_says_what_to_type() -> None:
    """Rather than to wait for ever."""
    with pytest.raises(UserError, match=r"write|ask with `await rt\.ask\(agent, …\)`"):
        Runtime().run_sync(agent(), "?")
    with pytest.raises(UserError, match="async with Runtime"), Runtime():
        pass


def test_what_is_raised_inside_closes_the_loop() -> None:
    """And is raised on."""
    rt = Runtime()
    with pytest.raises(KeyError), rt:
        raise KeyError("mine")
    assert rt._runner is None


def test_an_agent_is_asked_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the settings."""
    house = House(tmp_path)
    house.write('[models]\nfast = "scripted:answers.json"\n')
    (house.project / "answers.json").write_text('["Good day."]')
    monkeypatch.setenv("HOME", str(house.home))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(house.project)
    assert Agent("a", model="fast").run_sync("hello", timeout="30s").text == "Good day."


async def test_a_cap_for_this_ask_alone() -> None:
    """It is refused before its first call; the next one has all of the budget again."""
    asked = agent("one", "two")
    async with Runtime("$1") as rt:
        with pytest.raises(BudgetExceeded, match=r"could cost .*more than is left for this send"):
            await rt.ask(asked, "?", budget="$0.000001")
        assert (await rt.ask(asked, "?")).text == "one"
        assert (await rt.ask(asked, "?", budget=0.5)).text == "two"


async def test_an_ask_cannot_raise_the_cap_of_its_agent() -> None:
    """The smaller one holds."""
    poor = agent(budget="$0.000001")
    async with Runtime("$1") as rt:
        with pytest.raises(BudgetExceeded):
            await rt.ask(poor, "?", budget="$0.50")
    assert poor.varied("$0.50") is poor
    assert agent().varied(5).cap == Dollars("$5")


async def test_an_agent_with_a_cap_is_made_once() -> None:
    """Or the runtime would learn each one anew."""
    one = agent()
    assert one.varied("$0.50") is one.varied(0.5) is not one
    assert one.varied("$0.50") is not one.varied("$0.60")


def test_a_timeout_in_words() -> None:
    """Seconds as a number, or a duration as the settings write it."""
    clock = VirtualClock()
    slow = Agent("a", model=ScriptedModel(["late"], latency_ms=60_000, clock=clock))

    async def asked() -> int:
        began = clock.now()
        async with Runtime(clock=clock, observable=False) as rt:
            with pytest.raises(Timeout):
                await rt.ask(slow, "?", timeout="30s")
            with pytest.raises(SettingsError, match="write it like '30s'"):
                rt.ask(slow, "?", timeout="half an hour")
            return clock.now() - began

    assert 30_000 <= run_virtual(asked()) < 60_000


async def test_chunks_are_told_as_they_come() -> None:
    """By a function that is called or awaited; the reply is the same."""
    told: list[str] = []

    async def later(text: str) -> None:
        await asyncio.sleep(0)
        told.append(text)

    async with Runtime() as rt:
        reply = await rt.ask(agent("one two three"), "?", on_chunk=told.append)
        assert "".join(told) == reply.text == "one two three"
        assert len(told) > 1
        told.clear()
        await rt.ask(agent("four five"), "?", on_chunk=later)
    assert "".join(told) == "four five"


async def test_what_is_spent_is_of_the_current_budget(tmp_path: Path) -> None:
    """Of the block inside it, of the run outside; another life of the run goes on counting."""
    asked, journal = agent("one", "two"), tmp_path / "run.db"
    costs: list[Dollars] = []

    async def first_life() -> None:
        async with Runtime("$1", journal=journal) as rt:
            costs.append((await rt.ask(asked, "1")).cost)
            with rt.budget("$0.10"):
                costs.append((await rt.ask(asked, "2")).cost)
                assert await rt.spent() == costs[1]
                assert await rt.remaining() == Dollars("$0.10") - costs[1]
            assert await rt.spent() == sum(costs)
            raise KeyError("again")

    with pytest.raises(KeyError):
        await first_life()
    async with Runtime("$1", journal=journal) as rt:
        assert await rt.spent() == sum(costs) > 0
        assert await rt.remaining() == Dollars("$1") - sum(costs)
