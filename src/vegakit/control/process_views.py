"""The views of all processes, one row each for people, read from the state of the program (pure).

| state      | the process                                  | waits for                         |
|------------|----------------------------------------------|-----------------------------------|
| idle       | has nothing to do                            | a message, or a timer of its own  |
| running    | is in its own code                           | –                                 |
| waiting    | has asked the world, or other processes      | a model, a tool, a person, a turn |
| stopping   | was asked to end, and has not ended yet      | its end                           |
| restarting | is between two incarnations                  | its supervisor                    |
| over       | will not live again, and is being cleared up | what it had in flight             |

| health  | it has been at one message for …              | or                                     |
|---------|-----------------------------------------------|----------------------------------------|
| ok      | a short time                                  | has none                               |
| slow    | 30 s, or half of its `stuck_after`            |                                        |
| stuck   | 5 minutes, or its `stuck_after`               | it is past its deadline                |
| failing |                                               | it was restarted within the window of  |
|         |                                               | its supervisor; its breaker is open    |

A program is at one message for as long as it runs, and has no usual time for that: how what it
waits for does is told of the processes that it has asked.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from vegakit.control.messages import (
    Health,
    KillResult,
    ProcessKind,
    ProcessStatus,
    ProcessView,
    is_within,
)
from vegakit.effects import AskHuman, CallModel, CallTool, EffectRequest, RunCoroutine, SetTimer
from vegakit.errors import UserError, did_you_mean
from vegakit.ids import pid_of
from vegakit.money import Money
from vegakit.policy import BreakerState
from vegakit.program import (
    AgentBody,
    Code,
    CoroutineBody,
    FiberBody,
    InFlightEffect,
    Machine,
    ProcessPhase,
    ProcessRecord,
    Program,
    ReducerBody,
    StandInBody,
    Supervision,
)

_OWN_TIMERS = {"send", "post"}
_SLOW_MS = 30_000
_STUCK_MS = 300_000


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts by path that only the host knows, not the state of the program."""

    tokens_per_s: Mapping[str, float] = field(default_factory=dict[str, float])
    os_children: Mapping[str, int] = field(default_factory=dict[str, int])
    asked: frozenset[str] = frozenset()
    """The processes for whose tool calls a person is asked."""


def views_of(machine: Machine, code: Code, now: int, facts: HostFacts) -> list[ProcessView]:
    """Return the whole tree, each process before what is below it, in the order of their start."""
    return list(_ProcessTree(machine, code, now, facts).below(""))


class _ProcessTree:
    def __init__(self, machine: Machine, code: Code, now: int, facts: HostFacts) -> None:
        self._state = machine.state
        self._wallets = machine.wallets
        self._code = code
        self._now = now
        self._facts = facts
        self._below = _children(machine.state)
        self._reserved = reserved_by_path(machine.state)
        timers = sorted(machine.state.timers, reverse=True)
        self._wakes = {timer.of: timer for timer in timers if timer.kind in _OWN_TIMERS}

    def below(self, parent: str) -> Iterator[ProcessView]:
        for path in self._below.get(parent, ()):
            supervision = self._state.supervisors.get(path)
            if supervision is not None and supervision.specs is not None:
                yield self._supervisor(path, supervision)
            else:
                yield self._process(path, self._state.processes[path])
            yield from self.below(path)

    def _supervisor(self, path: str, supervision: Supervision) -> ProcessView:
        supervisor, members = supervision.supervisor, self._below.get(path, ())
        ending = supervisor.ending is not None
        recent = supervisor.rule.recent(supervisor.restarts, self._now)
        return ProcessView(
            path,
            pid_of(self._state.id, path, supervision.generation),
            ProcessKind.SUPERVISOR,
            ProcessStatus.STOPPING
            if ending
            else ProcessStatus.RESTARTING
            if supervisor.plan
            else ProcessStatus.IDLE,
            supervision.above or supervision.spawner,
            strategy=supervisor.rule.strategy,
            restarts=supervision.generation - 1,
            spent=Money(sum(self._spent(member) for member in members)),
            reserved=self._held(path),
            health=Health.FAILING if recent else Health.OK,
        )

    def _process(self, path: str, process: ProcessRecord) -> ProcessView:
        effects_in_flight = [self._state.effects_in_flight[key] for key in process.in_flight or ()]
        state, waiting_for, until_ms = self._doing(path, process, effects_in_flight)
        supervision = self._state.supervisors.get(process.supervision or path)
        mailbox = process.mailbox
        return ProcessView(
            path,
            pid_of(self._state.id, path, process.generation),
            self._kind(process),
            state,
            process.supervision or process.spawner,
            process.spec.body,
            (process.spec.rule if supervision is None else supervision.supervisor.rule).strategy,
            process.generation - 1,
            "" if process.ended is None else str(process.ended),
            self._spent(path),
            self._left(path, process),
            self._facts.tokens_per_s.get(path, 0.0),
            waiting_for,
            until_ms,
            process.since_ms,
            0 if mailbox is None or mailbox.line is None else len(mailbox.line) - mailbox.out,
            self._facts.os_children.get(path, 0),
            self._health(process, state, until_ms, supervision),
            self._held(path),
        )

    def _doing(
        self, path: str, process: ProcessRecord, effects_in_flight: list[InFlightEffect]
    ) -> tuple[ProcessStatus, str, int | None]:
        if process.phase is not ProcessPhase.UP:
            return self._between_incarnations(path, process, effects_in_flight)
        if effects_in_flight:
            deadlines = [
                ms for flight in effects_in_flight if (ms := flight.effect.deadline_ms) is not None
            ]
            names = list(
                dict.fromkeys(_asked(flight.effect.request) for flight in effects_in_flight)
            )
            until_ms = min(deadlines, default=None)
            if path in self._facts.asked and "person" not in names:
                names = ["person", *names]
            if names == [""]:
                return ProcessStatus.RUNNING, "", until_ms
            return ProcessStatus.WAITING, ", ".join(filter(None, names)), until_ms
        timer = self._wakes.get(path)
        if process.sends:
            return ProcessStatus.WAITING, "its turn", timer and timer.due_ms
        if process.fibers:
            return ProcessStatus.WAITING, "answers", timer and timer.due_ms
        if timer is not None and timer.kind == "post":
            return ProcessStatus.IDLE, "timer", timer.due_ms
        return ProcessStatus.IDLE, "message", None

    def _between_incarnations(
        self, path: str, process: ProcessRecord, effects_in_flight: list[InFlightEffect]
    ) -> tuple[ProcessStatus, str, int | None]:
        what = f"{len(effects_in_flight)} under way" if effects_in_flight else ""
        key = process.supervision or path
        supervision = self._state.supervisors.get(key)
        due = (
            (supervision.supervisor.due or {}).get(path.rpartition("/")[2]) if supervision else None
        )
        match process.phase:
            case ProcessPhase.STOPPING:
                return ProcessStatus.STOPPING, what, due and due.at_ms
            case ProcessPhase.OVER:
                return ProcessStatus.OVER, what, None
            case _:
                return ProcessStatus.RESTARTING, "its supervisor", due and due.at_ms

    def _health(
        self,
        process: ProcessRecord,
        state: ProcessStatus,
        until_ms: int | None,
        supervision: Supervision | None,
    ) -> Health:
        if self._is_failing(process, state, supervision):
            return Health.FAILING
        if process.mailbox is None or not process.mailbox.out:
            return Health.OK
        stuck_ms = process.spec.stuck_after_ms or _STUCK_MS
        is_late = until_ms is not None and self._now > until_ms
        if process.fibers and process.spec.stuck_after_ms is None:
            return Health.STUCK if is_late else Health.OK
        took_ms = self._now - process.since_ms
        if took_ms >= stuck_ms or is_late:
            return Health.STUCK
        return Health.SLOW if took_ms >= min(_SLOW_MS, stuck_ms // 2) else Health.OK

    def _is_failing(
        self, process: ProcessRecord, state: ProcessStatus, supervision: Supervision | None
    ) -> bool:
        body = self._code.get(process.spec.body)
        name = isinstance(body, AgentBody) and body.guard
        guard = self._state.guards.get(name or process.spec.body)
        if guard and guard.breaker and guard.breaker.state is not BreakerState.CLOSED:
            return True
        if state is ProcessStatus.RESTARTING:
            return True
        if supervision is None or process.generation == 1:
            return False
        supervisor = supervision.supervisor
        return bool(supervisor.rule.recent(supervisor.restarts, self._now))

    def _spent(self, path: str) -> Money:
        process = self._state.processes.get(path)
        if process is not None:
            parts = [send.part for send in (process.sends or {}).values()]
            under_way = sum(part.spent for part in parts if part.cap is not None)
            return Money(self._wallets.spent(path) + under_way)
        return Money(sum(self._spent(member) for member in self._below.get(path, ())))

    def _held(self, path: str) -> Money:
        """Return what is held for calls of a process, or of the children of a supervisor."""
        if path in self._state.processes:
            return Money(self._reserved.get(path, 0))
        return Money(sum(self._held(member) for member in self._below.get(path, ())))

    def _left(self, path: str, process: ProcessRecord) -> Money | None:
        """Return the least of what its wallets and the message that it works on still allow."""
        parts = [send.part.room for send in (process.sends or {}).values()]
        rooms = [room for room in (self._wallets.room(path), *parts) if room is not None]
        return min(rooms, default=None)

    def _kind(self, process: ProcessRecord) -> ProcessKind:
        match self._code[process.spec.body]:
            case AgentBody() | StandInBody():
                return ProcessKind.AGENT
            case ReducerBody():
                return ProcessKind.REDUCER
            case FiberBody():
                return ProcessKind.PROGRAM
            case CoroutineBody(whole_incarnation):
                return ProcessKind.SERVICE if whole_incarnation else ProcessKind.FUNCTION


def reserved_by_path(state: Program) -> dict[str, int]:
    """Return what is held for the model calls in flight of each process that has some."""
    reserved: defaultdict[str, int] = defaultdict(int)
    for flight in state.effects_in_flight.values():
        if isinstance(flight.effect.request, CallModel):
            reserved[flight.path] += flight.effect.request.worst_case
    return reserved


def _children(state: Program) -> dict[str, list[str]]:
    """Return the paths below each path, in the order they were declared or spawned in."""
    ranks = list(state.roots)
    for spawned in state.spawned.values():
        ranks.extend(spawned)
    rank = {path: number for number, path in enumerate(ranks)}
    below: defaultdict[str, list[str]] = defaultdict(list)
    for path, process in state.processes.items():
        below[process.supervision or process.spawner].append(path)
    for path, supervision in state.supervisors.items():
        if supervision.specs is not None:
            below[supervision.above or supervision.spawner].append(path)
            above = path if supervision.generation == 1 else f"{path}#{supervision.generation}"
            rank |= {f"{above}/{name}": number for number, name in enumerate(supervision.specs)}
    for paths in below.values():
        paths.sort(key=lambda path: rank.get(path, len(rank)))
    return below


def _asked(request: EffectRequest) -> str:
    """Name the part of the world that an effect asks; empty for the process's own code."""
    match request:
        case CallModel(asked):
            return f"model {asked.model}"
        case CallTool(tool):
            return f"tool {tool}"
        case AskHuman():
            return "person"
        case SetTimer():
            return "timer"
        case RunCoroutine():
            return ""
        case _:
            return "program"


# A kill: which processes it ends, and what is left of them. Hosts submit it and look again.


@dataclass(frozen=True, slots=True)
class KillPlan:
    """The processes that a kill of `path` ends, in tree order. One in `generations` may come back
    with a later generation: that is a restart, not a survivor."""

    path: str
    doomed: tuple[str, ...]
    generations: Mapping[str, int]

    def result(self, state: Program, os_children: int = 0) -> KillResult:
        """Return what is left of the doomed in this state of the program."""
        reborn = tuple(
            path
            for path, generation in self.generations.items()
            if path in state.processes and state.processes[path].generation > generation
        )
        resting = {
            path
            for path in self.generations
            if path in state.processes and state.processes[path].phase is ProcessPhase.DOWN
        }
        return KillResult(
            self.doomed,
            sum(
                path in state.processes or path in state.supervisors
                for path in {*self.doomed} - {*reborn} - resting
            ),
            sum(
                flight.path in self.doomed
                and flight.generation <= self.generations.get(flight.path, 1 << 62)
                for flight in state.effects_in_flight.values()
            ),
            os_children,
            reborn,
        )


def plan_kill(state: Program, wanted: str, *, tree: bool) -> KillPlan:
    """Return what a kill ends. Without `tree` it is one incarnation, which a supervisor has not."""
    below = _children(state)

    def paths(parent: str) -> Iterator[str]:
        for path in below.get(parent, ()):
            yield path
            yield from paths(path)

    known = list(paths(""))
    path = resolve(wanted, state.id, set(known))
    doomed = tuple(one for one in known if is_within(one, path))
    if tree:
        return KillPlan(path, doomed, {})
    if path not in state.processes:
        raise UserError(
            f"{path} is a supervisor and has no body of its own to restart; "
            f"to end it with all below it, type: vega kill --tree {path}"
        )
    return KillPlan(path, doomed, {path: state.processes[path].generation})


def resolve(wanted: str, program: str, known: set[str]) -> str:
    """Return the path that a person means by a path, the end of one, or a pid."""
    path = wanted.removeprefix(f"{program}/")
    bare = path.rpartition("#")[0] if path != wanted else path
    for exact in (path, bare):
        if exact in known:
            return exact
    ending = sorted(one for one in known if one.endswith(f"/{path}"))
    if len(ending) == 1:
        return ending[0]
    if ending:
        raise UserError(f"{wanted!r} is {len(ending)} processes; type one: {', '.join(ending)}")
    hint = did_you_mean(wanted, sorted(known), "to see them, type: vega ps")
    raise UserError(f"there is no process {wanted!r}; {hint}")
