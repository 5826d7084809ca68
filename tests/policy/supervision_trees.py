"""A host for whole trees of supervisors, on a virtual clock.

It carries out what each supervisor says, tells its parent what it hears, and writes down what
happened. Every answer passes one queue, so a stop may come between any two of them.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

from tests.policy.otp_model import Kid, Model
from vegakit.policy import (
    ChildRecord,
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
    SupervisorMachine,
    WakeAt,
)

SHUTDOWN = ExitReason(ExitKind.SHUTDOWN)
KILLED = ExitReason(ExitKind.KILLED)
BOOM = ExitReason(ExitKind.CRASHED, "boom")

Fate: TypeAlias = Callable[[str, int], str]
"""What becomes of the n-th life of a leaf: stays, crashes, never starts, or ignores a stop."""


@dataclass
class Leaf:
    type: ChildType = ChildType.PERMANENT
    stop_within_ms: int | None = 5_000


@dataclass
class Branch:
    rule: RestartRule
    children: Mapping[str, "Branch | Leaf"]
    type: ChildType = ChildType.PERMANENT
    stop_within_ms: int | None = None


@dataclass
class LeafLife:
    path: str
    fate: str
    tell_parent: Callable[..., None]
    gone: bool = False


@dataclass
class BranchLife:
    path: str
    supervisor: "SupervisorMachine | Model"
    branch: Branch
    tell_parent: Callable[..., None]
    children: dict[str, "BranchLife | LeafLife"] = field(default_factory=dict)
    gone: bool = False


def machine(branch: Branch) -> SupervisorMachine:
    kids = branch.children.items()
    return SupervisorMachine(
        branch.rule, {n: ChildRecord(c.type, c.stop_within_ms) for n, c in kids}
    )


def model(branch: Branch) -> Model:
    kids = branch.children.items()
    return Model(branch.rule, [Kid(n, c.type, c.stop_within_ms) for n, c in kids])


class Tree:
    def __init__(
        self,
        root: Branch,
        fate: Fate = lambda path, life: "stays",
        make: Callable[[Branch], SupervisorMachine | Model] = machine,
    ) -> None:
        self.make = make
        self.fate = fate
        self.now = 0
        self.queue: deque[Callable[[], None]] = deque()
        self.timers: list[tuple[int, int, BranchLife]] = []
        self.order = count()
        self.log: list[tuple[str, str]] = []
        self.lives: Counter[str] = Counter()
        self.ready = False
        self.exit_reason: ExitReason | None = None
        self.root = self.grow("root", root, self.on_root)
        self.run()

    def on_root(self, event: str, *facts: ExitReason) -> None:
        if event == "on_started":
            self.ready = True
        else:
            self.exit_reason = facts[0]

    def stop(self) -> None:
        self.tell(self.root, "stop")
        self.run()

    def crash(self, path: str, reason: ExitReason = BOOM) -> None:
        life: BranchLife | LeafLife = self.root
        for name in path.split("/")[1:]:
            assert isinstance(life, BranchLife)
            life = life.children[name]
        self.lose(life, reason)
        self.run()

    def run(self) -> None:
        while self.queue or self.timers:
            if not self.queue:
                due, _, life = heappop(self.timers)
                self.now = max(self.now, due)
                self.tell(life, "on_timer")
            else:
                self.queue.popleft()()

    def tell(self, life: BranchLife, event: str, *facts: object) -> None:
        if not life.gone:
            self.carry_out(life, getattr(life.supervisor, event)(*facts, self.now))

    def carry_out(self, life: BranchLife, actions: list[SupervisorAction]) -> None:
        for action in actions:
            match action:
                case StartChild(name, generation):
                    self.start_child(life, name, generation)
                case StopChild(name):
                    self.log.append(("stop", life.children[name].path))
                    self.ask_to_stop(life.children[name])
                case KillChild(name):
                    self.log.append(("kill", life.children[name].path))
                    self.lose(life.children[name], KILLED)
                case WakeAt(due_ms):
                    heappush(self.timers, (due_ms, next(self.order), life))
                case ReportReady():
                    life.tell_parent("on_started")
                case ExitSupervisor(reason):
                    life.gone = True
                    self.log.append(("exit", life.path))
                    life.tell_parent("on_exited", reason)
                case ReportEnded(name):
                    self.log.append(("ended", f"{life.path}/{name}"))

    def start_child(self, parent: BranchLife, name: str, generation: int) -> None:
        path, spec = f"{parent.path}/{name}", parent.branch.children[name]
        tell_parent = partial(self.pass_on, parent, name, generation)
        self.lives[path] += 1
        self.log.append(("start", path))
        if isinstance(spec, Branch):
            parent.children[name] = self.grow(path, spec, tell_parent)
            return
        leaf = LeafLife(path, self.fate(path, self.lives[path]), tell_parent)
        parent.children[name] = leaf
        if leaf.fate == "never starts":
            self.lose(leaf, BOOM)
            return
        tell_parent("on_started")
        if leaf.fate == "crashes":
            self.queue.append(partial(self.lose, leaf, BOOM))

    def grow(self, path: str, branch: Branch, tell_parent: Callable[..., None]) -> BranchLife:
        life = BranchLife(path, self.make(branch), branch, tell_parent)
        self.tell(life, "start")
        return life

    def pass_on(
        self, parent: BranchLife, name: str, generation: int, event: str, *facts: object
    ) -> None:
        self.queue.append(partial(self.tell, parent, event, name, generation, *facts))

    def ask_to_stop(self, life: BranchLife | LeafLife) -> None:
        if isinstance(life, BranchLife):
            self.tell(life, "stop")
        elif life.fate != "ignores a stop":
            self.lose(life, SHUTDOWN)

    def lose(self, life: BranchLife | LeafLife, reason: ExitReason) -> None:
        if not life.gone:
            self.bury(life)
            life.tell_parent("on_exited", reason)

    def bury(self, life: BranchLife | LeafLife) -> None:
        life.gone = True
        if isinstance(life, BranchLife):
            for child in life.children.values():
                self.bury(child)

    def alive(self, life: BranchLife | LeafLife | None = None) -> list[str]:
        """Paths of leaves."""
        life = life or self.root
        if isinstance(life, LeafLife):
            return [] if life.gone else [life.path]
        return [path for child in life.children.values() for path in self.alive(child)]
