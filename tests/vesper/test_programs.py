"""Rollouts in place of agents of programs and pipelines, on a real runtime."""

import asyncio
import dataclasses
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lang.quoting.running import at_its_worst
from tests.lang.quoting.writing import Writer
from tests.patience import until
from vegakit.contracts import Tally
from vegakit.durable import Deployment
from vegakit.errors import BudgetExceeded, UserError
from vegakit.host import Agent
from vegakit.money import NANOS, Money
from vegakit.prices import PriceRow, PriceTier
from vegakit.providers import ScriptedModel, ScriptedReply
from vegakit.sdk import Runtime, VegaProgram
from vegakit.store import MemoryLedger
from vegakit.tools import tool
from vegakit.vesper import PersonAction, RolloutMode, RolloutRule, exact, rollout

AT_ONCE = RolloutRule(calibration=0)

SORT = """
type Sorted { kind: "bug" | "wish", weight: float }

agent Sorter { model large  system "Sort."  max_tokens 50  budget $0.05 }

fn sort(text: str) -> str { return Sorter <- text; }

fn weigh(text: str) -> Sorted { return Sorter <- text as Sorted; }

fn all(texts: [str; 20]) -> [str] {
    let asked = [for text in texts { async Sorter <- text }];
    return [for one in asked { await one }];
}

fn careful(text: str) -> str {
    try { return Sorter <- text budget $0.000001; } catch BudgetExceeded { return "too much"; }
}

fn both(text: str) -> str {
    let first = Sorter <- "1 {text}";
    let second = Sorter <- "2 {text}";
    return "{first}, {second}";
}

fn capped(text: str) -> str {
    try { session budget $0.04 { return Sorter <- text; } } catch BudgetExceeded { return "no"; }
    return "";
}

fn late(text: str) -> str {
    try { return Sorter <- text timeout 20ms; } catch Timeout { return "late"; }
}

fn main(text: str) -> str { return sort(text); }
"""

PIPELINE = """
stages:
  - {name: draft, agent: writer, default_next: check}
  - {name: check, agent: checker}
agents:
  writer: {model: large, prompt: "Draft {input}", max_tokens: 50, budget: "$0.05"}
  checker:
    model: large
    prompt: "Check {draft}"
    output: {verdict: text}
    max_tokens: 50
    budget: "$0.05"
"""


def within(
    folder: Path,
    work: Callable[[Runtime, VegaProgram], Awaitable[Any]],
    source: str = SORT,
    models: Callable[[str], Any] | None = None,
    **options: Any,
) -> Any:
    path = folder / ("sort.vega" if source is SORT else "pipeline.yaml")
    path.write_text(source)
    made = models or (lambda name: ScriptedModel(f"by {name}", name=name))
    known = dict[str, Any]()

    def find(name: str) -> Any:
        return known.setdefault(name, made(name))

    async def opened() -> Any:
        async with Runtime("$10", observable=False, models=find, **options) as rt:
            return await work(rt, rt.load(path))

    return asyncio.run(opened())


def cheaper(agent: Agent[Any]) -> Agent[Any]:
    return dataclasses.replace(agent, model="small")


async def raised_to(rolled: Any, mode: RolloutMode) -> None:
    while rolled.status().mode is not mode:
        await rolled.decide(PersonAction.PROMOTE, "ada")


def _any_model(reference: str, candidate: str) -> bool:
    return reference[:3] == candidate[:3]


@asynccontextmanager
async def in_its_place(
    rt: Runtime,
    program: VegaProgram,
    candidate: Any = None,
    agent: str = "Sorter",
    compare: Any = _any_model,
) -> AsyncGenerator[tuple[Any, VegaProgram]]:
    """A rollout from an agent of the program to the candidate, by default on the small model, and
    the program with it in place of the agent."""
    trusted = program.agent(agent)
    async with rollout(
        rt,
        "sort",
        reference=trusted,
        candidate=candidate or cheaper(trusted),
        rule=AT_ONCE,
        compare=compare,
    ) as rolled:
        yield rolled, program.with_agents({agent: rolled})


def test_a_program_is_answered_as_the_stage_says(tmp_path: Path) -> None:
    """By its own agent in the shadow, by the candidate at the end; both are counted."""

    async def work(rt: Runtime, program: VegaProgram) -> None:
        async with in_its_place(rt, program) as (sort, rolled):
            assert await rolled.main("a letter") == "by large"
            assert sort.status().evidence.production.runs == 1, "it was compared before it answered"
            await raised_to(sort, RolloutMode.DIRECT_ONLY)
            assert await rolled.main("a letter") == "by small"
            assert await program.main("a letter") == "by large", "the program itself is as it was"

    within(tmp_path, work)


def test_typed_answers_are_compared_as_values(tmp_path: Path) -> None:
    """The candidate may be a function; one that does not fit the type has failed."""
    said = '{"kind": "bug", "weight": 0.5}'

    async def by_code(text: str) -> Any:
        return {"kind": "bug" if "bug" in text else "none", "weight": 0.5}

    async def work(rt: Runtime, program: VegaProgram) -> None:
        async with in_its_place(rt, program, by_code, compare=exact()) as (sort, rolled):
            assert await rolled.weigh("a bug") == {"kind": "bug", "weight": 0.5}
            assert sort.status().evidence.production.failures == 0
            await raised_to(sort, RolloutMode.DIRECT_ONLY)
            assert await rolled.weigh("a bug") == {"kind": "bug", "weight": 0.5}
            assert await rolled.weigh("another") == {"kind": "bug", "weight": 0.5}
            assert sort.status().mode is RolloutMode.SHADOW, "what does not fit is a failure"

    within(tmp_path, work, models=lambda name: ScriptedModel(said, name=name))


def test_sends_side_by_side_are_all_compared(tmp_path: Path) -> None:
    """A rollout takes many messages at once, as the agent does."""

    async def work(rt: Runtime, program: VegaProgram) -> int:
        async with in_its_place(rt, program) as (sort, rolled):
            texts = [f"letter {n % 5}" for n in range(20)]
            assert await rolled.all(texts) == ["by large"] * 20
            return sort.status().evidence.production.runs

    assert within(tmp_path, work) == 20


def test_pipelines_name_rollouts_by_agent(tmp_path: Path) -> None:
    """A stage is asked through the rollout of its agent, others as before."""

    def model(name: str) -> ScriptedModel:
        return ScriptedModel({"Check": '{"verdict": "good"}', "": f"by {name}"}, name=name)

    async def work(rt: Runtime, program: VegaProgram) -> None:
        async with in_its_place(rt, program, agent="checker", compare=exact()) as (check, rolled):
            outputs = await rt.run(rolled, "owls")
            assert outputs == {"draft": "by large", "check": {"verdict": "good"}}
            assert check.status().evidence.production.runs == 1

    within(tmp_path, work, source=PIPELINE, models=model)


def test_a_send_costs_no_more_than_its_budget(tmp_path: Path) -> None:
    """Both paths are paid from it: where it holds one only, there is an answer and no evidence."""

    async def work(rt: Runtime, program: VegaProgram) -> tuple[str, int, str]:
        async with in_its_place(rt, program) as (sort, rolled):
            said = await rolled.main("a letter")
            assert await rolled.careful("a letter") == "too much"
            with pytest.raises(BudgetExceeded):
                await rt.run(rolled, "a letter", budget="$0.04")  # the whole part is held

            uncapped = dataclasses.replace(program.agent("Sorter"), budget=None)

            async def asks(text: str) -> str:
                return (await rt.ask(uncapped, text)).output

            async with in_its_place(rt, program, asks) as (other, with_function):
                await with_function.main("a letter")
                assert not other.status().evidence.production.runs, "a function pays from it, too"
            runs = sort.status().evidence.production.runs
            return said, runs, str(await rt.spent())

    def costly(name: str) -> ScriptedModel:
        # $1,000 a million tokens: 50 of the answer are reserved for a call, and 2 are billed.
        tier = PriceTier(Money(0), Money(1_000 * NANOS), Money(0), Money(0))
        return ScriptedModel(f"by {name}", name=name, price=PriceRow(name, (tier,)))

    assert within(tmp_path, work, models=costly) == ("by large", 0, "$0.004")


def test_what_a_program_does_not_say_is_refused(tmp_path: Path) -> None:
    """Agents that it has not, tools that it does not give, sends that nothing caps."""

    @tool
    async def buy(item: str) -> str:
        """Buy something."""
        return item

    async def work(rt: Runtime, program: VegaProgram) -> None:
        trusted = program.agent("Sorter")
        with_tool = dataclasses.replace(trusted, tools=[buy])
        more = rollout(rt, "more", reference=trusted, candidate=with_tool)
        plain: Any = rollout(rt, "plain", reference=trusted, candidate=cheaper(trusted))
        refused: Any = (
            ("Sortr", plain, "did you mean Sorter"),
            ("Sorter", more, "buy; name them in the agent"),
            ("Sorter", trusted, "give a rollout"),
        )
        for agent, stand_in, why in refused:
            with pytest.raises(UserError, match=why):
                program.with_agents({agent: stand_in})
        for change, why in (
            ("  budget $0.05", "such as: budget"),
            ("memory", "remove `memory conversation`"),
        ):
            more_words = (
                SORT.replace(change, "")
                if change in SORT
                else SORT.replace("max_tokens 50", "max_tokens 50  memory conversation")
            )
            (tmp_path / "other.vega").write_text(more_words)
            with pytest.raises(UserError, match=why):
                rt.load(tmp_path / "other.vega").with_agents({"Sorter": plain})
        closed = program.with_agents({"Sorter": plain})
        with pytest.raises(UserError, match="rollout plain is not open"):
            await closed.main("a letter")

    within(tmp_path, work)


def test_the_rest_of_the_language_holds(tmp_path: Path) -> None:
    """Independent sends, sessions around them, and deadlines are as for the agent itself."""

    async def work(rt: Runtime, program: VegaProgram) -> None:
        async with in_its_place(rt, program) as (sort, rolled):
            assert await rolled.both("a letter") == "by large, by large"
            assert sort.status().evidence.production == Tally(2, 0)
            assert await rolled.capped("a letter") == "no", "a part of $0.05 is held as a whole"
            assert await rolled.late("slowly") == "late"
            assert sort.status().evidence.production == Tally(2, 0)
            await until(lambda: not any(view.parent for view in rt.ps()))

    def model(name: str) -> ScriptedModel:
        slow = ScriptedReply("too late", latency_ms=60_000)
        return ScriptedModel({"slowly": slow, "": f"by {name}"}, name=name)

    within(tmp_path, work, models=model)


def test_temporal_is_refused(tmp_path: Path) -> None:
    """With what to do instead."""

    async def work(rt: Runtime, program: VegaProgram) -> None:
        trusted = program.agent("Sorter")
        sort = rollout(rt, "sort", reference=trusted, candidate=cheaper(trusted))
        rolled = program.with_agents({"Sorter": sort})
        with pytest.raises(UserError, match="deploy the program as it was loaded"):
            Deployment([rolled], ledger=MemoryLedger()).registry(rt)

    within(tmp_path, work)


MODES = [RolloutMode.SHADOW, RolloutMode.CANARY, RolloutMode.DUAL_VERIFY, RolloutMode.DIRECT_ONLY]
PROGRAMS = int(os.environ.get("VEGA_QUOTES", "60"))


@pytest.mark.parametrize("mode", MODES)
def test_no_program_with_rollouts_spends_more_than_its_quote(mode: RolloutMode) -> None:
    """At its worst, with candidates that may say more than the agents that were quoted."""
    replaced = list[str]()

    @asynccontextmanager
    async def rolled(rt: Runtime, program: VegaProgram) -> AsyncGenerator[VegaProgram]:
        rule = RolloutRule(calibration=len(replaced) % 2, sample=1.0)
        async with AsyncExitStack() as stack:
            for spec in program.module.agents:
                try:
                    trusted = program.agent(spec.name)
                    wordy = dataclasses.replace(
                        trusted, instructions="Say much. " * 40, max_tokens=4_000
                    )
                    one = rollout(rt, "r", reference=trusted, candidate=wordy, rule=rule)
                    program = program.with_agents({spec.name: one})
                except UserError:
                    continue  # no budget, memory, or tools in Vega
                await stack.enter_async_context(one)
                await raised_to(one, mode)
                replaced.append(spec.name)
            yield program

    spent = 0
    for seed in range(PROGRAMS):
        came = at_its_worst(Writer(seed).program(), seed, rolled)
        total = came.quote.total
        assert total is None or came.spent <= total, f"seed {seed}: {came}"
        spent += came.spent
    assert len(replaced) > PROGRAMS / 3
    assert spent
