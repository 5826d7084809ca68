"""Programs on a real Temporal server: the same machine, told by updates and signals."""

import asyncio
from pathlib import Path

import pytest

from tests.durable.bodies import COUNTER, Hanging, OnlyStreaming, boss, clerk, landed, waits
from tests.durable.stage import PATIENCE_S, stage, until
from vegakit.control import KillResult
from vegakit.conversation import ModelRequest, Text
from vegakit.durable import Deployment
from vegakit.errors import (
    AgentFailed,
    BudgetExceeded,
    ErrorClass,
    Phase,
    Timeout,
    UserError,
    WorldError,
)
from vegakit.host import Agent, Reducer
from vegakit.money import dollars
from vegakit.policy import RestartRule
from vegakit.program import (
    GroupSpec,
    ProcessSpec,
    Prompt,
)
from vegakit.providers import ScriptedCall, ScriptedModel, ScriptedReply
from vegakit.store import MemoryLedger


async def test_an_agent_is_asked_twice(temporal: str, tmp_path: Path) -> None:
    """Each send is a call of its own, and is charged."""
    model = ScriptedModel(["Paris", "Madrid"])
    async with stage(temporal, tmp_path, [Agent("guide", model)]) as here:
        program = await here.start()
        guide = await program.spawn("guide", wallet="$1")
        replies = [await program.ask(guide, text) for text in ("France?", "Spain?")]
        assert [reply.text for reply in replies] == ["Paris", "Madrid"]
        assert all(reply.cost > 0 for reply in replies)
        state = await program.state()
        assert state.wallets["guide"].spent == sum(reply.cost for reply in replies)
        await program.stop()


async def test_a_tool_is_called_between(temporal: str, tmp_path: Path) -> None:
    """Its outcome goes back to the model."""

    def area(city: str) -> str:
        return f"{city} has 105 km²"

    script = [ScriptedReply(calls=(ScriptedCall("area", {"city": "Paris"}),)), "105"]
    model = ScriptedModel(script)
    async with stage(temporal, tmp_path, [Agent("guide", model, tools=[area])]) as here:
        program = await here.start()
        guide = await program.spawn("guide")
        assert (await program.ask(guide, "How large?")).text == "105"
        assert "Paris has 105 km²" in str(model.requests[-1].messages)
        await program.stop()


async def test_the_next_model_answers_for_one_that_is_not_available(
    temporal: str, tmp_path: Path
) -> None:
    """Decided by the machine, carried out by the activities: each model is an activity's."""

    def down(_: ModelRequest) -> str:
        raise WorldError("down", ErrorClass.UNAVAILABLE, phase=Phase.ANSWERED)

    first, second = ScriptedModel(down, name="first"), ScriptedModel("Paris", name="second")
    async with stage(temporal, tmp_path, [Agent("guide", [first, second])]) as here:
        program = await here.start()
        guide = await program.spawn("guide", wallet="$1")
        reply = await program.ask(guide, "France?")
        assert (reply.text, len(first.requests), len(second.requests)) == ("Paris", 1, 1)
        state = await program.state()
        assert state.wallets["guide"].spent == reply.cost > 0
        await program.stop()


async def test_a_crash_is_restarted(temporal: str, tmp_path: Path) -> None:
    """The next life answers; what the poison had asked for falls when restarts run out."""
    async with stage(temporal, tmp_path, [COUNTER]) as here:
        program = await here.start()
        team = GroupSpec(RestartRule(max_restarts=1), {"one": ProcessSpec("counter")})
        await program.spawn(team, name="team")
        assert await program.ask("team/one", "more") == 1
        await program.tell("team/one", "boom")
        with pytest.raises(AgentFailed):
            await program.ask("team/one", "more")
        await program.stop()


async def test_a_killed_life_is_not_asked_again(temporal: str, tmp_path: Path) -> None:
    """Kill is for good; the others go on."""
    async with stage(temporal, tmp_path, [COUNTER]) as here:
        program = await here.start()
        one, two = await program.spawn("counter"), await program.spawn("counter")
        killed = await program.kill(one, tree=True)
        assert killed == KillResult((one,))
        with pytest.raises(AgentFailed, match="noproc"):
            await program.ask(one, "more")
        assert await program.ask(two, "more") == 1
        await program.stop()


async def test_a_killed_incarnation_is_followed_by_the_next(temporal: str, tmp_path: Path) -> None:
    """As on a laptop; a supervisor has no incarnation to kill, and a wrong name is told."""
    async with stage(temporal, tmp_path, [COUNTER]) as here:
        program = await here.start()
        team = GroupSpec(RestartRule(max_restarts=1), {"one": ProcessSpec("counter")})
        await program.spawn(team, name="team")
        assert await program.ask("team/one", "more") == 1
        assert await program.kill("one") == KillResult(("team/one",), restarted=("team/one",))
        assert await program.ask("team/one", "more") == 2  # the state of a reducer is kept
        with pytest.raises(UserError, match="team is a supervisor"):
            await program.kill("team")
        with pytest.raises(UserError, match="there is no process 'teem'; did you mean team"):
            await program.kill("teem", tree=True)
        await program.stop()


@pytest.mark.parametrize(("max_tokens", "answer"), [(100, "told"), (1_000, "BudgetExceeded")])
async def test_a_wallet_inside_a_wallet(
    temporal: str, tmp_path: Path, max_tokens: int, answer: str
) -> None:
    """A call that could cost more than the child's part is refused in the workflow: nothing is
    sent."""
    model = ScriptedModel("done")
    bodies = [Agent("worker", model, max_tokens=max_tokens), Reducer("boss", boss)]
    async with stage(temporal, tmp_path, bodies) as here:
        program = await here.start()
        await program.spawn("boss", wallet="$0.01")
        assert answer in await program.ask("boss", "go")
        assert len(model.requests) == (answer == "told")
        await program.stop()


async def test_a_shared_budget_refuses(temporal: str, tmp_path: Path) -> None:
    """The gate in the activity says no, and the program hears it."""
    model = ScriptedModel("done")
    bodies = [Agent("worker", model, max_tokens=1_000)]
    async with stage(temporal, tmp_path, bodies, budget="$0.004") as here:
        program = await here.start()
        worker = await program.spawn("worker")
        with pytest.raises(BudgetExceeded):
            await program.ask(worker, "?")
        assert model.requests == []
        await program.stop()


async def test_a_person_answers_later(temporal: str, tmp_path: Path) -> None:
    """The asker waits; the reply comes by a signal, once, however often it is sent."""
    async with stage(temporal, tmp_path, [Reducer("clerk", clerk)]) as here:
        program = await here.start()
        await program.spawn("clerk")
        asking = asyncio.ensure_future(program.ask("clerk", "may I?"))
        await until(lambda: waits(program))
        for _ in range(2):
            await program.tell("clerk", "yes", id="reply-1")
        assert await asking == "it was: yes"
        await program.stop()


async def test_time_passes(temporal: str, tmp_path: Path) -> None:
    """A message to itself comes when it is due; a timeout is the asker's."""
    async with stage(temporal, tmp_path, [Reducer("clerk", clerk)]) as here:
        program = await here.start()
        await program.spawn("clerk")
        assert await program.ask("clerk", 300) == "it was: wake"
        with pytest.raises(Timeout):
            await program.ask("clerk", "may I?", timeout=0.2)
        await program.stop()


async def test_a_stream_is_answered_whole(temporal: str, tmp_path: Path) -> None:
    """The provider streams; the program sees the recorded answer."""
    model = OnlyStreaming("once upon a time")
    async with stage(temporal, tmp_path, [Agent("teller", model)]) as here:
        program = await here.start()
        teller = await program.spawn("teller")
        reply = await program.ask(teller, Prompt((Text("story"),), stream=True))
        assert reply.text == "once upon a time"
        await program.stop()


async def test_a_cancelled_ask_closes_its_call(temporal: str, tmp_path: Path) -> None:
    """Nobody waits any more: the call is cut off, and charged in full since it may be billed."""
    model = Hanging()
    async with stage(temporal, tmp_path, [Agent("slow", model, max_tokens=100)]) as here:
        program = await here.start()
        slow = await program.spawn("slow", wallet="$1")
        asking = asyncio.ensure_future(program.ask(slow, "?"))
        await model.asked.wait()
        asking.cancel()
        async with asyncio.timeout(PATIENCE_S):
            await model.left.wait()
        state = await until(lambda: landed(program))
        assert state.wallets["slow"].held == 0
        assert state.wallets["slow"].spent > dollars("$0.0005")
        await program.stop()


async def test_a_command_said_twice_is_obeyed_once(temporal: str, tmp_path: Path) -> None:
    """An id of the caller's own makes it so."""
    async with stage(temporal, tmp_path, [COUNTER]) as here:
        program = await here.start()
        paths = [await program.spawn("counter", id="first") for _ in range(2)]
        assert paths == ["counter", "counter"]
        assert [await program.ask("counter", "more", id="a") for _ in range(2)] == [1, 1]
        with pytest.raises(UserError, match="no body is called 'conter'"):
            await program.spawn("conter")
        await program.stop()


def test_a_coroutine_is_refused() -> None:
    """The message says what to do instead."""

    async def poll() -> None: ...

    deployment = Deployment([poll], MemoryLedger())  # type: ignore[list-item]
    with pytest.raises(UserError, match="write it as a Reducer"):
        deployment.registry(deployment.runtime())
