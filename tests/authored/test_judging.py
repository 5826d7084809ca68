"""Programs that models and clients send are looked at elsewhere: nobody waits for another's."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from campaigns.admission import LongestStep, bomb_figures, scale
from campaigns.admission_bombs import BOMBS, harmless, nested_loops, some

from tests.authored.stage import call, play
from tests.patience import turns, until
from vegakit.errors import AgentFailed, BugError, UserError
from vegakit.host import Agent, PreparedGrant, run_program
from vegakit.host.admission_worker import message_of
from vegakit.lang import MOST_STEPS, ModelTerms
from vegakit.money import dollars
from vegakit.program import (
    AdmissionRequest,
    AdmittedProgram,
    AgentTerms,
    ProgramGrant,
    ProgramRights,
    RefusalReason,
    RefusedProgram,
    admit,
    inspect_program,
)
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime

MODEL = ScriptedModel("", context_tokens=100_000)
assert MODEL.price is not None
TERMS = ModelTerms(MODEL.price, MODEL.context_tokens, 4096, MODEL.bound_input)
LEAVE = ProgramGrant(
    dollars("$1000"),
    ProgramRights(),
    {},
    frozenset({"any"}),
    AgentTerms({}, {"any": TERMS}),
    languages=("vega",),
)
STALL_MS = 20
HEAVY = nested_loops(60)


@asynccontextmanager
async def judging() -> AsyncGenerator[tuple[Runtime, PreparedGrant]]:
    async with Runtime() as rt:
        await rt.admission_service.ready()
        yield rt, PreparedGrant(LEAVE)


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
        there = await rt.admission_service.inspect_program(
            AdmissionRequest.ADMIT, source, "vega", permit, "a"
        )
    here = inspect_program(AdmissionRequest.ADMIT, source, "vega", LEAVE, MOST_STEPS)
    assert there.verdict == admit(source, "vega", LEAVE)
    assert here is None or here == there


async def test_a_light_program_does_not_wait_for_heavy_ones() -> None:
    """Of whichever client: eight send theirs first."""
    async with judging() as (rt, permit):
        heavy = [
            asyncio.ensure_future(
                rt.admission_service.inspect_program(
                    AdmissionRequest.ADMIT, HEAVY, "vega", permit, f"foe {n}"
                )
            )
            for n in range(8)
        ]
        await turns(50)
        light = await rt.admission_service.inspect_program(
            AdmissionRequest.ADMIT, harmless(), "vega", permit, "friend"
        )
        assert isinstance(light.verdict, AdmittedProgram)
        assert sum(one.done() for one in heavy) < len(heavy) // 2
        told = await asyncio.gather(*heavy)
        assert {one.verdict.kind for one in told if isinstance(one.verdict, RefusedProgram)} == {
            RefusalReason.SIZE
        }


async def test_a_flood_of_one_client_delays_that_client() -> None:
    """Heavy ones too take turns: the only one of another client is second, not last."""
    async with judging() as (rt, permit):
        inspect_program, done = rt.admission_service.inspect_program, list[str]()

        async def send(client: str) -> None:
            await inspect_program(AdmissionRequest.COST, HEAVY, "a.vega", permit, client)
            done.append(client)

        await send("foe")
        flood = [asyncio.ensure_future(send("foe")) for _ in range(8)]
        await turns(50)
        await send("other")
        await asyncio.gather(*flood)
    assert done.index("other") <= 3


async def test_who_waits_for_too_many_is_told_so() -> None:
    async with judging() as (rt, permit):
        inspect_program = rt.admission_service.inspect_program
        await inspect_program(AdmissionRequest.COST, HEAVY, "a.vega", permit, "foe")
        flood = [
            asyncio.ensure_future(
                inspect_program(AdmissionRequest.COST, HEAVY, "a.vega", permit, "foe")
            )
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
        light = await inspect_program(AdmissionRequest.COST, harmless(), "a.vega", permit, "friend")
        assert light.quoted is not None


async def test_a_process_that_is_ended_is_replaced() -> None:
    """What it looked at is refused; nobody else notices."""
    async with judging() as (rt, permit):
        _, slow = await rt.admission_service.ready()
        inspect_program = rt.admission_service.inspect_program
        doomed = asyncio.ensure_future(
            inspect_program(AdmissionRequest.ADMIT, HEAVY, "vega", permit, "foe")
        )
        began = _cpu_of(slow)
        await until(lambda: _cpu_of(slow) > began + 5_000_000)
        os.kill(slow, signal.SIGKILL)
        told = (await doomed).verdict
        assert isinstance(told, RefusedProgram)
        assert told.kind is RefusalReason.SIZE

        # On a slow machine it may have answered before it was ended, and its end is seen later.
        async def is_replaced() -> bool:
            return (await rt.admission_service.ready())[1] != slow

        await until(is_replaced)
        again = await inspect_program(
            AdmissionRequest.ADMIT, harmless(8_000), "vega", permit, "foe"
        )
        assert isinstance(again.verdict, AdmittedProgram)


async def test_after_a_process_is_lost_nothing_is_looked_at_in_the_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What ended it may be sent again at once, and a thread of the runtime has no limit but steps:
    it would hold up everybody."""
    here = list[object]()

    def record(*given: object) -> None:
        here.append(given)

    async with judging() as (rt, permit):
        monkeypatch.setattr("vegakit.host.admission.inspect_program", record)
        look = rt.admission_service.inspect_program
        quick, _ = await rt.admission_service.ready()
        os.kill(quick, signal.SIGKILL)
        looks = [
            look(AdmissionRequest.ADMIT, harmless(), "vega", permit, f"client {n}")
            for n in range(4)
        ]
        told = await asyncio.gather(*looks)
    assert not here
    assert all(isinstance(one.verdict, AdmittedProgram) for one in told)


def _strange(*_: object) -> None:
    raise ValueError("nobody thought of this")


async def test_what_a_thread_does_not_expect_is_told_as_a_bug(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of a process: a client was told the words of Python, and nobody caught it."""
    monkeypatch.setattr("vegakit.host.admission.inspect_program", _strange)
    async with Runtime() as rt:
        permit = PreparedGrant(LEAVE)
        permit.sent = None
        with pytest.raises(BugError, match="fault of Vega"):
            await rt.admission_service.inspect_program(
                AdmissionRequest.COST, "print(1);", "a.vega", permit, "somebody"
            )


@pytest.mark.parametrize("ahead", ["elsewhere", "here"])
async def test_a_bug_of_whoever_looks_fails_the_ask(
    monkeypatch: pytest.MonkeyPatch, ahead: str
) -> None:
    """It waited for ever: the answer of the model was not told to the program any more."""
    monkeypatch.setattr("vegakit.host.authors.admit", _strange)
    monkeypatch.setattr("vegakit.host.admission.inspect_program", _strange)
    if ahead == "here":
        monkeypatch.setattr("vegakit.host.authors.HostAuthor._reviewed", _strange)
    with pytest.raises(AgentFailed, match="nobody thought of this"):
        async with asyncio.timeout(20):
            await play(call("fn main() -> int { return 7; }"))


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
        for pid in await rt.admission_service.ready():
            assert _room_of(pid) <= 80


def test_the_kernel_ends_it_when_one_program_takes_too_much_cpu() -> None:
    """Should steps ever say too little: here they are not limited, and the CPU time is."""
    boot = "import vegakit.host.admission_worker as j; j._MOST_CPU_S = 0.1; j.main()"
    job = (AdmissionRequest.ADMIT, HEAVY, "vega", PreparedGrant(LEAVE).sent, 10**9)
    command = [sys.executable, "-c", boot]
    sent = message_of((0,)) + message_of(job)
    ran = subprocess.run(command, input=sent, capture_output=True, check=False)
    assert ran.returncode == -signal.SIGPROF, ran.stderr


def test_a_few_bombs_cost_little() -> None:
    """`just admission` sends two hundred."""
    figures = bomb_figures(12)
    assert all(figure.holds for figure in figures), figures


def test_a_mistake_that_parses_the_file_again_counts_as_work() -> None:
    """A hundred mistakes in one long line parsed the whole program a hundred times, uncounted."""
    bomb = next(bomb for bomb in some(len(BOMBS)) if bomb.name == "python: a long or")
    grant = replace(LEAVE, languages=("python",))
    verdict = admit(bomb.source, bomb.language, grant)
    assert isinstance(verdict, RefusedProgram)
    assert verdict.kind is RefusalReason.SIZE


async def test_nothing_of_it_is_left() -> None:
    async with judging() as (rt, permit):
        pids = await rt.admission_service.ready()
        waiting = asyncio.ensure_future(
            rt.admission_service.inspect_program(
                AdmissionRequest.ADMIT, HEAVY, "vega", permit, "somebody"
            )
        )
        await turns(50)
    assert waiting.cancelled() or waiting.done()
    assert not [*filter(_is_there, pids)]


async def test_a_program_runs_before_any_process_is_there() -> None:
    """The first answer of a model may be quicker than the start of a process."""
    played = await play(call("fn main() -> int { return 7; }"))
    assert played.last["result"] == 7
