"""Trees of real processes on virtual time, whose bodies do what they are told to."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.runtime.processes.supervision_oracle import Branch
from vegakit.effects import Cancel, Start
from vegakit.host import Child, Supervisor, current_process
from vegakit.policy import ExitKind, ExitReason
from vegakit.program import (
    Action,
    Event,
    Machine,
    ProcessExited,
    ProcessRestarted,
    ProcessSpawned,
    TerminateProcess,
)
from vegakit.sdk import Runtime
from vegakit.testing import VirtualClock


class EffectRecorder(Machine):
    """Writes down who lives, ends and is cancelled, in the words of the oracle."""

    log: list[tuple[object, ...]]

    def step(self, event: Event, now: int) -> list[Action]:
        in_flight = {
            key: (f.path, f.generation) for key, f in self.state.effects_in_flight.items() if f.path
        }
        actions = super().step(event, now)
        for action in actions:
            match action:
                case Start(effect) if effect.path.incarnations:
                    flight = self.state.effects_in_flight.get(effect.key)
                    if flight is not None:
                        in_flight[effect.key] = (flight.path, flight.generation)
                case Cancel(key) if key in in_flight:
                    said = ("cancelled", *in_flight[key])
                    if said not in (entry[1:] for entry in self.log):
                        self.log.append((now, *said))
                case ProcessSpawned(path):
                    self.log.append((now, "spawned", path))
                case ProcessRestarted(path, generation, cause):
                    self.log.append((now, "restarted", path, generation, str(cause)))
                case ProcessExited(path, generation, reason):
                    self.log.append((now, "exited", path, generation, str(reason)))
                case _:
                    pass
        return actions


class Troupe:
    """`cleanup_ms(path, generation)` is how long a body takes to let itself be cancelled."""

    def __init__(self, rt: Runtime, clock: VirtualClock, cleanup_ms: Callable[[str, int], int]):
        program = rt.program
        machine = EffectRecorder(program.machine.state, program.registry.code)
        self.log = machine.log = []
        program.adopt(machine)
        self.begun: list[tuple[str, int]] = []
        self.left: list[tuple[str, int]] = []
        self._rt = rt
        self._clock = clock
        self._cleanup_ms = cleanup_ms
        self._orders: dict[tuple[str, int], asyncio.Future[bool]] = {}

    def spawn(self, root: Branch, name: str = "root") -> None:
        self._rt.spawn(self._supervisor(name, root))

    def _supervisor(self, name: str, branch: Branch) -> Supervisor:
        children: list[Child | Supervisor] = []
        for below, spec in branch.children.items():
            if isinstance(spec, Branch):
                children.append(self._supervisor(below, spec))
            else:
                stop_within = spec.stop_within_ms / 1000
                child = Child(self._body(), below, spec.type, stop_within=stop_within)
                children.append(child)
        rule = branch.rule
        limits = rule.max_restarts, rule.window_ms / 1000, rule.backoff
        return Supervisor(rule.strategy, children, *limits, name, branch.type)

    def _body(self) -> Any:
        async def leaf() -> None:
            path = current_process.get()
            me = path, self._rt.program.machine.state.processes[path].generation
            self.begun.append(me)
            order = self._orders[me] = asyncio.get_running_loop().create_future()
            try:
                crashes = await order
            except asyncio.CancelledError:
                self.left.append(me)
                if takes_ms := self._cleanup_ms(*me):
                    await self._clock.wait_until(self._clock.now() + takes_ms)
                raise
            if crashes:
                raise ValueError("boom")

        return leaf

    def ends_by_itself(self, path: str, generation: int, *, crashes: bool) -> None:
        order = self._orders[path, generation]
        if not order.done():
            order.set_result(crashes)

    def exit(self, path: str, reason: str) -> None:
        self._rt.program.exit(path, reason)

    def end(self, path: str, *, kill: bool) -> None:
        self._rt.program._driver.submit(TerminateProcess(path, kill))


CRASHED = ExitReason(ExitKind.CRASHED, "ValueError: boom")
NORMAL = ExitReason(ExitKind.NORMAL)
