"""Supervision: a supervisor keeps its children up, in order, and gives up when they fail too often
(pure).

The rules are those of OTP under the names of the language, but a supervisor that gives up says
`escalated` with the first cause, where OTP says `shutdown` and the failure stops climbing.
"""

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct, field

from vegakit.errors import InvalidRuleError
from vegakit.policy.mailbox import ExitKind, ExitReason, escalated
from vegakit.policy.retry import Backoff

# When a supervisor restarts, whom, and how often: OTP's rules under the language's names.
#
# | strategy     | in OTP       | a child that fails …                                             |
# |--------------|--------------|------------------------------------------------------------------|
# | restart      | one_for_one  | is started again                                                 |
# | restart_all  | one_for_all  | … all are stopped, last first, and started, first first          |
# | rest_for_one | rest_for_one | … so are those started after it, for pipelines a → b → c         |
# | stop         | temporary    | is reported and forgotten, whatever its type                     |
# | escalate     | intensity 0  | ends the supervisor, which its parent counts as one failure      |
#
# | type      | ends normal or shutdown | ends abnormally | taken down by a sibling's failure |
# |-----------|-------------------------|-----------------|-----------------------------------|
# | permanent | counts, restarted       | the same        | started again                     |
# | transient | stays down              | counts, started | started again, also when finished |
# | temporary | forgotten               | forgotten       | forgotten                         |
#
# Every attempt to restart counts one for the supervisor, however many children it takes along. A
# start that fails is followed by another attempt; a child's first start is not an attempt. Counted
# are those with `now - window ≤ at ≤ now`, both ends included: `max_restarts` of them are allowed,
# one more gives up.


class RestartStrategy(StrEnum):
    """The ways to treat a child that failed, see the table above."""

    RESTART = "restart"
    RESTART_ALL = "restart_all"
    REST_FOR_ONE = "rest_for_one"
    STOP = "stop"
    ESCALATE = "escalate"


class ChildType(StrEnum):
    """The types of children: restarted always, after a failure only, or never."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    TEMPORARY = "temporary"

    def needs_restart(self, reason: ExitReason) -> bool:
        """Return whether a child that ended so is started again."""
        return self is ChildType.PERMANENT or (self is ChildType.TRANSIENT and reason.is_abnormal)


class RestartRule(Struct, frozen=True, omit_defaults=True):
    """A supervisor gives up after more than `max_restarts` in a window."""

    strategy: RestartStrategy = RestartStrategy.RESTART
    max_restarts: int = 3
    window_ms: int = 60_000
    backoff: Backoff | None = None

    def __post_init__(self) -> None:
        if self.max_restarts < 0 or self.window_ms < 1:
            raise InvalidRuleError(
                "a supervisor needs max_restarts of at least 0 and a window of at least 1 ms;"
                f" got {self}"
            )
        if self.backoff is not None and self.allowed == 0:
            raise InvalidRuleError(
                f"a supervisor that never restarts cannot wait before it does; got {self};"
                " leave out the backoff, or allow restarts"
            )

    @property
    def allowed(self) -> int:
        """Return how many restarts are allowed."""
        never = (RestartStrategy.STOP, RestartStrategy.ESCALATE)
        return 0 if self.strategy in never else self.max_restarts

    def recent(self, restarts: tuple[int, ...], now: int) -> tuple[int, ...]:
        """Return the restarts that are inside the window."""
        return tuple(at for at in restarts if at >= now - self.window_ms)

    def delay_ms(self, restarts: tuple[int, ...], now: int, draw: float) -> int:
        """Nothing without a backoff; else longer with each restart in the window."""
        if self.backoff is None:
            return 0
        return self.backoff.delay_ms(len(self.recent(restarts, now)), draw)


# One child of a supervisor: what was declared for it, and which incarnation it is in.


class ChildState(StrEnum):
    """The states of a child."""

    DOWN = "down"
    WAITING = "waiting"
    STARTING = "starting"
    UP = "up"
    LEAVING = "leaving"
    STOPPING = "stopping"


STATE_ON_STOP = {
    ChildState.DOWN: ChildState.DOWN,
    ChildState.WAITING: ChildState.DOWN,
    ChildState.STARTING: ChildState.LEAVING,
    ChildState.UP: ChildState.LEAVING,
    ChildState.LEAVING: ChildState.LEAVING,
    ChildState.STOPPING: ChildState.STOPPING,
}


class ChildRecord(Struct, omit_defaults=True, gc=False):
    """`stop_within_ms` is None for a supervisor: cut short, it would leave orphans."""

    type: ChildType = ChildType.TRANSIENT
    stop_within_ms: int | None = 5_000
    generation: int = 0
    state: ChildState = ChildState.DOWN

    def __post_init__(self) -> None:
        if self.stop_within_ms is not None and self.stop_within_ms < 0:
            raise InvalidRuleError(
                f"a child has at least 0 ms to stop, or None for all the time; got {self}"
            )

    @property
    def is_alive(self) -> bool:
        """Return whether an incarnation exists."""
        return self.state is not ChildState.DOWN and self.state is not ChildState.WAITING


# Actions of a supervisor: orders to its host, and reports to whoever is above it.


class StartChild(Struct, frozen=True, tag=True):
    """Start this incarnation of a child."""

    name: str
    generation: int


class StopChild(Struct, frozen=True, tag=True):
    """Ask it to end. It will be killed at `deadline_ms`; without one it has all the time."""

    name: str
    generation: int
    deadline_ms: int | None


class KillChild(Struct, frozen=True, tag=True):
    """End this incarnation of a child at once: it did not stop in time."""

    name: str
    generation: int


class WakeAt(Struct, frozen=True, tag=True):
    """Call `on_timer` then or later; once too often does no harm."""

    due_ms: int


class ReportEnded(Struct, frozen=True, tag=True):
    """This incarnation ended and is not restarted: tell those who wait for it."""

    name: str
    generation: int
    reason: ExitReason


class ReportReady(Struct, frozen=True, tag=True):
    """Every child was started: for a supervisor above, this one has started."""


class ExitSupervisor(Struct, frozen=True, tag=True):
    """No child is left: for a supervisor above, this one has exited."""

    reason: ExitReason


SupervisorAction: TypeAlias = (
    StartChild | StopChild | KillChild | WakeAt | ReportEnded | ReportReady | ExitSupervisor
)


# A plan holds the steps that go one by one, and those that are due at an instant.


class Due(Struct, frozen=True, omit_defaults=True):
    """The deadline of a stop or, with the `cause` of a failure, the next attempt to restart."""

    at_ms: int
    cause: ExitReason | None = None


class Plan(Struct, omit_defaults=True):
    """Whom to stop and then to start; the next stands last, to be taken off cheaply."""

    stops: list[str] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)

    def next_stop(self, children: dict[str, ChildRecord]) -> str | None:
        """Return the next child to be stopped."""
        return _next(self.stops, children, ChildState.DOWN)

    def next_start(self, children: dict[str, ChildRecord]) -> str | None:
        """Return the next child to be started."""
        return _next(self.starts, children, ChildState.UP)


def _next(line: list[str], children: dict[str, ChildRecord], done: ChildState) -> str | None:
    while line:
        child = children.get(line[-1])
        if child is not None and child.state is not done:
            return line[-1]
        line.pop()
    return None


# A supervisor: keeps its children up, in order, and gives up when they fail too often.
#
# It decides and its host does: it answers with actions and is told what became of them. Whom it
# restarts, and how often, is in `restart_rule`.
#
# a child that is … | sees                  | becomes  | and the supervisor
# ------------------|-----------------------|----------|------------------------------------------
# down              | its turn              | starting | StartChild, with the next generation
# starting          | on_started            | up       |
# starting, first   | on_exited             | –        | reports, forgets it; while opening: ends
# starting, later   | on_exited             | waiting  | WakeAt the next attempt
# up                | on_exited, no failure | down     | ReportEnded, forgets a temporary one
# up                | on_exited, a failure  | waiting  | WakeAt the next attempt
#                   | … without a backoff   | down     | makes the attempt at once
# waiting           | on_timer              | down     | makes the attempt
# starting, up      | it has to go          | leaving  | stops one at a time, last started first
# leaving           | its turn              | stopping | StopChild, WakeAt its deadline
# stopping          | on_timer              | stopping | KillChild
# leaving, stopping | on_exited             | down     | counts nothing, forgets a temporary one
#
# An attempt is counted when it is made. One too many ends the supervisor; any other restarts the
# child, or its group. To end is to stop all children and then to exit: with `shutdown` if it was
# told to stop, with `escalated(cause)` if it gave up or could not open.
#
# Each incarnation of a child has a number, its generation; what comes late from an older one is
# dropped. A restarted supervisor is a new record: its children are addressed by its own
# generation too.
#
# Opening, restarting a group and ending go child by child. All else goes side by side, so nobody
# waits for a slow sibling; a failure meanwhile is not put off but widens the group.


Actions: TypeAlias = list[SupervisorAction]


class ChildRefused(Struct, frozen=True):
    """The child cannot be added."""

    reason: str


class SupervisorMachine(Struct, omit_defaults=True):
    """`children` stand in the order they are started in."""

    rule: RestartRule = RestartRule()
    children: dict[str, ChildRecord] = field(default_factory=dict)
    restarts: tuple[int, ...] = ()
    opening: bool = False
    plan: Plan | None = None
    due: dict[str, Due] | None = None
    ending: ExitReason | None = None

    def start(self, now: int) -> Actions:
        """Start all children, in order."""
        self.opening = True
        self.plan = Plan(starts=list(reversed(self.children)))
        return self._advance(now)

    def stop(self, now: int) -> Actions:
        """Stop all children, the last one first, then end."""
        if self.ending is None:
            self._end(ExitReason(ExitKind.SHUTDOWN))
        return self._advance(now)

    def add(self, name: str, child: ChildRecord) -> Actions | ChildRefused:
        """Add a child and start it."""
        if self.ending is not None:
            return ChildRefused(f"{name} cannot be added: its supervisor is ending")
        if name in self.children:
            return ChildRefused(f"{name} cannot be added: remove the child of this name first")
        self.children[name] = child
        if self.plan is None:
            return self._launch(name, child)
        self.plan.starts.insert(0, name)
        return []

    def terminate(self, name: str, now: int) -> Actions:
        """Stop it and keep its place: a restart of its group starts it again."""
        child = self.children.get(name)
        if child is None:
            return []
        if self.plan is not None and name in self.plan.starts:
            self.plan.starts.remove(name)
        if child.state in (ChildState.STARTING, ChildState.UP):
            return self._stop(name, child, now) + self._advance(now)
        if child.state is ChildState.WAITING:
            self._take_due(name)
            child.state = ChildState.DOWN
        if child.state is ChildState.DOWN and self._is_temporary(child):
            del self.children[name]
        return self._advance(now)

    def remove(self, name: str, now: int) -> Actions:
        """Stop it and forget it."""
        if name in self.children:
            self.children[name].type = ChildType.TEMPORARY
        return self.terminate(name, now)

    def on_started(self, name: str, generation: int, now: int) -> Actions:
        """Note that a child has started, and go on with the next."""
        child = self._current_child(name, generation)
        if child is None or child.state is not ChildState.STARTING:
            return []
        child.state = ChildState.UP
        return self._advance(now)

    def on_exited(
        self, name: str, generation: int, reason: ExitReason, now: int, draw: float = 1.0
    ) -> Actions:
        """Take the end of a child, or that it could not be started. `draw`, from 0 to 1, is the
        jitter of a backoff."""
        child = self._current_child(name, generation)
        if child is None:
            return []
        was, child.state = child.state, ChildState.DOWN
        self._take_due(name)
        if was is ChildState.STARTING:
            actions = self._on_never_up(name, child, reason, now, draw)
        elif was is ChildState.UP:
            actions = self._on_ended(name, child, reason, now, draw)
        else:
            actions = self._on_left(name, child, reason)
        return actions + self._advance(now)

    def on_timer(self, now: int) -> Actions:
        """Kill what did not stop in time, and start what has waited for its attempt."""
        actions: Actions = []
        for name in self._names_due(now):
            due = self._take_due(name)
            if due is None:
                continue  # an attempt before it took it along
            child = self.children[name]
            if due.cause is None:
                actions.append(KillChild(name, child.generation))
            else:
                actions += self._attempt(name, child, due.cause, now)
        return actions + self._advance(now)

    def _current_child(self, name: str, generation: int) -> ChildRecord | None:
        child = self.children.get(name)
        if child is None or child.generation != generation or not child.is_alive:
            return None
        return child

    def _is_temporary(self, child: ChildRecord) -> bool:
        return child.type is ChildType.TEMPORARY or self.rule.strategy is RestartStrategy.STOP

    def _on_never_up(
        self, name: str, child: ChildRecord, reason: ExitReason, now: int, draw: float
    ) -> Actions:
        if child.generation > 1:
            if self.plan is not None and self.plan.starts[-1:] == [name]:
                self.plan.starts.clear()
            return self._wait(name, child, reason, now, draw)
        if self.opening:
            self._end(escalated(reason))
            return []
        return self._forget(name, reason)

    def _on_ended(
        self, name: str, child: ChildRecord, reason: ExitReason, now: int, draw: float
    ) -> Actions:
        if self._is_temporary(child):
            return self._forget(name, reason)
        if not child.type.needs_restart(reason):
            return [ReportEnded(name, child.generation, reason)]
        if self.rule.backoff is None:
            return self._attempt(name, child, reason, now)
        return self._wait(name, child, reason, now, draw)

    def _on_left(self, name: str, child: ChildRecord, reason: ExitReason) -> Actions:
        if self.ending is not None:
            del self.children[name]
        elif self._is_temporary(child):
            return self._forget(name, reason)
        return []

    def _forget(self, name: str, reason: ExitReason) -> Actions:
        child = self.children.pop(name)
        return [ReportEnded(name, child.generation, reason)]

    def _wait(
        self, name: str, child: ChildRecord, cause: ExitReason, now: int, draw: float
    ) -> Actions:
        child.state = ChildState.WAITING
        delay_ms = self.rule.delay_ms(self.restarts, now, draw)
        return self._set_due(name, Due(now + delay_ms, cause))

    def _attempt(self, name: str, child: ChildRecord, cause: ExitReason, now: int) -> Actions:
        self.restarts = (*self.rule.recent(self.restarts, now), now)
        if len(self.restarts) > self.rule.allowed:
            self._end(escalated(cause))
        elif self.rule.strategy is RestartStrategy.RESTART:
            return self._launch(name, child)
        else:
            self._restart_group(name)
        return []

    def _restart_group(self, name: str) -> None:
        """Replaces a plan under way, whose children all stand in this group too."""
        group = list(self.children)
        if self.rule.strategy is RestartStrategy.REST_FOR_ONE:
            group = group[group.index(name) :]
        self.plan = Plan(stops=self._mark_to_go(group), starts=group[::-1])

    def _end(self, reason: ExitReason) -> None:
        self.ending = reason
        stops = self._mark_to_go(list(self.children))
        self.children = {name: self.children[name] for name in stops}
        self.plan = Plan(stops=stops)

    def _mark_to_go(self, group: list[str]) -> list[str]:
        """Mark the children of a group as leaving and return those that are alive; none of them
        waits for an attempt any more."""
        alive: list[str] = []
        for name in group:
            child = self.children[name]
            if child.state is ChildState.WAITING:
                self._take_due(name)
            child.state = STATE_ON_STOP[child.state]
            if child.is_alive:
                alive.append(name)
        return alive

    def _advance(self, now: int) -> Actions:
        """The next step of the plan, as soon as the step before it is done."""
        if self.plan is None:
            return []
        if (name := self.plan.next_stop(self.children)) is not None:
            child = self.children[name]
            return self._stop(name, child, now) if child.state is ChildState.LEAVING else []
        if (name := self.plan.next_start(self.children)) is not None:
            child = self.children[name]
            return self._launch(name, child) if child.state is ChildState.DOWN else []
        self.plan = None
        return self._finish()

    def _finish(self) -> Actions:
        if self.ending is not None:
            return [ExitSupervisor(self.ending)]
        was_opening, self.opening = self.opening, False
        return [ReportReady()] if was_opening else []

    def _launch(self, name: str, child: ChildRecord) -> Actions:
        child.generation += 1
        child.state = ChildState.STARTING
        return [StartChild(name, child.generation)]

    def _stop(self, name: str, child: ChildRecord, now: int) -> Actions:
        child.state = ChildState.STOPPING
        if child.stop_within_ms is None:
            return [StopChild(name, child.generation, None)]
        deadline_ms = now + child.stop_within_ms
        return [
            StopChild(name, child.generation, deadline_ms),
            *self._set_due(name, Due(deadline_ms)),
        ]

    def _set_due(self, name: str, due: Due) -> Actions:
        if self.due is None:
            self.due = {}
        self.due[name] = due
        return [WakeAt(due.at_ms)]

    def _take_due(self, name: str) -> Due | None:
        if self.due is None:
            return None
        due = self.due.pop(name, None)
        self.due = self.due or None
        return due

    def _names_due(self, now: int) -> list[str]:
        """The earliest first."""
        if self.due is None:
            return []
        line = sorted(self.due.items(), key=lambda item: item[1].at_ms)
        return [name for name, due in line if due.at_ms <= now]
