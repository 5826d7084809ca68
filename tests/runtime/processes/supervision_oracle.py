"""What a tree of real processes has to do, told by `otp_model` and a naive host around it.

One event at a time: the model of each supervisor hears of it, what they say is carried out in the
order it was said, then comes the next event. Two at the same instant are a `Tie`: their order is
nobody's promise.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.policy.otp_model import Kid, Model
from vegakit.policy import (
    ChildType,
    ExitKind,
    ExitReason,
    ExitSupervisor,
    KillChild,
    ReportEnded,
    ReportReady,
    RestartRule,
    StartChild,
    StopChild,
    SupervisorAction,
    WakeAt,
)
from vegakit.program import child_path
from vegakit.program.core import draw

SHUTDOWN = ExitReason(ExitKind.SHUTDOWN)
KILLED = ExitReason(ExitKind.KILLED)


class Tie(Exception):  # noqa: N818
    pass


@dataclass
class Leaf:
    type: ChildType
    stop_within_ms: int


@dataclass
class Branch:
    rule: RestartRule
    children: Mapping[str, "Branch | Leaf"]
    type: ChildType = ChildType.PERMANENT


@dataclass
class LeafProcess:
    """`lands` says when the bodies of its lives that were cancelled will have cleaned up."""

    path: str
    name: str
    spec: Leaf
    group: "Group"
    generation: int = 0
    phase: str = "down"
    ended: ExitReason | None = None
    lands: dict[int, int] = field(default_factory=dict)
    begun_in: int = 0
    closed: bool = False


@dataclass
class Group:
    path: str
    branch: Branch
    generation: int
    above: "Group | None" = None
    name: str = ""
    gone: bool = False
    children: dict[str, "Group | LeafProcess"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kids = [
            Kid(name, spec.type, spec.stop_within_ms if isinstance(spec, Leaf) else None)
            for name, spec in self.branch.children.items()
        ]
        self.model = Model(self.branch.rule, kids)


class Oracle:
    """`cleanup_ms(path, generation)` is how long a body takes to let itself be cancelled."""

    def __init__(self, root: Branch, cleanup_ms: Callable[[str, int], int], now: int) -> None:
        self.now = now
        self.log: list[tuple[object, ...]] = []
        self.steps = 0
        self._cleanup_ms = cleanup_ms
        self._orders: deque[tuple[Group, SupervisorAction]] = deque()
        self._timers: list[tuple[int, Group]] = []
        self.root = Group("root", root, 1)
        self._step(lambda: self._tell(self.root, "start"))

    def leaves(self, group: Group | None = None) -> Iterator[LeafProcess]:
        """Of the groups that stand now."""
        for child in (group or self.root).children.values():
            if isinstance(child, LeafProcess):
                yield child
            elif not child.gone:
                yield from self.leaves(child)

    def run_until(self, until: int) -> None:
        while (due := self._next()) is not None and due <= until:
            self.now = due
            landing = [leaf for leaf in self._stopping() if max(leaf.lands.values()) == due]
            ringing = [group for at, group in self._timers if at == due]
            if len(landing) + bool(ringing) + (due == until) > 1:
                raise Tie
            self._timers = [(at, group) for at, group in self._timers if at != due]
            for leaf in landing:
                self._step(lambda leaf=leaf: self._end_incarnation(leaf, SHUTDOWN))
            if ringing:
                self._step(lambda ringing=ringing: self._ring(ringing))
        self.now = until

    def lose(self, leaf: LeafProcess, reason: ExitReason, *, by_itself: bool) -> None:
        """Its body raises or returns, or it gets an exit signal."""

        def end() -> None:
            if not by_itself:
                self._cancel(leaf)
            self._end_incarnation(leaf, reason)

        killed = reason == KILLED and leaf.phase == "stopping"
        self._step(end if killed or leaf.phase == "up" else lambda: None)

    def end(self, leaf: LeafProcess, *, kill: bool) -> None:
        def ends() -> None:
            model = leaf.group.model
            self._tell(leaf.group, "remove", leaf.name)
            if model.find(leaf.name) is None:
                ended = ReportEnded(leaf.name, leaf.generation, SHUTDOWN)
                self._orders.append((leaf.group, ended))
            if kill and leaf.phase != "down":
                self._cancel(leaf)
                self._end_incarnation(leaf, KILLED)

        self._step((lambda: None) if leaf.closed else ends)

    def stop(self) -> None:
        self._step(lambda: self._tell(self.root, "stop"))

    def _next(self) -> int | None:
        dues = [at for at, group in self._timers if not group.gone]
        dues += [max(leaf.lands.values()) for leaf in self._stopping()]
        return min(dues, default=None)

    def _stopping(self) -> list[LeafProcess]:
        return [leaf for leaf in self.leaves() if leaf.phase == "stopping"]

    def _step(self, event: Callable[[], None]) -> None:
        self.steps += 1
        event()
        while self._orders:
            group, order = self._orders.popleft()
            if not group.gone:
                self._carry_out(group, order)

    def _ring(self, groups: list[Group]) -> None:
        for group in groups:
            if not group.gone:
                self._tell(group, "on_timer")

    def _tell(self, group: Group, event: str, *facts: object) -> None:
        said = getattr(group.model, event)(*facts, self.now)
        self._orders.extend((group, order) for order in said)

    def _tell_exit(
        self, group: Group, name: str, path: str, generation: int, reason: ExitReason
    ) -> None:
        jitter = draw(f"{path}#{generation}")
        said = group.model.on_exited(name, generation, reason, self.now, jitter)
        self._orders.extend((group, order) for order in said)

    def _carry_out(self, group: Group, order: SupervisorAction) -> None:
        match order:
            case StartChild(name, generation):
                self._start(group, name, generation)
            case StopChild(name):
                self._stop(group.children[name])
            case KillChild(name):
                leaf = group.children[name]
                assert isinstance(leaf, LeafProcess)
                self._end_incarnation(leaf, KILLED)
            case WakeAt(due_ms):
                self._timers.append((due_ms, group))
            case ReportReady():
                if group.above is not None:
                    self._tell(group.above, "on_started", group.name, group.generation)
            case ReportEnded(name, _, reason):
                self._close(group.children[name], reason)
            case ExitSupervisor(reason):
                self._exit(group, reason)

    def _start(self, group: Group, name: str, generation: int) -> None:
        spec, path = group.branch.children[name], child_path(group.path, group.generation, name)
        if isinstance(spec, Branch):
            child = group.children[name] = Group(path, spec, generation, group, name)
            self._tell(child, "start")
            return
        leaf = group.children.get(name)
        if leaf is None:
            leaf = group.children[name] = LeafProcess(path, name, spec, group)
        assert isinstance(leaf, LeafProcess)
        cause, leaf.generation, leaf.phase = leaf.ended, generation, "up"
        leaf.begun_in, leaf.closed = self.steps, False
        news = ("spawned", path) if cause is None else ("restarted", path, generation, str(cause))
        self.log.append((self.now, *news))
        self._tell(group, "on_started", name, generation)

    def _stop(self, child: "Group | LeafProcess") -> None:
        if isinstance(child, Group):
            self._tell(child, "stop")
        elif child.phase == "up":
            self._cancel(child)
            child.phase = "stopping"

    def _cancel(self, leaf: LeafProcess) -> None:
        """Once; a body that has not begun is gone at once."""
        if leaf.generation not in leaf.lands:
            begun = leaf.begun_in != self.steps
            takes_ms = self._cleanup_ms(leaf.path, leaf.generation) if begun else 0
            leaf.lands[leaf.generation] = self.now + takes_ms
            self.log.append((self.now, "cancelled", leaf.path, leaf.generation))

    def _end_incarnation(self, leaf: LeafProcess, reason: ExitReason) -> None:
        leaf.phase, leaf.ended = "down", reason
        self._tell_exit(leaf.group, leaf.name, leaf.path, leaf.generation, reason)

    def _close(self, child: "Group | LeafProcess", reason: ExitReason) -> None:
        if isinstance(child, LeafProcess) and not child.closed:
            child.closed, child.ended = True, reason
            self.log.append((self.now, "exited", child.path, child.generation, str(reason)))

    def _exit(self, group: Group, reason: ExitReason) -> None:
        group.gone = True
        for name in group.branch.children:
            if name in group.children:
                self._close(group.children[name], reason)
        if group.above is None:
            self.log.append((self.now, "exited", group.path, group.generation, str(reason)))
        else:
            self._tell_exit(group.above, group.name, group.path, group.generation, reason)
