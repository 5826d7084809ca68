"""Supervisors and what they supervise: carrying out what each says, telling each what became of it.

    spawn ─▶ begin a life ──────────▶ up ── its life ends ──▶ its supervisor decides
                ▲                                               │ StartChild: the next life
                └───────────────────────────────────────────────┤ ReportEnded: over for good
                                                                │ ExitSupervisor: above decides
A bare spawn has a private supervisor with this one child. It is made when the child first ends:
until then nothing can be told apart from its not being there.
"""

from collections import deque
from collections.abc import Iterator

from vegakit.policy import (
    Child,
    ChildState,
    ExitKind,
    ExitReason,
    ExitSupervisor,
    KillChild,
    ReportEnded,
    ReportReady,
    RestartStrategy,
    StartChild,
    StopChild,
    Supervisor,
    SupervisorAction,
    WakeAt,
)
from vegakit.program.chance import draw
from vegakit.program.commands import GroupSpec, ProcessSpec
from vegakit.program.core import Core
from vegakit.program.lives import Lives
from vegakit.program.paths import child_path, name_of
from vegakit.program.state import Family, Phase, Process, TimerKind

__all__ = ["Families"]

_SHUTDOWN = ExitReason(ExitKind.SHUTDOWN)


class Families:
    def __init__(self, core: Core, lives: Lives) -> None:
        self._core = core
        self._lives = lives
        self._orders: deque[tuple[str, SupervisorAction]] = deque()

    def start(
        self, path: str, spec: ProcessSpec | GroupSpec, spawner: str, *, once: bool = False
    ) -> None:
        if isinstance(spec, GroupSpec):
            self._open(path, spec, "", 1, spawner)
        else:
            self._lives.begin(path, Process(spec, "", spawner, once=once), 1)

    def end(self, path: str, *, kill: bool) -> None:
        """For good, with all that it started."""
        if not kill:
            self._remove(path)
            return
        members = list(self._members(path))
        for member in reversed(members):
            self._remove(member)
        for member in members:
            self._lives.kill(member)

    def on_exited(self, path: str, generation: int, reason: ExitReason) -> None:
        process = self._core.state.processes[path]
        key, name = process.family or path, name_of(path)
        supervisor, jitter = self._family(key).supervisor, draw(f"{path}#{generation}")
        self._tell(key, supervisor.on_exited(name, generation, reason, self._core.now, jitter))

    def on_timer(self, key: str) -> None:
        family = self._core.state.families.get(key)
        if family is not None:
            self._tell(key, family.supervisor.on_timer(self._core.now))

    @property
    def busy(self) -> bool:
        return bool(self._orders)

    def carry_out_next(self) -> None:
        key, order = self._orders.popleft()
        if key in self._core.state.families:
            self._carry_out(key, order)

    def may_revive(self, path: str, process: Process) -> bool:
        """A finished child of a group is started again when its group is."""
        family, name = self._core.state.families.get(process.family), name_of(path)
        if family is None or name not in family.supervisor.children:
            return False
        return path == self._path(process.family, name)  # else of the group's life before

    def _carry_out(self, key: str, order: SupervisorAction) -> None:
        match order:
            case StartChild(name, generation):
                self._start_child(key, name, generation)
            case StopChild(name):
                self._stop_child(key, name)
            case KillChild(name):
                self._kill_child(key, name)
            case WakeAt(due_ms):
                self._core.wake_at(due_ms, TimerKind.FAMILY, key)
            case ReportEnded(name, generation, reason):
                self._over(self._path(key, name), reason)
            case ReportReady():
                self._report_ready(key)
            case ExitSupervisor(reason):
                self._exit(key, reason)

    def _start_child(self, key: str, name: str, generation: int) -> None:
        family, path = self._core.state.families[key], self._path(key, name)
        spec = (family.specs or {}).get(name)
        if isinstance(spec, GroupSpec):
            self._open(path, spec, key, generation, self._spawner_of(key))
            return
        process = self._core.state.processes.get(path)
        if process is None:
            assert spec is not None  # the process of a private supervisor is kept while it lives
            process = Process(spec, key, self._spawner_of(key))
        self._lives.begin(path, process, generation)
        self._tell(key, family.supervisor.on_started(name, generation, self._core.now))

    def _stop_child(self, key: str, name: str) -> None:
        path = self._path(key, name)
        if path in self._core.state.families and path != key:
            self._tell(path, self._core.state.families[path].supervisor.stop(self._core.now))
        else:
            self._lives.stop(path)

    def _kill_child(self, key: str, name: str) -> None:
        for path in list(self._members(self._path(key, name))):
            self._lives.kill(path)

    def _open(self, path: str, spec: GroupSpec, above: str, generation: int, spawner: str) -> None:
        children = {name: _child(child) for name, child in spec.children.items()}
        family = Family(Supervisor(spec.rule, children), spec.children, above, spawner, generation)
        self._core.state.families[path] = family
        self._tell(path, family.supervisor.start(self._core.now))

    def _exit(self, key: str, reason: ExitReason) -> None:
        state = self._core.state
        family = state.families.pop(key)
        if family.specs is None:
            self._over(key, reason)
            self._escalate(family, reason)
            return
        for name in family.specs:
            path = child_path(key, family.generation, name)
            if path in state.processes:
                self._lives.close(path, reason)
        if family.above:
            above = state.families[family.above].supervisor
            now, jitter = self._core.now, draw(f"{key}#{family.generation}")
            orders = above.on_exited(name_of(key), family.generation, reason, now, jitter)
            self._tell(family.above, orders)
        else:
            self._lives.close_group(key, family, reason)

    def _over(self, path: str, reason: ExitReason) -> None:
        if path in self._core.state.processes:
            self._lives.close(path, reason)
            family = self._core.state.families.get(path)
            if family is not None and family.specs is None:
                del self._core.state.families[path]

    def _escalate(self, family: Family, reason: ExitReason) -> None:
        """The enclosing process pays for it as for a failure of its own."""
        if family.supervisor.rule.strategy is RestartStrategy.ESCALATE and family.spawner:
            self._lives.crash(family.spawner, reason)

    def _report_ready(self, key: str) -> None:
        family = self._core.state.families[key]
        if family.above:
            above = self._core.state.families[family.above].supervisor
            self._tell(
                family.above, above.on_started(name_of(key), family.generation, self._core.now)
            )

    def _family(self, key: str) -> Family:
        """The private one of a process is made when it is first needed."""
        state = self._core.state
        if key not in state.families:
            process = state.processes[key]
            living = ChildState.DOWN if process.phase is Phase.OVER else ChildState.UP
            spec = process.spec
            child = Child(spec.kind, spec.stop_within_ms, process.generation, living)
            supervisor = Supervisor(spec.rule, {name_of(key): child})
            state.families[key] = Family(supervisor, spawner=process.spawner)
        return state.families[key]

    def _path(self, key: str, name: str) -> str:
        family = self._core.state.families[key]
        return key if family.specs is None else child_path(key, family.generation, name)

    def _spawner_of(self, key: str) -> str:
        return self._core.state.families[key].spawner

    def _remove(self, path: str) -> None:
        state, now = self._core.state, self._core.now
        process = state.processes.get(path)
        if process is None:
            if path in state.families:
                self._tell(path, state.families[path].supervisor.stop(now))
        elif process.phase is not Phase.OVER:
            key, name = process.family or path, name_of(path)
            supervisor = self._family(key).supervisor
            self._tell(key, supervisor.remove(name, now))
            if name not in supervisor.children:  # it was between two lives
                self._tell(key, [ReportEnded(name, process.generation, _SHUTDOWN)])

    def _members(self, path: str) -> Iterator[str]:
        """All at or below it, the last started first, a group or spawner after what is in it."""
        state = self._core.state
        family = state.families.get(path)
        below = list(state.spawned.get(path, ()))
        if family is not None and family.specs is not None:
            below = [child_path(path, family.generation, name) for name in family.specs]
        for child in reversed(below):
            yield from self._members(child)
        yield path

    def _tell(self, key: str, orders: list[SupervisorAction]) -> None:
        self._orders.extend((key, order) for order in orders)


def _child(spec: ProcessSpec | GroupSpec) -> Child:
    within = None if isinstance(spec, GroupSpec) else spec.stop_within_ms
    return Child(spec.kind, within)
