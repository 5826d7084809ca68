"""Who may start whom: names, and the bounds that stop a runaway before it costs anything."""

from collections.abc import Iterator

from msgspec import structs

from vegakit.errors import BudgetExceeded, LimitReached
from vegakit.money import Money, show
from vegakit.policy import RestartRule, RestartStrategy
from vegakit.program.actions import Spawned, SpawnRefused
from vegakit.program.commands import ChildSpec, GroupSpec, ProcessSpec, Spawn
from vegakit.program.core import Core
from vegakit.program.families import Families
from vegakit.program.paths import child_path
from vegakit.program.purses import Purses
from vegakit.program.state import Phase
from vegakit.vm import SpawnAgent

__all__ = ["Spawning", "not_a_child", "spec_of"]

_LONGEST_NAME = 200
_MARKS = frozenset("/#|")


class Spawning:
    def __init__(self, core: Core, families: Families, purses: Purses) -> None:
        self._core = core
        self._families = families
        self._purses = purses

    def spawn(self, command: Spawn, *, once: bool = False) -> Spawned | SpawnRefused:
        """`once`: it is over when its first message is answered."""
        state, spec, spawner = self._core.state, command.spec, command.spawner
        refused = self._out_of_bounds(spawner, once=once)
        refused = refused or self._has_a_mistake(spec) or _misnamed(command)
        if refused is not None:
            return refused
        path = self._path(command)
        if path in state.processes or path in state.families:
            return SpawnRefused(
                "UserError", f"there is a process {path!r} already; give another name"
            )
        caps = dict(_caps(path, spec))
        if (poor := self._purses.open(caps, spawner, command.session)) is not None:
            room = self._purses.seen_room(spawner, command.session)
            return _too_poor(Money(sum(caps.values())), poor, room)
        if spawner:
            state.spawned.setdefault(spawner, {})[path] = None
        else:
            state.roots[path] = None
        self._families.start(path, spec, spawner, once=once)
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
        number = state.numbers.get(path, 0) + 1
        state.numbers[path] = number
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
        """A question is no child that stays: how many are asked at once is for budgets and limits
        to say. How deep they nest is bounded, since agents may ask each other in a circle."""
        if not spawner:
            return None
        state, bounds = self._core.state, self._core.state.bounds
        process = state.processes.get(spawner)
        if process is None or process.phase is not Phase.UP:
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
                    f" raise it with Runtime(bounds=Bounds({name}=…)) if this is meant",
                )
        return None

    def _children(self, spawner: str, most: int) -> int:
        """Without its questions; they are looked at only where they would make too many."""
        state = self._core.state
        spawned = state.spawned.get(spawner, ())
        if len(spawned) < most:
            return len(spawned)
        made = (state.processes.get(path) for path in spawned)
        return sum(process is None or not process.once for process in made)


def _too_poor(wanted: Money, poor: str, room: Money | None) -> SpawnRefused:
    return SpawnRefused(
        BudgetExceeded.__name__,
        f"a part of {show(wanted)} was asked for, but {poor} has "
        f"only {show(room or Money(0))} left; give the child less, or {poor} more",
    )


def _misnamed(command: Spawn) -> SpawnRefused | None:
    """A name is one step of a path: with the marks of paths it could be taken for another's."""
    name = command.name
    if len(name) <= _LONGEST_NAME and (not name or name.isprintable()) and _MARKS.isdisjoint(name):
        return None
    why = f"a process cannot be called {name[:_LONGEST_NAME]!r}"
    return SpawnRefused(
        "UserError", f"{why}; take at most {_LONGEST_NAME} letters that can be seen, without / # |"
    )


def _caps(path: str, spec: ProcessSpec | GroupSpec) -> Iterator[tuple[str, Money]]:
    """By purse, which in the first generation is called like its process."""
    if isinstance(spec, GroupSpec):
        for name, child in spec.children.items():
            yield from _caps(child_path(path, 1, name), child)
    elif spec.wallet is not None:
        yield path, spec.wallet


def not_a_child(want: SpawnAgent) -> SpawnRefused:
    why = f"{want.under} has no child {want.agent}; name it among the children of its supervisor"
    return SpawnRefused("AgentFailed", why)


def spec_of(spec: ChildSpec, want: SpawnAgent) -> ChildSpec:
    """As declared, with what stands at this `spawn`."""
    if isinstance(spec, GroupSpec):
        return spec
    rules = want.rules
    if rules is not None:
        known = spec.rule
        rule = RestartRule(
            RestartStrategy(rules.get("strategy", known.strategy)),
            rules.get("max_restarts", known.max_restarts),
            rules.get("window", known.window_ms),
        )
        spec = structs.replace(spec, rule=rule)
    wallet = None if want.wallet is None else Money(want.wallet)
    return structs.replace(spec, wallet=wallet)
