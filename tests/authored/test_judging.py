"""Programs that models and clients send are looked at elsewhere: nobody waits for another's."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from benchmarks.admission import LongestStep, bomb_figures, scale
from benchmarks.admission_bombs import harmless, nested_loops

from tests.authored.stage import call, play, until
from vegakit.authoring import Accepted, Leave, May, Refusal, Refused, TermsOf, Wish, admit, look
from vegakit.errors import UserError
from vegakit.lang import MOST_STEPS, ModelTerms
from vegakit.models import ScriptedModel
from vegakit.money import dollars
from vegakit.runtime import Agent, Permit, Runtime, run_program
from vegakit.runtime.authored.judge import message_of

MODEL = ScriptedModel("", context_tokens=100_000)
assert MODEL.price is not None
TERMS = ModelTerms(MODEL.price, MODEL.context_tokens, 4096, MODEL.bound_input)
LEAVE = Leave(
    dollars("$1000"),
    May(),
    {},
    frozenset({"any"}),
    TermsOf({}, {"any": TERMS}),
    languages=("vega",),
)
STALL_MS = 20
HEAVY = nested_loops(60)


@asynccontextmanager
async def judging() -> AsyncGenerator[tuple[Runtime, Permit]]:
    async with Runtime() as rt:
        await rt.judges.ready()
        yield rt, Permit(LEAVE)


async def test_a_model_that_sends_a_bomb_does_not_stop_the_loop() -> None:
    """Its program is refused, and no step of the loop was a long one."""
    models = [ScriptedModel([call(source), "done"]) for source in ("print(1);", HEAVY)]
    tool = run_program([Agent("reader", ScriptedModel("ok"), max_tokens=100)])
    step = LongestStep()
    async with Runtime("$5") as rt:
        await rt.ask(Agent("planner", models[0], tools=[tool]), "go")
        with step:
            await rt.ask(Agent("planner", models[1], tools=[tool]), "go")
    assert "too much work" in str(models[1].requests[-1].messages[-1])
    assert step.ms <= STALL_MS * scale()


@pytest.mark.parametrize(
    "source",
    [harmless(), HEAVY, "let = 1;", "print(nobody);", 'print("\ud800");', "print(1);"],
    ids=["harmless", "heavy", "misspelt", "unknown name", "half a character", "short"],
)
async def test_who_looks_elsewhere_comes_to_the_same(source: str) -> None:
    """So a run that is taken up again, wherever, accepts what was accepted."""
    async with judging() as (rt, permit):
        there = await rt.judges.look(Wish.ADMIT, source, "vega", permit, "a")
    here = look(Wish.ADMIT, source, "vega", LEAVE, MOST_STEPS)
    assert there.verdict == admit(source, "vega", LEAVE)
    assert here is None or here == there


async def test_a_light_program_does_not_wait_for_heavy_ones() -> None:
    """Of whichever client: eight send theirs first."""
    async with judging() as (rt, permit):
        heavy = [
            asyncio.ensure_future(rt.judges.look(Wish.ADMIT, HEAVY, "vega", permit, f"foe {n}"))
            for n in range(8)
        ]
        await asyncio.wait(heavy, timeout=0.01)
        light = await rt.judges.look(Wish.ADMIT, harmless(), "vega", permit, "friend")
        assert isinstance(light.verdict, Accepted)
        assert sum(one.done() for one in heavy) < len(heavy) // 2
        told = await asyncio.gather(*heavy)
        assert {one.verdict.kind for one in told if isinstance(one.verdict, Refused)} == {
            Refusal.SIZE
        }


async def test_a_flood_of_one_client_delays_that_client() -> None:
    """Heavy ones too take turns: the only one of another client is second, not last."""
    async with judging() as (rt, permit):
        look, done = rt.judges.look, list[str]()

        async def send(client: str) -> None:
            await look(Wish.COST, HEAVY, "a.vega", permit, client)
            done.append(client)

        await send("foe")
        flood = [asyncio.ensure_future(send("foe")) for _ in range(8)]
        await asyncio.wait(flood, timeout=0.01)
        await send("other")
        await asyncio.gather(*flood)
    assert done.index("other") <= 3


async def test_who_waits_for_too_many_is_told_so() -> None:
    async with judging() as (rt, permit):
        look = rt.judges.look
        await look(Wish.COST, HEAVY, "a.vega", permit, "foe")
        flood = [
            asyncio.ensure_future(look(Wish.COST, HEAVY, "a.vega", permit, "foe"))
            for _ in range(40)
        ]
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        told = {str(one.exception()) for one in flood if one.done() and one.exception()}
        assert told
        assert all("send this one again" in text for text in told)
        assert isinstance(flood[-1].exception(), UserError)
        for one in flood:
            one.cancel()
        await asyncio.wait(flood)
        light = await look(Wish.COST, harmless(), "a.vega", permit, "friend")
        assert light.quoted is not None


async def test_a_process_that_is_ended_is_replaced() -> None:
    """What it looked at is refused; nobody else notices."""
    async with judging() as (rt, permit):
        _, slow = await rt.judges.ready()
        look = rt.judges.look
        doomed = asyncio.ensure_future(look(Wish.ADMIT, HEAVY, "vega", permit, "foe"))
        began = _cpu_of(slow)
        await until(lambda: _cpu_of(slow) > began + 5_000_000)
        os.kill(slow, signal.SIGKILL)
        told = (await doomed).verdict
        assert isinstance(told, Refused)
        assert told.kind is Refusal.SIZE
        _, other = await rt.judges.ready()
        assert other != slow
        again = await look(Wish.ADMIT, harmless(8_000), "vega", permit, "foe")
        assert isinstance(again.verdict, Accepted)


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _room_of(pid: int) -> float:
    """How many megabytes its address space may grow."""
    limits = Path(f"/proc/{pid}/limits").read_text(encoding="ascii")
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    most = int(limits.split("Max address space")[1].split()[0]) / (1 << 20)
    return most - int(status.split("VmSize:")[1].split()[0]) / 1024


def _cpu_of(pid: int) -> int:
    """In nanoseconds."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0])


async def test_its_memory_is_limited() -> None:
    """To little above what it has when it is idle."""
    async with judging() as (rt, _):
        for pid in await rt.judges.ready():
            assert _room_of(pid) <= 80


def test_the_kernel_ends_it_when_one_program_takes_too_much_cpu() -> None:
    """Should steps ever say too little: here they are not limited, and the CPU time is."""
    boot = "import vegakit.runtime.authored.judge as j; j._MOST_CPU_S = 0.1; j.main()"
    job = (Wish.ADMIT, HEAVY, "vega", Permit(LEAVE).sent, 10**9)
    command = [sys.executable, "-c", boot]
    sent = message_of((0,)) + message_of(job)
    ran = subprocess.run(command, input=sent, capture_output=True, check=False)
    assert ran.returncode == -signal.SIGPROF, ran.stderr


def test_a_few_bombs_cost_little() -> None:
    """`just admission` sends two hundred."""
    figures = bomb_figures(12)
    assert all(figure.holds for figure in figures), figures


async def test_nothing_of_it_is_left() -> None:
    async with judging() as (rt, permit):
        pids = await rt.judges.ready()
        waiting = asyncio.ensure_future(
            rt.judges.look(Wish.ADMIT, HEAVY, "vega", permit, "somebody")
        )
        await asyncio.wait([waiting], timeout=0.01)
    assert waiting.cancelled() or waiting.done()
    assert not [*filter(_is_there, pids)]


async def test_a_program_runs_before_any_process_is_there() -> None:
    """The first answer of a model may be quicker than the start of a process."""
    played = await play(call("fn main() -> int { return 7; }"))
    assert played.last["result"] == 7
