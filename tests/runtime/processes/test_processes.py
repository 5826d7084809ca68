"""Processes on the real runtime: agents, reducers and functions, asked, watched and ended."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S, until
from vegakit.concurrency import SteadyClock
from vegakit.conversation import ModelRequest
from vegakit.errors import AgentFailed, BudgetExceeded, LimitReached, Timeout, UserError
from vegakit.host import Agent, Child, Reducer, Supervisor, TextChunk, TurnEnded
from vegakit.policy import BreakerRule, ExitKind, RetryRule
from vegakit.program import (
    BreakerOpened,
    CostAlert,
    ProcessExited,
    ProcessRestarted,
    ProcessStuck,
    Respond,
)
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import MemoryJournal, SqliteMemory


def echo(request: ModelRequest) -> str:
    return request.messages[-1].parts[0].text  # type: ignore[union-attr]


def greeter(**more: Any) -> Agent[str]:
    return Agent("greeter", model=ScriptedModel(echo), **more)


async def double(number: int) -> int:
    if number == 7:
        raise ValueError("seven")
    return 2 * number


def count(state: int, message: int) -> tuple[int, list[Any]]:
    return state + message, [Respond(state + message)]


async def test_agents_reducers_and_functions_answer() -> None:
    """Three kinds of body, one way to ask."""
    async with Runtime() as rt:
        assert (await rt.spawn(greeter()).ask("hello")).text == "hello"
        assert await rt.spawn(double).ask(4) == 8
        counter = rt.spawn(Reducer("counter", count, 0))
        assert [await counter.ask(n) for n in (1, 2, 3)] == [1, 3, 6]


async def test_a_send_starts_at_once_and_sends_overlap() -> None:
    """Nobody awaits them, and still all three are under way."""
    model = ScriptedModel(echo)
    async with Runtime() as rt:
        agent = rt.spawn(Agent("a", model=model))
        sent = [agent.send(word) for word in "xyz"]
        await asyncio.sleep(0)
        assert len(model.requests) == 3
        assert [(await one).text for one in sent] == ["x", "y", "z"]


async def test_memory_lets_a_process_remember() -> None:
    """The second question carries the first exchange."""
    model = ScriptedModel(echo)
    async with Runtime() as rt:
        agent = rt.spawn(Agent("a", model=model, memory="conversation"))
        await asyncio.gather(agent.send("one"), agent.send("two"))
        assert [len(request.messages) for request in model.requests] == [1, 3]


async def test_memory_outlives_the_program(tmp_path: Path) -> None:
    """A later program that asks for it goes on with the conversation."""
    model = ScriptedModel(echo)
    for number in range(2):
        async with Runtime(memory=SqliteMemory(tmp_path / "memory.db")) as rt:
            agent = rt.spawn(Agent("a", model=model, memory="conversation"))
            assert await agent.recall() == 4 * number
            await agent.ask("one")
            await agent.ask("two")
    assert [len(request.messages) for request in model.requests] == [1, 3, 5, 7]


async def test_a_stream_says_it_piece_by_piece() -> None:
    """Deltas, then the reply."""
    async with Runtime() as rt:
        agent = rt.spawn(greeter())
        events = [event async for event in agent.stream("a b c")]
        assert "".join(str(event) for event in events) == "a b c"
        assert isinstance(events[0], TextChunk)
        assert isinstance(events[-1], TurnEnded)


async def test_leaving_a_stream_cancels_it() -> None:
    """Nothing of it is left under way."""
    async with Runtime() as rt:
        stream = rt.spawn(greeter()).stream("a " * 500)
        await anext(stream)
        await stream.aclose()
        await until(lambda: rt.program.host.busy == 0)


async def test_a_crash_restarts_and_the_message_is_delivered_again() -> None:
    """The asker notices nothing but the delay."""
    failures = iter([ValueError("first"), ValueError("second")])

    async def flaky(message: str) -> str:
        for failure in failures:
            raise failure
        return message

    async with Runtime() as rt:
        restarted: list[ProcessRestarted] = []
        rt.on(ProcessRestarted, restarted.append)
        assert await rt.spawn(flaky).ask("hi") == "hi"
        assert [news.generation for news in restarted] == [2, 3]


async def test_a_process_that_keeps_crashing_fails_its_askers() -> None:
    """After three restarts; monitors hear of it too."""
    async with Runtime() as rt:
        process = rt.spawn(double)
        gone = process.monitor()
        with pytest.raises(AgentFailed, match="seven"):
            await process.ask(7)
        assert (await gone).kind is ExitKind.ESCALATED
        assert not process.alive
        with pytest.raises(AgentFailed, match="noproc"):
            await process.ask(1)


async def test_a_restart_keeps_the_wallet_and_a_wallet_is_a_cap() -> None:
    """One word in and ten out fit once; with the first paid, the second does not fit."""
    async with Runtime() as rt:
        agent = rt.spawn(greeter(max_tokens=10), wallet="$0.000055")
        await agent.ask("hi")
        agent.exit("chaos")
        with pytest.raises(BudgetExceeded, match="raise its wallet"):
            await agent.ask("hi")
        assert agent.spent > 0


async def test_a_timeout_is_told_and_the_process_lives() -> None:
    """What was under way for it is cancelled."""

    async def slow(is_stuck: bool) -> str:
        if is_stuck:
            await asyncio.Event().wait()
        return "done"

    async with Runtime() as rt:
        process = rt.spawn(slow)
        with pytest.raises(Timeout):
            await process.ask(True, timeout=0.02)
        assert await process.ask(False) == "done"


async def test_cancelling_the_asker_cancels_the_work() -> None:
    """A cancel goes all the way down."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow(_: str) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Runtime() as rt:
        sent = rt.spawn(slow).send("x")
        await begun.wait()
        sent.cancel()
        await asyncio.wait_for(ended.wait(), PATIENCE_S)


async def test_what_a_process_spawns_is_its_child_and_shares_its_money() -> None:
    """The spawner is found by itself, inside functions and tools."""

    async def boss(question: str) -> str:
        child = rt.spawn(greeter(), wallet="$0.10")
        assert child.path == "boss/greeter"
        with pytest.raises(BudgetExceeded, match="only"):
            rt.spawn(greeter(), wallet="$0.95")
        return (await child.ask(question)).text

    async with Runtime() as rt:
        process = rt.spawn(boss, wallet="$1")
        assert await process.ask("hi") == "hi"
        assert rt.program.is_alive("boss/greeter")
        await process.stop()
        assert not rt.program.is_alive("boss/greeter")


async def test_a_fork_bomb_of_agents_is_stopped_by_the_bounds() -> None:
    """Each spawns two that spawn two; the depth ends it, and the message says what to raise."""
    refused: list[str] = []

    async def bomb(depth: int) -> None:
        for _ in range(2):
            try:
                await rt.spawn(bomb).ask(depth + 1)
            except LimitReached as error:
                refused.append(str(error))

    async with Runtime() as rt:
        await rt.spawn(bomb).ask(0)
        assert len(refused) == 2**6
        assert "Bounds(depth=" in refused[0]


async def test_a_supervisor_restarts_its_group() -> None:
    """With restart_all the crash of one restarts both; nested groups have names of their own."""
    async with Runtime() as rt:
        workers = Supervisor("restart", [Child(double, "a"), Child(double, "b")], name="workers")
        rt.spawn(Supervisor("restart_all", [greeter(), workers]), name="team")
        rt.program.exit("team/greeter", "chaos")
        processes = rt.program.machine.state.processes
        assert processes["team/greeter"].generation == 2
        assert "team/workers#2/a" in processes


async def test_links_take_each_other_along() -> None:
    """When one ends for good, the other crashes."""
    async with Runtime() as rt:
        a = rt.spawn(double, name="a", restart="temporary")
        b = rt.spawn(double, name="b", restart="temporary")
        a.link(b)
        gone = b.monitor()
        a.exit("boom")
        assert (await gone).detail == "boom"


async def test_a_kill_takes_the_tree_and_nothing_is_left() -> None:
    """No process, no task, no reservation."""

    async def boss(_: str) -> None:
        agents = [rt.spawn(slow) for _ in range(8)]
        await asyncio.gather(*(agent.send("work") for agent in agents))

    async def slow(_: str) -> None:
        await asyncio.Event().wait()

    async with Runtime() as rt:
        process = rt.spawn(boss)
        sent = process.send("go")
        await until(lambda: len(rt.program.machine.state.processes) == 9)
        assert (await process.kill()).kind is ExitKind.KILLED
        with pytest.raises(AgentFailed):
            await sent
        await until(lambda: rt.program.host.busy == 0)
        assert rt.program.machine.state.processes == {}


async def test_news_of_money_breakers_and_stuck_processes() -> None:
    """`rt.on` takes one kind or several."""
    news: list[Any] = []
    told = asyncio.Event()

    async def stuck(_: str) -> None:
        await told.wait()

    async with Runtime() as rt:
        rt.on(ProcessStuck, lambda _: told.set())
        rt.on(CostAlert | ProcessStuck | BreakerOpened, news.append)
        await rt.spawn(greeter(), cost_alert="$0.000001").ask("hi")
        await rt.spawn(stuck, stuck_after=0.05).ask("x")
        broken = Agent(
            "broken",
            model=ScriptedModel(lambda _: {"error": "server"}),
            breaker=BreakerRule(threshold=1),
            retry=RetryRule(max_attempts=1),
        )
        with pytest.raises(AgentFailed):
            await rt.spawn(broken).ask("hi")
        kinds = [type(one) for one in news]
        assert kinds[0] is CostAlert
        assert ProcessStuck in kinds
        assert kinds[-1] is BreakerOpened


async def test_closing_the_runtime_ends_every_process_in_reverse_order() -> None:
    """The last started first; services get to clean up."""
    begun: list[str] = []
    ended: list[str] = []

    def service(name: str) -> Any:
        async def serve() -> None:
            begun.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(name)

        serve.__name__ = name
        return serve

    async with Runtime() as rt:
        for name in "abc":
            rt.spawn(service(name))
        await until(lambda: len(begun) == 3)
    assert ended == ["c", "b", "a"]


async def test_an_idle_process_is_a_record_and_not_a_task() -> None:
    """A thousand of them add no task at all."""
    async with Runtime() as rt:
        await rt.spawn(greeter()).ask("hi")
        tasks = len(asyncio.all_tasks())
        made = rt.program.spawn_many(greeter(), 1000, wallet="$1")
        assert len(made) == 1000
        assert len(asyncio.all_tasks()) == tasks
        assert (await made[-1].ask("last")).text == "last"


async def test_a_recorded_answer_is_not_bought_again() -> None:
    """The same program on the same journal gets its answers from there."""
    model, journal = ScriptedModel(echo), MemoryJournal()
    for _ in range(2):
        async with Runtime(journal=journal) as rt:
            rt.program.machine.state.id = "the same program"  # type: ignore[assignment]
            reply = await rt.spawn(Agent("a", model=model)).ask("hi")
            assert reply.text == "hi"
    assert len(model.requests) == 1


async def test_what_cannot_be_a_process_is_refused_in_words() -> None:
    """A plain function is not awaitable; two children of one name are not told apart."""
    async with Runtime() as rt:
        with pytest.raises(UserError, match="async def"):
            rt.spawn(print)
        with pytest.raises(UserError, match="name one of them"):
            rt.spawn(Supervisor("restart", [double, double]))
        rt.spawn(double, name="carl")
        with pytest.raises(UserError, match="another name"):
            rt.spawn(double, name="carl")


async def test_exits_are_told_once() -> None:
    """With the reason and what the process had spent."""
    told: list[ProcessExited] = []
    async with Runtime() as rt:
        rt.on(ProcessExited, told.append)
        agent = rt.spawn(greeter())
        reply = await agent.ask("hi")
        await agent.stop()
        assert [(news.path, news.spent) for news in told] == [("greeter", reply.cost)]


class HurriedClock(SteadyClock):
    """A clock on which a millisecond passes whenever somebody looks at it."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def now(self) -> int:
        self.looks += 1
        return super().now() + self.looks


async def test_a_burst_of_answers_leaves_turns_of_the_loop_to_others() -> None:
    """A hundred answers arrive in one turn; they are worked off over several."""
    gate = asyncio.Event()

    async def wait(number: int) -> int:
        await gate.wait()
        return number

    async with Runtime(clock=HurriedClock()) as rt:
        asked = [process.send(n) for n, process in enumerate(rt.program.spawn_many(wait, 100))]
        await until(lambda: rt.program.host.busy == 100)
        gate.set()
        done = list[int]()
        while len(done) < 1_000 and (not done or done[-1] < 100):
            await asyncio.sleep(0)
            done.append(sum(one.done() for one in asked))
        assert [await one for one in asked] == list(range(100))
        assert max(b - a for a, b in itertools.pairwise([0, *done])) < 20
