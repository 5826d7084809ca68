"""Spawning processes: names, wallets, and the bounds that stop a runaway (pure)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import structs

from vegakit.errors import BudgetExceeded, LimitReached
from vegakit.money import Money, format_money
from vegakit.policy import Backoff, RestartRule, RestartStrategy
from vegakit.program.core import Core
from vegakit.program.processes import Supervisors
from vegakit.program.protocol import ChildSpec, GroupSpec, ProcessSpec, Spawn, Spawned, SpawnRefused
from vegakit.program.state import ProcessPhase, child_path, number_child
from vegakit.program.wallets import Wallets

if TYPE_CHECKING:
    from vegakit.vm import SpawnAgent

_LONGEST_NAME = 200
_MARKS = frozenset("/#|")


class Spawner:
    """Starts processes that a program asks for, with a part of its wallet."""

    def __init__(self, core: Core, supervisors: Supervisors, wallets: Wallets) -> None:
        self._core = core
        self._supervisors = supervisors
        self._wallets = wallets

    def spawn(self, command: Spawn, *, once: bool = False) -> Spawned | SpawnRefused:
        """Start a process or a group. With `once` it ends when its first message is answered."""
        state, spec, spawner = self._core.state, command.spec, command.spawner
        refused = self._out_of_bounds(spawner, once=once)
        refused = refused or self._has_a_mistake(spec) or _misnamed(command)
        if refused is not None:
            return refused
        path = self._path(command)
        if path in state.processes or path in state.supervisors:
            return SpawnRefused(
                "UserError", f"there is a process {path!r} already; give another name"
            )
        caps = dict(_caps(path, spec))
        if (exhausted := self._wallets.open(caps, spawner, command.session)) is not None:
            room = self._wallets.seen_room(spawner, command.session)
            return _budget_exceeded(Money(sum(caps.values())), exhausted, room)
        if spawner:
            state.spawned.setdefault(spawner, {})[path] = None
        else:
            state.roots[path] = None
        self._supervisors.start(path, spec, spawner, once=once)
        if (made := state.processes.get(path)) is not None:
            made.session = command.session or made.session
            made.scope = command.scope or made.scope
        return Spawned(path)

    def _path(self, command: Spawn) -> str:
        state, spawner = self._core.state, command.spawner
        generation = state.processes[spawner].generation if spawner else 1
        if command.name:
            return child_path(spawner, generation, command.name)
        body = command.spec.body if isinstance(command.spec, ProcessSpec) else "group"
        path = child_path(spawner, generation, body)
        number = number_child(state, path, spawner)
        return path if number == 1 else f"{path}-{number}"

    def _has_a_mistake(self, spec: ProcessSpec | GroupSpec) -> SpawnRefused | None:
        if isinstance(spec, GroupSpec):
            mistakes = (self._has_a_mistake(child) for child in spec.children.values())
            return next((mistake for mistake in mistakes if mistake), None)
        if spec.body in self._core.code:
            return None
        known = ", ".join(sorted(self._core.code)) or "none"
        return SpawnRefused("UserError", f"no body is called {spec.body!r}; known are: {known}")

    def _out_of_bounds(self, spawner: str, *, once: bool) -> SpawnRefused | None:
        """Return a refusal if a bound is reached. Processes for one message do not count towards
        width and living: budgets and limits bound how many run at once. Their depth is bounded,
        since agents may ask each other in a circle."""
        if not spawner:
            return None
        state, bounds = self._core.state, self._core.state.bounds
        process = state.processes.get(spawner)
        if process is None or process.phase is not ProcessPhase.UP:
            return SpawnRefused("AgentFailed", f"{spawner} is ending and starts nothing any more")
        measures = {"depth": (spawner.count("/"), bounds.depth)}
        if not once:
            measures["width"] = (self._children(spawner, bounds.width), bounds.width)
            measures["living"] = (state.living, bounds.living)
        for name, (reached, most) in measures.items():
            if reached >= most:
                return SpawnRefused(
                    LimitReached.__name__,
                    f"{spawner} may not start another process: the bound {name}={most} is reached;"
                    f" raise it with Runtime(bounds=Bounds({name}=…)), or in vega.toml, [bounds] "
                    f"{name} = …, if this is meant",
                )
        return None

    def _children(self, spawner: str, most: int) -> int:
        """Count the children without those for one message, which are sorted out only when there
        would be too many."""
        state = self._core.state
        spawned = state.spawned.get(spawner, ())
        if len(spawned) < most:
            return len(spawned)
        made = (state.processes.get(path) for path in spawned)
        return sum(process is None or not process.once for process in made)


def _budget_exceeded(wanted: Money, exhausted: str, room: Money | None) -> SpawnRefused:
    return SpawnRefused(
        BudgetExceeded.__name__,
        f"a part of {format_money(wanted)} was asked for, but {exhausted} has "
        f"only {format_money(room or Money(0))} left; give the child less, or {exhausted} more",
    )


def _misnamed(command: Spawn) -> SpawnRefused | None:
    """Refuse a name that could be taken for another path: a name is one step of a path, so it must
    not contain the marks of paths."""
    name = command.name
    if len(name) <= _LONGEST_NAME and (not name or name.isprintable()) and _MARKS.isdisjoint(name):
        return None
    why = f"a process cannot be called {name[:_LONGEST_NAME]!r}"
    return SpawnRefused(
        "UserError", f"{why}; take at most {_LONGEST_NAME} visible characters, without / # |"
    )


def _caps(path: str, spec: ProcessSpec | GroupSpec) -> Iterator[tuple[str, Money]]:
    """Yield the wallets to open. In the first generation a wallet has the name of its process."""
    if isinstance(spec, GroupSpec):
        for name, child in spec.children.items():
            yield from _caps(child_path(path, 1, name), child)
    elif spec.wallet is not None:
        yield path, spec.wallet


def not_a_child(request: "SpawnAgent") -> SpawnRefused:
    """Return the refusal to start a child that its supervisor does not have."""
    why = f"{request.under} has no child {request.agent}; add it to the children of that supervisor"
    return SpawnRefused("AgentFailed", why)


def spec_of(spec: ChildSpec, request: "SpawnAgent") -> ChildSpec:
    """Return the declared spec with the settings of this `spawn`."""
    if isinstance(spec, GroupSpec):
        return spec
    rules = request.rules
    if rules is not None:
        known = spec.rule
        rule = RestartRule(
            RestartStrategy(rules.get("strategy", known.strategy)),
            rules.get("max_restarts", known.max_restarts),
            rules.get("window", known.window_ms),
            backoff_of(rules["backoff"]) if "backoff" in rules else known.backoff,
        )
        spec = structs.replace(spec, rule=rule)
    wallet = None if request.wallet is None else Money(request.wallet)
    return structs.replace(spec, wallet=wallet)


def backoff_of(written: list[Any]) -> Backoff:
    """Return the backoff of `exponential(base, factor, max)` or `constant(delay)`, as bytecode has
    it."""
    kind, initial_ms, *rest = written
    if kind == "constant":
        return Backoff(initial_ms, 1.0, initial_ms)
    given = dict(zip(("factor", "max_ms"), rest, strict=False))
    return Backoff(initial_ms, float(given.get("factor", 2.0)), int(given.get("max_ms", 5_000)))
