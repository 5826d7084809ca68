"""Programs that last: moved to their next run, replayed, edited, failed, asked by many."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from tests.durable.bodies import COUNTER, Gated, clerk, waits
from tests.durable.stage import PATIENCE_S, replay, stage, until
from vegakit.durable import Deployment, register_code
from vegakit.errors import AgentFailed, BugError, LimitReached, UserError
from vegakit.host import Agent, Reducer
from vegakit.program import Respond
from vegakit.providers import ScriptedModel
from vegakit.store import MemoryLedger


async def test_a_program_moves_to_its_next_run(temporal: str, tmp_path: Path) -> None:
    """Calls are waited for, asks are carried along, and nothing is lost or done twice."""
    model = ScriptedModel({f"word {number}.": f"heard {number}" for number in range(12)})
    bodies = [COUNTER, Reducer("clerk", clerk), Agent("echo", model)]
    async with stage(temporal, tmp_path, bodies) as here:
        program = await here.start(longest=40)
        for name in ("counter", "clerk", "echo"):
            await program.spawn(name)
        asking = asyncio.ensure_future(program.ask("clerk", "may I?"))
        for number in range(12):
            counted, echoed = await asyncio.gather(
                program.ask("counter", "more"), program.ask("echo", f"word {number}.")
            )
            assert (counted, echoed.text) == (number + 1, f"heard {number}")
        await program.tell("clerk", "yes")
        assert await asking == "it was: yes"
        assert len(model.requests) == 12
        await program.stop()
        assert len(await here.histories()) > 2


async def test_it_moves_when_its_calls_are_over(temporal: str, tmp_path: Path) -> None:
    """What is under way is waited for; what is begun meanwhile, and timers, the next run does."""
    slow, quick = Gated("at last"), ScriptedModel("at once")
    bodies = [COUNTER, Reducer("clerk", clerk), Agent("slow", slow), Agent("quick", quick)]
    async with stage(temporal, tmp_path, bodies) as here:
        program = await here.start(longest=40)
        for body in bodies:
            await program.spawn(body.name)
        asking = [asyncio.ensure_future(program.ask("slow", "?"))]
        await slow.asked.wait()
        asking.append(asyncio.ensure_future(program.ask("clerk", 8_000)))
        for _ in range(8):
            await program.ask("counter", "more")
        asking.append(asyncio.ensure_future(program.ask("quick", "?")))
        await until(lambda: waits(program, 3))
        assert len(await here.histories()) == 1
        assert quick.requests == []
        slow.may_answer.set()
        async with asyncio.timeout(PATIENCE_S):
            answers = await asyncio.gather(*asking)
        assert [str(answer) for answer in answers] == ["at last", "it was: wake", "at once"]
        assert (len(slow.requests), len(quick.requests)) == (1, 1)
        await program.stop()
        assert len(await here.histories()) == 2


async def test_without_a_cache_every_task_replays(temporal: str, tmp_path: Path) -> None:
    """The workflow is built anew from its history each time."""
    bodies = [COUNTER, Agent("guide", ScriptedModel(["Paris", "Madrid"]))]
    async with stage(temporal, tmp_path, bodies, cache=0) as here:
        program = await here.start()
        await program.spawn("counter")
        await program.spawn("guide")
        assert [await program.ask("counter", "more") for _ in range(3)] == [1, 2, 3]
        assert (await program.ask("guide", "France?")).text == "Paris"
        assert (await program.ask("guide", "Spain?")).text == "Madrid"
        await program.stop()


@pytest.mark.parametrize("change", ["system", "name"])
async def test_an_edited_program_gets_no_recorded_answer(
    temporal: str, tmp_path: Path, change: str
) -> None:
    """Another request, or another place, is an activity of another name."""
    agent = Agent("guide", ScriptedModel("Paris"))
    async with stage(temporal, tmp_path, [agent, COUNTER]) as here:
        program = await here.start()
        await program.ask(await program.spawn("guide"), "France?")
        await program.stop()
        histories, queue = await here.histories(), here.connection.queue
        edited = Agent("guide", ScriptedModel("Paris"), system="Be brief.")
        deployment = Deployment([edited], MemoryLedger())
        code = deployment.registry(deployment.runtime()).code
        good = here.code
        register_code(queue, code if change == "system" else {"guide": good["counter"]})
        with pytest.raises(Exception, match=r".*") as raised:
            await replay(histories)
        assert "[TMPRL1100]" in str(raised.value)
        register_code(queue, good)


async def test_what_is_too_large_is_refused(temporal: str, tmp_path: Path) -> None:
    """In words, instead of a task that Temporal tries for ever."""
    model = ScriptedModel("done", context_tokens=10_000_000)
    async with stage(temporal, tmp_path, [Agent("reader", model)]) as here:
        program = await here.start()
        reader = await program.spawn("reader")
        with pytest.raises(LimitReached, match="Temporal keeps at most"):
            await program.ask(reader, "word " * 365_000)
        await program.stop()


async def test_a_model_that_says_too_much(temporal: str, tmp_path: Path) -> None:
    """Who asked is told; Temporal does not try it for ever."""
    async with stage(
        temporal, tmp_path, [Agent("teller", ScriptedModel("word " * 400_000))]
    ) as here:
        program = await here.start()
        await program.spawn("teller", restart="temporary")
        with pytest.raises(AgentFailed, match="the answer has 2,000,"):
            await program.ask("teller", "?")
        await program.stop()


def hoard(state: Any, message: Any) -> tuple[Any, list[Any]]:
    """Keeps so much, or shows it."""
    return ("x" * message, [Respond(message)]) if message else (state, [Respond(state)])


async def test_an_answer_or_state_that_is_too_large(temporal: str, tmp_path: Path) -> None:
    """The one is refused in words; the other ends the program when it would have to move."""
    async with stage(temporal, tmp_path, [Reducer("hoard", hoard)]) as here:
        program = await here.start(longest=20)
        await program.spawn("hoard")
        await program.ask("hoard", 2_000_000)
        with pytest.raises(LimitReached, match="the answer has 2,000,"):
            await program.ask("hoard", 0)
        with suppress(AgentFailed, UserError):
            for _ in range(10):
                await program.ask("hoard", 2_000_000)
        with pytest.raises(BugError, match="the state of the program has 2,0"):
            await asyncio.wait_for(program.wait(), PATIENCE_S)
        here.programs.clear()


async def test_a_machine_that_fails_ends_the_program(temporal: str, tmp_path: Path) -> None:
    """Visibly, instead of a task that Temporal tries for ever; who asks then is told so."""
    async with stage(temporal, tmp_path, [COUNTER]) as here:
        program = await here.start()
        await program.spawn("counter")
        here.code.pop("counter")  # the machine looks for a body that is not there
        with pytest.raises(AgentFailed, match="cannot go on"):
            await program.ask("counter", "more")
        with pytest.raises(BugError, match="the program cannot go on: KeyError: 'counter'"):
            await program.wait()
        with pytest.raises(UserError, match="is running"):
            await program.tell("counter", "more")
        here.programs.clear()


async def test_many_may_wait_for_an_answer(temporal: str, tmp_path: Path) -> None:
    """More than the ten updates that Temporal takes at once; and commands are still obeyed."""
    async with stage(temporal, tmp_path, [Reducer("clerk", clerk)]) as here:
        program = await here.start()
        paths = [await program.spawn("clerk") for _ in range(12)]
        asking = [asyncio.ensure_future(program.ask(path, "may I?")) for path in paths]
        await until(lambda: waits(program, 12))
        await program.kill(paths.pop(), tree=True)
        with pytest.raises(AgentFailed):
            await asking.pop()
        for path in paths:
            await program.tell(path, "yes")
        assert await asyncio.gather(*asking) == ["it was: yes"] * 11
        await program.stop()


async def test_what_was_not_heard_is_said_again(temporal: str, tmp_path: Path) -> None:
    """Temporal may turn an update away before the program saw it."""
    async with stage(temporal, tmp_path, [COUNTER]) as here:
        program = await here.start()
        await program.spawn("counter")
        real, turned_away = program._update, [ApplicationError("late", type="UnprocessedUpdate")]

        async def update(*said: Any) -> Any:
            if turned_away:
                raise WorkflowUpdateFailedError(turned_away.pop())
            return await real(*said)

        program._update = update
        assert await program.ask("counter", "more") == 1
        turned_away.append(ApplicationError("no", type="Other"))
        with pytest.raises(WorkflowUpdateFailedError):
            await program.ask("counter", "more")
        await program.stop()
