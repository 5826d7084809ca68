"""One simulated run of the whole runtime: everything in it follows from its seed."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from vegakit.policy import BreakerRule, Rate, RateRule
from vegakit.runtime import LaneRules, Process, Runtime, TextChunk
from vegakit.testing.simulation.cast import Cast
from vegakit.testing.simulation.compiled import program
from vegakit.testing.simulation.loop import VirtualClock, VirtualLoop, run_virtual
from vegakit.testing.simulation.watching import Chronicle, WatchedMachine
from vegakit.testing.simulation.world import Faults, SimulatedLedger, SimulatedModel

__all__ = ["Ran", "simulate"]

_LONGEST_STUBBORN_S = 30
_ENOUGH_S = 7_200
"""Of virtual time: who has not come to an end by then never will."""


@dataclass
class Ran:
    """`broken` says what must not have happened; `lines` what did."""

    seed: int
    digest: str
    steps: int
    faults: Faults
    broken: list[str]
    lines: list[str] = field(repr=False)


def simulate(seed: int, *, restore_every: int | None = None) -> Ran:
    story = _Story(seed, restore_every)
    try:
        run_virtual(story.play())
    except TimeoutError:
        story.chronicle.broken.append(f"it has not come to an end in {_ENOUGH_S} s")
    except Exception as error:  # noqa: BLE001
        story.chronicle.broken.append(f"{type(error).__name__}: {error}")
    chronicle = story.chronicle
    broken = [*chronicle.broken, *story.ledger.broken]
    return Ran(seed, chronicle.digest, chronicle.steps, story.faults, broken, chronicle.lines)


class _Story:
    def __init__(self, seed: int, restore_every: int | None) -> None:
        self.chance = Random(seed)  # noqa: S311
        self.faults: Faults = Counter()
        self.chronicle = Chronicle()
        self.ledger = SimulatedLedger(self.chance)
        self.clock = VirtualClock()
        self._model = SimulatedModel(self.chance, self.faults)
        self._cast = Cast(self.chance, self.faults, self._model)
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

    async def play(self) -> None:
        async with asyncio.timeout(_ENOUGH_S):
            limits = LaneRules(
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
            self.chronicle.broken.extend(self._left_over(rt))

    def _begin(self, rt: Runtime) -> None:
        rt.gate.chance = self.chance
        program = rt.program
        self._rt = self._cast.runtime = rt
        program.adopt(
            WatchedMachine(
                program.machine.state, program.registry.code, self.chronicle, self._restore_every
            )
        )
        program.registry.register(self._cast.reducer)
        program.registry.register(self._cast.service)
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
        made = self._cast.supervisor() if grouped else self._cast.child()
        supervise = None if grouped else self._cast.supervisor(0)
        self._processes.append(self._rt.spawn(made, supervise=supervise))

    def _run(self) -> None:
        """A compiled program, with a wallet of its own or without."""
        budget = self.chance.choice([None, "$0.50", "$3"])
        self._wait_for(self._rt.run(program(), *self._cast.message(), budget=budget))

    def _ask(self) -> None:
        timeout = self.chance.choice([None, None, 0.01, 1, 10])
        self._wait_for(self._any().send(self._cast.message(), timeout=timeout))

    def _tell(self) -> None:
        self._any().tell(self._cast.message())

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
        busy = [path for path, p in self._rt.program.machine.state.processes.items() if p.flying]
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

    def _left_over(self, rt: Runtime) -> list[str]:
        state = rt.program.machine.state
        spent = self.ledger.settled(rt.budgets.root)
        left = {
            "asks without an answer": self.chronicle.unanswered or list(state.asks),
            "living": list(state.processes) + list(state.families) + list(state.spawned),
            "under way": [str(f.effect.path) for f in state.flights.values() if f.path],
            "questions": rt.interrupts(),
            "timers": state.timers,
            "wallets": state.wallets,
            "links": state.signals.links,
            "tasks of the host": rt.program.host.busy,
            "tasks": asyncio.all_tasks() - {asyncio.current_task()},
            "reserved in the ledger": self.ledger.reserved,
            "spent by the ledger, not due": spent - self._model.due,
            "spent by the runtime, not due": rt.spent - self._model.due,
            "told to the program, not due": self.chronicle.charged - self._model.due,
        }
        return [f"left over, {what}: {found}" for what, found in left.items() if found]


def _look_at(done: "asyncio.Future[Any]") -> None:
    """Failures are told to the chronicle by the program; here nobody minds them."""
    if not done.cancelled():
        done.exception()
