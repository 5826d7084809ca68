"""Ways to ask more than once: race, map_all, retry_until."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.runtime.stage import Stage, agent, settle, within
from vegakit.errors import AgentFailed, BudgetExceeded, Cancelled, InvalidRuleError, LimitReached
from vegakit.host import Agent
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, map_all, race, retry_until

FAILS = {"error": "rejected"}


def test_the_first_success_wins_and_the_others_have_left() -> None:
    """A failure before it does not count, and losers are awaited, not only told."""

    async def use() -> None:
        stage = Stage()
        running = asyncio.ensure_future(
            race(stage.play("slow"), stage.play("bad", fails=True), stage.play("good"))
        )
        stage.cue("bad")
        await settle()
        assert not running.done()
        stage.cue("good")
        assert await running == "good"
        assert (stage.left, stage.running) == (["slow"], 0)

    asyncio.run(use())


def test_a_race_that_all_lose_tells_every_failure() -> None:
    """The first in time is raised, the others are its notes."""

    async def use() -> None:
        stage = Stage()
        running = asyncio.ensure_future(
            race(*(stage.play(name, fails=True) for name in ("a", "b", "c")))
        )
        for name in ("b", "c", "a"):
            await settle()
            stage.cue(name)
        with pytest.raises(LookupError, match="b") as told:
            await running
        assert told.value.__notes__ == [
            "another in the race: LookupError: c",
            "another in the race: LookupError: a",
        ]

    asyncio.run(use())


def test_the_first_good_answer_wins_and_the_others_have_left() -> None:
    """One that is not good, or fails, is passed over."""

    async def use() -> None:
        stage = Stage()
        plays = [stage.play("bad"), stage.play("wrong", fails=True)]
        plays += [stage.play("fine"), stage.play("late")]
        running = asyncio.ensure_future(race(*plays, good=lambda said: said == "fine"))
        for name in ("bad", "wrong", "fine"):
            await settle()
            assert not running.done()
            stage.cue(name)
        assert await running == "fine"
        assert "late" in stage.left

    asyncio.run(use())


def test_a_race_without_a_good_answer_tells_the_last_and_every_failure() -> None:
    async def use() -> None:
        stage = Stage()
        plays = [stage.play("a"), stage.play("b", fails=True), stage.play("c")]
        running = asyncio.ensure_future(race(*plays, good=lambda said: said == "z"))
        for name in ("a", "b", "c"):
            await settle()
            stage.cue(name)
        with pytest.raises(LimitReached, match=r"none of 2 answers was good.* 'c'") as told:
            await running
        assert told.value.__notes__ == ["another in the race: LookupError: b"]

    asyncio.run(use())


def test_of_two_that_end_together_the_first_written_wins() -> None:
    """So the same program gives the same answer."""

    async def say(word: str) -> str:
        return word

    assert [asyncio.run(race(say("a"), say("b"))) for _ in range(20)] == ["a"] * 20


def test_asks_race_and_what_lost_is_settled() -> None:
    """The winner is billed, and nothing stays reserved."""

    async def work(rt: Runtime) -> None:
        quick, never = agent("quick"), agent("never", latency_ms=3_600_000)
        assert str(await race(rt.ask(never, "?"), rt.ask(quick, "?"))) == "quick"
        scope = await rt._ledger.scope(rt.budgets.root)
        assert scope is not None
        assert (scope.reserved, scope.settled) == (0, await rt.spent())

    within(work)


def test_asks_that_all_fail_tell_why() -> None:
    """Both failures are there to read."""
    with pytest.raises(AgentFailed, match="rejected") as told:
        within(lambda rt: race(rt.ask(agent([FAILS]), "?"), rt.ask(agent([FAILS]), "?")))
    assert ["AgentFailed" in note for note in told.value.__notes__] == [True]


def test_one_cancelled_by_somebody_else_has_only_failed() -> None:
    """The pattern itself was not cancelled, and does not look so."""

    async def use() -> None:
        stage = Stage()
        other = asyncio.ensure_future(stage.play("other"))
        await settle()
        other.cancel()
        with pytest.raises(Cancelled, match="before it answered"):
            await race(other)
        with pytest.raises(Cancelled, match="before it answered"):
            await map_all(lambda _: other, [1])

    asyncio.run(use())


def test_answers_keep_the_order_of_the_items() -> None:
    """Whichever comes first."""

    async def use() -> None:
        stage = Stage()
        running = asyncio.ensure_future(map_all(stage.play, iter("abcd"), 4))
        for name in "dbca":
            await settle()
            stage.cue(name)
        assert await running == ["a", "b", "c", "d"]
        assert await map_all(stage.play, []) == []

    asyncio.run(use())


@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_only_so_many_run_at_once(at_once: int) -> None:
    """An item is taken when there is room for it, not before."""

    async def use() -> None:
        stage, taken = Stage(), list[int]()

        def items() -> Any:
            for number in range(20):
                taken.append(number)
                yield number

        running = asyncio.ensure_future(map_all(stage.play, items(), at_once))
        for number in range(20):
            await settle()
            assert len(taken) == len(stage.begun) == min(20, number + at_once)
            stage.cue(number)
        assert await running == list(range(20))
        assert stage.most == at_once

    asyncio.run(use())


def test_the_first_failure_cancels_the_rest() -> None:
    """At once, though others before it are still at work; nothing more is begun."""

    async def use() -> None:
        stage = Stage()
        running = asyncio.ensure_future(
            map_all(lambda name: stage.play(name, fails=name == 2), range(10), 3)
        )
        await settle()
        stage.cue(2)
        with pytest.raises(LookupError, match="2"):
            await running
        assert (stage.begun, set(stage.left), stage.running) == ([0, 1, 2], {0, 1}, 0)

    asyncio.run(use())


@pytest.mark.parametrize("way", ["map_all", "batch"])
def test_a_refusal_cancels_no_other_call_and_has_their_answers(way: str) -> None:
    """What is in flight ends and is kept; nothing more begins."""
    small = Agent("small", model=ScriptedModel("small", latency_ms=50), max_tokens=50)
    large = Agent("large", model=ScriptedModel("never said"), max_tokens=500)

    async def work(rt: Runtime) -> None:
        asks = [rt.ask(large if number == 1 else small, str(number)) for number in range(3)]
        asked = rt.batch(*asks) if way == "batch" else map_all(lambda ask: ask, asks, 3)
        with pytest.raises(BudgetExceeded, match="could cost") as refused:
            await asked
        answers = refused.value.answers
        assert {place: str(reply) for place, reply in answers.items()} == {0: "small", 2: "small"}
        assert refused.value.__notes__[0].startswith("2 answers arrived")
        assert await rt.spent() == sum(reply.cost for reply in answers.values())

    within(work, budget="$0.001")


def test_nothing_begins_after_a_refusal() -> None:
    """Of ten, the second is refused; the calls that were in flight with it end."""

    async def use() -> None:
        stage = Stage()

        async def ask(number: int) -> int:
            await stage.play(number)
            if number == 1:
                raise BudgetExceeded("as planted")
            return number

        running = asyncio.ensure_future(map_all(ask, range(10), 3))
        for number in (1, 0, 2):
            await settle()
            stage.cue(number)
        with pytest.raises(BudgetExceeded, match="as planted") as refused:
            await running
        assert (stage.begun, refused.value.answers) == ([0, 1, 2], {0: 0, 2: 2})

    asyncio.run(use())


def test_an_answer_is_asked_for_until_it_is_good() -> None:
    """Each time anew."""

    async def work(rt: Runtime) -> None:
        asker = agent(["no", "maybe", "yes", "unused"])
        reply = await retry_until(lambda: rt.ask(asker, "?"), lambda reply: str(reply) == "yes")
        assert str(reply) == "yes"
        assert len(asker.model.requests) == 3  # pyright: ignore[reportAttributeAccessIssue]

    within(work)


def test_the_last_answer_is_told_when_none_was_good() -> None:
    """After exactly as many as were allowed; the text of a long one is cut."""

    async def work(rt: Runtime) -> None:
        asker = agent(["no", "x" * 1_000, "unused"])
        with pytest.raises(LimitReached, match=r"none of 2 answers.*'x{200}'; raise max_attempts"):
            await retry_until(lambda: rt.ask(asker, "?"), lambda _: False, max_attempts=2)
        assert len(asker.model.requests) == 2  # pyright: ignore[reportAttributeAccessIssue]

    within(work)


def test_a_failure_is_not_asked_again() -> None:
    """Retries of the world's failures live in the gate and nowhere else."""

    async def work(rt: Runtime) -> None:
        asker = agent([FAILS, "unused"])
        with pytest.raises(AgentFailed):
            await retry_until(lambda: rt.ask(asker, "?"), lambda _: True)
        assert len(asker.model.requests) == 1  # pyright: ignore[reportAttributeAccessIssue]

    within(work)


def test_nothing_to_do_is_told() -> None:
    """None of them waits for ever or answers nothing."""
    for pattern in (
        race(),
        map_all(race, [], concurrency=0),
        retry_until(race, bool, max_attempts=0),
    ):
        with pytest.raises(InvalidRuleError, match="at least 1, got 0"):
            asyncio.run(pattern)


def test_patterns_spend_from_the_budget_they_were_written_in() -> None:
    """Even if they are awaited outside of it, where there would be enough."""

    async def work(rt: Runtime) -> None:
        asker = agent()
        with rt.budget("$0.000001"):
            written: list[Coroutine[Any, Any, Any]] = [
                race(rt.ask(asker, "?")),
                map_all(lambda prompt: rt.ask(asker, prompt), ["?"]),
                retry_until(lambda: rt.ask(asker, "?"), lambda _: True),
            ]
        for pattern in written:
            with pytest.raises(BudgetExceeded):
                await pattern
        assert str(await race(rt.ask(asker, "?"))) == "yes"

    within(work)
