"""The whole runtime on virtual time, in a world that fails as a seed says.

python -m campaigns.simulation 1000        seeds 0 to 999, figures last
python -m campaigns.simulation 1 735       seed 735 alone
"""

import asyncio
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from campaigns.simulation_invariants import CheckedMachine, RunLog
from campaigns.simulation_workload import Faults, SimulatedLedger, SimulatedModel, Workload
from vegakit.host import LimiterRules, Process, TextChunk
from vegakit.lang import check_program, compile_program
from vegakit.policy import BreakerRule, Rate, RateRule
from vegakit.sdk import Runtime, VegaProgram
from vegakit.testing import VirtualClock, VirtualLoop, run_virtual

# A compiled program that plays in a simulation: it does whatever a program can, as it is told.


SOURCE = """
agent Plain { model fast }

agent Keeper {
    model fast
    memory conversation
}

agent Worker {
    model fast
    max_steps 3

    tool count(n: int) -> int "Count on." idempotent {
        process::sleep(20ms);
        return n + 1;
    }

    tool pass_on(n: int) -> str "Ask another." {
        return Plain <- "and {n}?";
    }
}

fn ask(text: str) -> str {
    try {
        return Plain <- text timeout 5s;
    } catch {
        return "nothing";
    }
}

fn spends(text: str) -> str {
    let said = "";
    session budget $0.30 {
        let later = async Plain <- text;
        said = Worker <- text budget $0.20;
        session budget $0.10 {
            said = said + ask(text);
        }
        said = said + (await later);
    } catch {
        said = said + "poor";
    }
    return said;
}

fn spawns(text: str) -> str {
    let keeper = spawn Keeper wallet $0.20 supervised by {
        strategy restart
        max_restarts 2
        window 60s
    };
    monitor(keeper) { reason -> trace::event("{reason}"); }
    let said = keeper <- text;
    return said + (keeper <- "again");
}

fn main(word: str, other: str) -> str {
    let left = "";
    let right = "";
    if word == "person" {
        return human::ask("which?", 3s) ?? "";
    }
    if word == "exit" {
        process::exit(other);
    }
    if word == "boom" {
        fail(other);
    }
    parallel {
        left = spends(word);
        right = ask(other);
    }
    process::sleep(50ms);
    try {
        left = left + spawns(right);
    } catch AgentFailed {
        left = left + "failed";
    }
    for i in range(3) {
        right = right + ask("{i}");
    }
    return left + right;
}
"""


@cache
def program() -> VegaProgram:
    checked, found = check_program(SOURCE, "cast.vega", lambda _path: None)
    assert checked is not None, found
    return VegaProgram(compile_program(checked), Path())


# One simulated run of the whole runtime: everything in it follows from its seed.


_LONGEST_STUBBORN_S = 30
_ENOUGH_S = 7_200
"""Of virtual time: who has not come to an end by then never will."""


@dataclass
class SimulationResult:
    """`broken` says what must not have happened; `lines` what did."""

    seed: int
    digest: str
    steps: int
    faults: Faults
    broken: list[str]
    lines: list[str] = field(repr=False)


def simulate(seed: int, *, restore_every: int | None = None) -> SimulationResult:
    simulation = _Simulation(seed, restore_every)
    try:
        run_virtual(simulation.execute())
    except TimeoutError:
        simulation.run_log.broken.append(f"it has not come to an end in {_ENOUGH_S} s")
    except Exception as error:  # noqa: BLE001
        simulation.run_log.broken.append(f"{type(error).__name__}: {error}")
    run_log = simulation.run_log
    broken = [*run_log.broken, *simulation.ledger.broken]
    return SimulationResult(
        seed, run_log.digest, run_log.steps, simulation.faults, broken, run_log.lines
    )


class _Simulation:
    def __init__(self, seed: int, restore_every: int | None) -> None:
        self.chance = Random(seed)
        self.faults: Faults = Counter()
        self.run_log = RunLog()
        self.ledger = SimulatedLedger(self.chance)
        self.clock = VirtualClock()
        self._model = SimulatedModel(self.chance, self.faults)
        self._workload = Workload(self.chance, self.faults, self._model)
        self._restore_every = restore_every
        self._processes: list[Process[Any]] = []
        self._waits: list[asyncio.Future[Any]] = []
        self._acts: dict[Callable[[], object], int] = {
            self._ask: 12,
            self._tell: 2,
            self._spawn: 3,
            self._run: 2,
            self._stream: 2,
            self._cancel: 3,
            self._exit: 5,
            self._end: 2,
            self._tie: 2,
            self._watch: 1,
            self._answer: 3,
            self._set_wall_clock: 1,
            self._sleep_like_a_laptop: 1,
        }

    async def execute(self) -> None:
        async with asyncio.timeout(_ENOUGH_S):
            limits = LimiterRules(
                RateRule(Rate(20, 1_000, 10), slots=3),
                BreakerRule(self.chance.choice([3, 50]), 3_000),
            )
            budget = self.chance.choice(["$0.50", "$5", "$100"])
            async with Runtime(
                budget,
                ledger=self.ledger,
                clock=self.clock,
                limits=lambda _: limits,
                models=lambda _: self._model,
            ) as rt:
                self._begin(rt)
                for _ in range(self.chance.randint(5, 25)):
                    self._act()
                    await asyncio.sleep(self.chance.choice([0, 0, 0.005, 0.2, 1.5, 6]))
                await asyncio.sleep(self.chance.choice([0, 3, 100]))
            await asyncio.gather(*self._waits, return_exceptions=True)
            await asyncio.sleep(0)
            # A body that swallows its cancellation is left behind, and ends in its own time.
            await asyncio.sleep(_LONGEST_STUBBORN_S)
            self.run_log.broken.extend(await self._left_over(rt))

    def _begin(self, rt: Runtime) -> None:
        rt.gate.chance = self.chance
        program = rt.program
        self._rt = self._workload.runtime = rt
        program.adopt(
            CheckedMachine(
                program.machine.state, program.registry.code, self.run_log, self._restore_every
            )
        )
        program.registry.register(self._workload.reducer)
        program.registry.register(self._workload.service)
        for _ in range(self.chance.randint(2, 5)):
            self._spawn()

    def _act(self) -> None:
        [act] = self.chance.choices(list(self._acts), list(self._acts.values()))
        act()

    def _fault(self, name: str) -> None:
        self.faults[name] += 1

    def _wait_for(self, work: "Awaitable[Any]") -> None:
        waits = asyncio.ensure_future(work)
        waits.add_done_callback(_look_at)
        self._waits.append(waits)

    def _any(self) -> Process[Any]:
        """Also one that has ended, and children of groups and of processes."""
        living = list(self._rt.program.machine.state.processes)
        known = self.chance.choice(self._processes)
        return Process(self._rt.program, self.chance.choice([known.path, *living]))

    def _spawn(self) -> None:
        grouped = self.chance.random() < 0.4
        made = self._workload.supervisor() if grouped else self._workload.child()
        supervise = None if grouped else self._workload.supervisor(0)
        self._processes.append(self._rt.spawn(made, supervise=supervise))

    def _run(self) -> None:
        """A compiled program, with a wallet of its own or without."""
        budget = self.chance.choice([None, "$0.50", "$3"])
        self._wait_for(self._rt.run(program(), *self._workload.message(), budget=budget))

    def _ask(self) -> None:
        timeout = self.chance.choice([None, None, 0.01, 1, 10])
        self._wait_for(self._any().send(self._workload.message(), timeout=timeout))

    def _tell(self) -> None:
        self._any().tell(self._workload.message())

    def _stream(self) -> None:
        agents = [p for p in self._living() if self._is_agent(p)]
        if agents:
            self._wait_for(self._listen(Process(self._rt.program, self.chance.choice(agents))))

    async def _listen(self, process: Process[Any]) -> None:
        """To the end, or no further than the first word."""
        leaves_early = self.chance.random() < 0.5
        chunks = process.stream("hello")
        try:
            async for chunk in chunks:
                if leaves_early and isinstance(chunk, TextChunk):
                    self._fault("stream left early")
                    break
        finally:
            await chunks.aclose()

    def _cancel(self) -> None:
        pending = [wait for wait in self._waits if not wait.done()]
        if pending:
            self._fault("ask cancelled")
            self.chance.choice(pending).cancel()

    def _exit(self) -> None:
        reason = self.chance.choice(["normal", "shutdown", "killed", "escalated", "bad mood"])
        self._fault(f"exit {reason}")
        busy = [path for path, p in self._rt.program.machine.state.processes.items() if p.in_flight]
        if busy and self.chance.random() < 0.7:
            Process(self._rt.program, self.chance.choice(busy)).exit(reason)
        else:
            self._any().exit(reason)

    def _end(self) -> None:
        process = self._any()
        kills = self.chance.random() < 0.5
        self._fault("kill" if kills else "stop")
        self._wait_for(process.kill() if kills else process.stop())

    def _tie(self) -> None:
        one, other = self._any(), self._any()
        self._fault("link")
        one.link(other)
        if self.chance.random() < 0.3:
            one.unlink(other)

    def _watch(self) -> None:
        self._waits.append(self._any().monitor())

    def _answer(self) -> None:
        """As a person does: in time or not, one of several, sometimes nonsense."""
        if questions := self._rt.interrupts():
            said = self.chance.choice([True, False, "yes", "perhaps"])
            self._fault("person answers")
            self._wait_for(self._rt.answer(self.chance.choice(questions).id, said))

    def _set_wall_clock(self) -> None:
        self._fault("wall clock set")
        self.clock.step_wall(self.chance.choice([-3_600_000, 3_600_000]))

    def _sleep_like_a_laptop(self) -> None:
        self._fault("machine asleep")
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.advance(self.chance.choice([1, 30]))

    def _living(self) -> list[str]:
        return list(self._rt.program.machine.state.processes)

    def _is_agent(self, path: str) -> bool:
        program = self._rt.program
        return program.registry.is_agent(program.machine.state.processes[path].spec.body)

    async def _left_over(self, rt: Runtime) -> list[str]:
        state = rt.program.machine.state
        spent = self.ledger.settled(rt.budgets.root)
        left = {
            "asks without an answer": self.run_log.unanswered or list(state.asks),
            "living": list(state.processes) + list(state.supervisors) + list(state.spawned),
            "under way": [str(f.effect.path) for f in state.effects_in_flight.values() if f.path],
            "questions": rt.interrupts(),
            "timers": state.timers,
            "wallets": state.wallets,
            "links": state.signals.links,
            "tasks of the host": rt.program.host.busy,
            "tasks": asyncio.all_tasks() - {asyncio.current_task()},
            "reserved in the ledger": self.ledger.reserved,
            "spent by the ledger, not due": spent - self._model.due,
            "spent by the runtime, not due": await rt.spent() - self._model.due,
            "told to the program, not due": self.run_log.charged - self._model.due,
        }
        return [f"left over, {what}: {found}" for what, found in left.items() if found]


def _look_at(done: "asyncio.Future[Any]") -> None:
    """Failures are told to the chronicle by the program; here nobody minds them."""
    if not done.cancelled():
        done.exception()


# Many seeds, each run twice: as it is, and with its program going through JSON on the way.


_RESTORE_EVERY = 50


@dataclass
class Tally:
    seeds: int = 0
    steps: int = 0
    faults: Faults = field(default_factory=Counter[str])
    failures: list[str] = field(default_factory=list[str])

    def add(self, other: "Tally") -> None:
        self.seeds += other.seeds
        self.steps += other.steps
        self.faults += other.faults
        self.failures += other.failures


def run_seeds(seeds: Iterable[int], restore_every: int = _RESTORE_EVERY) -> Tally:
    tally = Tally()
    for seed in seeds:
        ran, restored = simulate(seed), simulate(seed, restore_every=restore_every)
        problems = ran.broken or restored.broken or _differences(ran, restored)
        tally.add(Tally(1, ran.steps + restored.steps, ran.faults + restored.faults))
        tally.failures += [f"seed {seed}: {problem}" for problem in problems[:3]]
    return tally


def _differences(one: SimulationResult, other: SimulationResult) -> list[str]:
    if one.digest == other.digest:
        return []
    pairs = enumerate(zip(one.lines, other.lines, strict=False))
    at = next((n for n, (left, right) in pairs if left != right), "the end of the shorter")
    return [f"a second run, stored and reloaded on the way, differs from line {at} on"]


# Simulates so many seeds from the first on, and prints figures last.


_PIECE = 50


def main(seeds: int, first: int = 0) -> int:
    """Exit code 1 if an invariant broke; the seeds that break one are printed."""
    began = time.monotonic()
    total = Tally()
    pieces = [
        range(at, min(at + _PIECE, first + seeds)) for at in range(first, first + seeds, _PIECE)
    ]
    # A person is simulated by looking now and then, and not told by the log of each question.
    with ProcessPoolExecutor(
        os.cpu_count(), initializer=partial(logging.disable, logging.WARNING)
    ) as pool:
        for tally in pool.map(run_seeds, pieces):
            total.add(tally)
            for failure in tally.failures:
                _say(failure)
    for kind, count in Counter(total.faults).most_common():
        _say(f"{count:>9,}  {kind}")
    seconds = time.monotonic() - began
    _say(
        f"{total.seeds:,} seeds, {total.steps:,} steps, {sum(total.faults.values()):,} faults of "
        f"{len(total.faults)} kinds, {len(total.failures)} failures, {seconds:.1f} s"
    )
    return int(bool(total.failures))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
