"""What a call does that does not fit the budget of its agent: the words of a runtime's budget, for
agents in Python and in Vega."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.raising import raised
from vegakit.config import ResumeTarget
from vegakit.conversation import ModelRequest
from vegakit.errors import BudgetExceeded, InvalidRuleError, Paused
from vegakit.host import Agent
from vegakit.money import Money
from vegakit.policy import OnExceed
from vegakit.program import Bounds
from vegakit.providers import ScriptedModel
from vegakit.sdk import CostAlert, Runtime, run_program

LITTLE = "$0.0001"
"""Less than a call may cost, and less than one costs."""
ANSWER = {"text": "yes", "usage": {"input_tokens": 100, "output_tokens": 100}}


def agent(on_exceed: str, **more: Any) -> Agent[str]:
    """On a model of $1 and $5 a million tokens: each answer costs $0.0006."""
    model = ScriptedModel(lambda _: ANSWER)
    return Agent("a", model=model, budget=LITTLE, on_exceed=on_exceed, max_tokens=200, **more)


async def asked(one: Agent[Any], **options: Any) -> tuple[str, list[CostAlert]]:
    news: list[CostAlert] = []
    async with Runtime("$1") as rt:
        rt.on(CostAlert, news.append)
        try:
            reply = await rt.ask(one, "?", **options)
        except BudgetExceeded as refused:
            assert await rt.spent() == 0
            return type(refused).__name__, news
        assert float(await rt.spent()) == float(reply.cost) > float(LITTLE[1:])
        return reply.text, news


@pytest.mark.parametrize(
    ("on_exceed", "ends"),
    [("block", "BudgetExceeded"), ("ask", "Paused"), ("warn", "yes"), ("allow", "yes")],
)
async def test_each_word_of_an_agent(on_exceed: str, ends: str) -> None:
    """Only who warns is told."""
    said, news = await asked(agent(on_exceed))
    assert said == ends
    assert [one.alert_at for one in news] == ([Money(100_000)] if on_exceed == "warn" else [])


def test_the_words_are_those_of_a_runtime() -> None:
    assert {agent(word).exceeding for word in OnExceed} == {*OnExceed}
    with pytest.raises(InvalidRuleError, match="write one of: block, ask, warn, allow"):
        _ = agent("stop").exceeding


@pytest.mark.parametrize("on_exceed", ["warn", "allow"])
async def test_what_an_ask_names_is_a_cap_all_the_same(on_exceed: str) -> None:
    """Also if it is more than the agent's own, which only warns."""
    assert (await asked(agent(on_exceed), budget="$0.0002"))[0] == "BudgetExceeded"
    assert (await asked(agent(on_exceed), budget="$0.5"))[0] == "yes"


async def test_the_budgets_around_it_hold() -> None:
    """An agent that allows itself more does not allow its runtime more."""
    async with Runtime("$0.0002") as rt:
        with pytest.raises(BudgetExceeded):
            await rt.ask(agent("allow"), "?")
        assert await rt.spent() == 0


async def test_a_process_that_warns_is_told_of_once_an_ask() -> None:
    """Its wallet around it holds."""
    news: list[CostAlert] = []
    async with Runtime("$1") as rt:
        rt.on(CostAlert, news.append)
        process = rt.spawn(agent("warn"), wallet="$0.002")
        assert [(await process.ask("?")).text for _ in range(2)] == ["yes", "yes"]
        assert len(news) == 2
        with pytest.raises(BudgetExceeded):
            await process.ask("?")


async def test_a_paused_agent_goes_on_with_more(tmp_path: Path) -> None:
    """As a runtime that asks does: the run is unfinished, and goes on when a person raised it."""
    path = str(tmp_path / "run.db")

    async def run(resume: ResumeTarget | None = None) -> str:
        async with Runtime("$1", journal=path, resume=resume) as rt:
            return (await rt.ask(agent("ask"), "?")).text

    with pytest.raises(Paused, match="vega resume --budget"):
        await run()
    assert await run(raised("$0.10")) == "yes"


@pytest.mark.parametrize(
    ("on_exceed", "ends"), [("block", "BudgetExceeded"), ("warn", "yes"), ("allow", "yes")]
)
async def test_an_agent_in_vega_heeds_the_same_words(
    on_exceed: str, ends: str, tmp_path: Path
) -> None:
    source = f"""agent A {{ model m  max_tokens 200  budget {LITTLE}  on_exceed {on_exceed} }}
    fn main() -> str {{
        try {{ return A <- "?"; }} catch BudgetExceeded {{ return "BudgetExceeded"; }}
    }}"""
    (tmp_path / "one.vega").write_text(source)
    news: list[CostAlert] = []
    async with Runtime("$1", models=lambda _: ScriptedModel(lambda _: ANSWER)) as rt:
        rt.on(CostAlert, news.append)
        assert await rt.load(tmp_path / "one.vega").main() == ends
    assert len(news) == (on_exceed == "warn")


def session(on_exceed: str) -> str:
    return f"""agent A {{ model m  max_tokens 200 }}
    fn main() -> str {{
        let said = "";
        session budget {LITTLE} on_exceed {on_exceed} {{
            said = A <- "one";
            said = said + (A <- "two");
        }} catch BudgetExceeded {{ return "BudgetExceeded"; }}
        return said;
    }}"""


@pytest.mark.parametrize("window", [0, 64])
@pytest.mark.parametrize(
    ("on_exceed", "ends"), [("block", "BudgetExceeded"), ("warn", "yesyes"), ("allow", "yesyes")]
)
async def test_a_session_heeds_the_same_words(
    on_exceed: str, ends: str, window: int, tmp_path: Path
) -> None:
    """Who warns is told once, also in a run that goes in order."""
    (tmp_path / "one.vega").write_text(session(on_exceed))
    news: list[CostAlert] = []
    bounds, model = Bounds(window=window), ScriptedModel(lambda _: ANSWER)
    async with Runtime("$1", models=lambda _: model, bounds=bounds) as rt:
        rt.on(CostAlert, news.append)
        assert await rt.load(tmp_path / "one.vega").main() == ends
    assert [one.alert_at for one in news] == ([Money(100_000)] if on_exceed == "warn" else [])


@pytest.mark.parametrize("window", [0, 64])
async def test_a_paused_session_goes_on_with_more(window: int, tmp_path: Path) -> None:
    """No call is made twice: the first life asks nothing, the next both."""
    (tmp_path / "one.vega").write_text(session("ask"))
    path, model = str(tmp_path / "run.db"), ScriptedModel(lambda _: ANSWER)

    async def run(resume: ResumeTarget | None = None) -> str:
        bounds = Bounds(window=window)
        async with Runtime(
            "$1", models=lambda _: model, journal=path, bounds=bounds, resume=resume
        ) as rt:
            return await rt.load(tmp_path / "one.vega").main()

    with pytest.raises(Paused, match="vega resume --budget"):
        await run()
    assert model.requests == []
    assert await run(raised("$0.10")) == "yesyes"
    assert len(model.requests) == 2


@pytest.mark.parametrize(("on_exceed", "spent"), [("block", 0), ("allow", 0.0006)])
async def test_a_quote_does_not_count_with_a_budget_that_does_not_bind(
    on_exceed: str, spent: float
) -> None:
    """A program of a model is quoted by what its agents may spend, so that it keeps its quote."""
    source = 'fn main() -> str { return a <- "?"; }'
    call = {"calls": [{"name": "run_program", "arguments": {"source": source}}]}
    told: list[str] = []

    def plan(request: ModelRequest) -> Any:
        told.extend(str(one) for one in request.messages[2:])
        return "done" if told else call

    writes = [run_program([agent(on_exceed)], max_cost="$0.05")]
    planner = Agent("planner", model=ScriptedModel(plan), tools=writes, budget="$0.1")
    async with Runtime("$1") as rt:
        await rt.ask(planner, "Plan it.")
    found = re.search(r'"spent":"\$([0-9.]+)","quote":"\$([0-9.]+)"', told[0])
    assert found, told
    assert float(found[1]) == spent <= float(found[2])
