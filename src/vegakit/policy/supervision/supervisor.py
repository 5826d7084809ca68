"""A supervisor: keeps its children up, in order, and gives up when they fail too often.

It decides and its host does: it answers with actions and is told what became of them. Whom it
restarts, and how often, is in `restart_rule`.

| a child that is … | sees                  | becomes  | and the supervisor                        |
|-------------------|-----------------------|----------|-------------------------------------------|
| down              | its turn              | starting | StartChild, with the next generation      |
| starting          | on_started            | up       |                                           |
| starting, life 1  | on_exited             | –        | reports, forgets it; while opening: ends  |
| starting, life 2… | on_exited             | waiting  | WakeAt the next attempt                   |
| up                | on_exited, no failure | down     | ReportEnded, forgets a temporary one      |
| up                | on_exited, a failure  | waiting  | WakeAt the next attempt                   |
|                   | … without a backoff   | down     | makes the attempt at once                 |
| waiting           | on_timer              | down     | makes the attempt                         |
| starting, up      | it has to go          | leaving  | stops one at a time, last started first   |
| leaving           | its turn              | stopping | StopChild, WakeAt its deadline            |
| stopping          | on_timer              | stopping | KillChild                                 |
| leaving, stopping | on_exited             | down     | counts nothing, forgets a temporary one   |

An attempt is counted when it is made. One too many ends the supervisor; any other restarts the
child, or its group. To end is to stop all children and then to exit: with `shutdown` if it was told
to stop, with `escalated(cause)` if it gave up or could not open.

Each life of a child has a number, its generation; what comes late from an older life is dropped. A
restarted supervisor is a new record: its children are addressed by its own generation too.

Opening, restarting a group and ending go child by child. All else goes side by side, so nobody
waits for a slow sibling; a failure meanwhile is not put off but widens the group.
"""

from typing import TypeAlias

from msgspec import Struct, field

from vegakit.policy.supervision.actions import (
    ExitSupervisor,
    KillChild,
    ReportEnded,
    ReportReady,
    StartChild,
    StopChild,
    SupervisorAction,
    WakeAt,
)
from vegakit.policy.supervision.agenda import Due, Plan
from vegakit.policy.supervision.child import WHEN_IT_HAS_TO_GO, Child, ChildState
from vegakit.policy.supervision.exits import ExitKind, ExitReason, escalated
from vegakit.policy.supervision.restart_rule import ChildType, RestartRule, RestartStrategy

__all__ = ["ChildRefused", "Supervisor"]

Actions: TypeAlias = list[SupervisorAction]


class ChildRefused(Struct, frozen=True):
    reason: str


class Supervisor(Struct, omit_defaults=True):
    """`children` stand in the order they are started in."""

    rule: RestartRule = RestartRule()
    children: dict[str, Child] = field(default_factory=dict)
    restarts: tuple[int, ...] = ()
    opening: bool = False
    plan: Plan | None = None
    due: dict[str, Due] | None = None
    ending: ExitReason | None = None

    def start(self, now: int) -> Actions:
        self.opening = True
        self.plan = Plan(starts=list(reversed(self.children)))
        return self._advance(now)

    def stop(self, now: int) -> Actions:
        if self.ending is None:
            self._end(ExitReason(ExitKind.SHUTDOWN))
        return self._advance(now)

    def add(self, name: str, child: Child) -> Actions | ChildRefused:
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
        child = self._life(name, generation)
        if child is None or child.state is not ChildState.STARTING:
            return []
        child.state = ChildState.UP
        return self._advance(now)

    def on_start_failed(
        self, name: str, generation: int, reason: ExitReason, now: int, draw: float = 1.0
    ) -> Actions:
        return self.on_exited(name, generation, reason, now, draw)

    def on_exited(
        self, name: str, generation: int, reason: ExitReason, now: int, draw: float = 1.0
    ) -> Actions:
        """`draw`, from 0 to 1, is the jitter of a backoff."""
        child = self._life(name, generation)
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

    def _life(self, name: str, generation: int) -> Child | None:
        child = self.children.get(name)
        if child is None or child.generation != generation or not child.is_alive:
            return None
        return child

    def _is_temporary(self, child: Child) -> bool:
        return child.type is ChildType.TEMPORARY or self.rule.strategy is RestartStrategy.STOP

    def _on_never_up(
        self, name: str, child: Child, reason: ExitReason, now: int, draw: float
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
        self, name: str, child: Child, reason: ExitReason, now: int, draw: float
    ) -> Actions:
        if self._is_temporary(child):
            return self._forget(name, reason)
        if not child.type.needs_restart(reason):
            return [ReportEnded(name, child.generation, reason)]
        if self.rule.backoff is None:
            return self._attempt(name, child, reason, now)
        return self._wait(name, child, reason, now, draw)

    def _on_left(self, name: str, child: Child, reason: ExitReason) -> Actions:
        if self.ending is not None:
            del self.children[name]
        elif self._is_temporary(child):
            return self._forget(name, reason)
        return []

    def _forget(self, name: str, reason: ExitReason) -> Actions:
        child = self.children.pop(name)
        return [ReportEnded(name, child.generation, reason)]

    def _wait(self, name: str, child: Child, cause: ExitReason, now: int, draw: float) -> Actions:
        child.state = ChildState.WAITING
        delay_ms = self.rule.delay_ms(self.restarts, now, draw)
        return self._set_due(name, Due(now + delay_ms, cause))

    def _attempt(self, name: str, child: Child, cause: ExitReason, now: int) -> Actions:
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
        """Who of them is alive; none of them waits for an attempt any more."""
        alive: list[str] = []
        for name in group:
            child = self.children[name]
            if child.state is ChildState.WAITING:
                self._take_due(name)
            child.state = WHEN_IT_HAS_TO_GO[child.state]
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

    def _launch(self, name: str, child: Child) -> Actions:
        child.generation += 1
        child.state = ChildState.STARTING
        return [StartChild(name, child.generation)]

    def _stop(self, name: str, child: Child, now: int) -> Actions:
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
