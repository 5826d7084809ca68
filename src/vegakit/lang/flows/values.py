"""Variables while a function is walked: which steps each value came from."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from msgspec import Struct

from vegakit.lang.steps import took

__all__ = [
    "NOTHING_NEEDED",
    "Frames",
    "Need",
    "Place",
    "Scopes",
    "Value",
    "both",
    "either",
    "needing",
]


class Need(Struct, frozen=True):
    """A step whose answer is in the value; `round_of` is the outermost loop of whose earlier round
    it is. `name` is the variable that the value was last read from."""

    step: int
    round_of: int | None = None
    name: str = ""


class Value(Struct, frozen=True):
    """`later` is what an `await` of it has to wait for besides. `handles` are the spawns that made
    the process it is, and `~loop` for an item that a loop goes through; None: nobody knows."""

    needs: frozenset[Need] = frozenset()
    later: frozenset[Need] = frozenset()
    handles: frozenset[int] | None = None

    def read_from(self, name: str) -> "Value":
        return self._each(lambda need: Need(need.step, need.round_of, name), self.handles)

    def nameless(self) -> "Value":
        return self.read_from("")

    def a_round_ago(self, loop: int) -> "Value":
        """Which of its processes it is, is not known."""
        return self._each(lambda need: need if need.round_of is not None else Need(need.step, loop))

    def after(self, loop: int) -> "Value":
        return self._each(
            lambda need: Need(need.step) if need.round_of == loop else need, self.handles
        )

    def awaited(self) -> "Value":
        return Value(self.needs | self.later)

    def _each(
        self, change: Callable[[Need], Need], handles: frozenset[int] | None = None
    ) -> "Value":
        needs, later = frozenset(map(change, self.needs)), frozenset(map(change, self.later))
        return Value(needs, later, handles)


NOTHING_NEEDED = Value()


def needing(*steps: int) -> Value:
    return Value(frozenset(Need(step) for step in steps))


def both(*values: Value) -> Value:
    """Made of all of them."""
    needs = frozenset[Need]().union(*(value.needs for value in values))
    return Value(needs, frozenset[Need]().union(*(value.later for value in values)))


def either(one: Value, other: Value) -> Value:
    same = one.handles is not None and other.handles is not None
    handles = (one.handles or frozenset()) | (other.handles or frozenset()) if same else None
    return Value(one.needs | other.needs, one.later | other.later, handles)


Frames: TypeAlias = list[dict[str, Value]]
Place: TypeAlias = tuple[int, str]


class Scopes:
    """Innermost last. A watch joins all that is assigned while it lasts: what leaves a block in its
    middle sees values that the end of the block does not."""

    def __init__(self) -> None:
        self.frames: Frames = [{}]
        self._watches: list[dict[Place, Value]] = []

    @contextmanager
    def block(self) -> Generator[None]:
        self.frames.append({})
        yield
        self.frames.pop()

    @contextmanager
    def watch(self) -> Generator[dict[Place, Value]]:
        seen: dict[Place, Value] = {}
        self._watches.append(seen)
        yield seen
        self._watches.pop()

    def declare(self, name: str, value: Value) -> None:
        self.frames[-1][name] = value.nameless()

    def find(self, name: str) -> Value:
        depth = self._depth(name)
        return NOTHING_NEEDED if depth is None else self.frames[depth][name]

    def assign(self, name: str, value: Value) -> None:
        depth = self._depth(name)
        if depth is not None:
            self.put((depth, name), value.nameless())

    def put(self, place: Place, value: Value) -> None:
        took(1 + len(self._watches))
        depth, name = place
        self.frames[depth][name] = value
        for seen in self._watches:
            seen[place] = either(seen[place], value) if place in seen else value

    def copy(self) -> Frames:
        took(1 + sum(map(len, self.frames)) // 16)
        return [dict(frame) for frame in self.frames]

    def restore(self, frames: Frames) -> None:
        took(1 + sum(map(len, frames)) // 16)
        self.frames = [dict(frame) for frame in frames]

    def changed(self, before: Frames) -> dict[Place, Value]:
        """Since then, of what was there already."""
        return {
            (depth, name): value
            for depth, frame in enumerate(self.frames[: len(before)])
            for name, value in frame.items()
            if name in before[depth] and value != before[depth][name]
        }

    def join(self, values: dict[Place, Value]) -> None:
        """They may be there instead of what is."""
        for place, value in values.items():
            depth, name = place
            if depth < len(self.frames) and name in self.frames[depth]:
                self.put(place, either(self.frames[depth][name], value))

    def either_of(self, ends: Sequence[Frames]) -> None:
        """As at any of these ends, of the same blocks."""
        self.restore(ends[0])
        for frames in ends[1:]:
            for mine, theirs in zip(self.frames, frames, strict=True):
                took(1 + len(mine) // 4)
                for name in mine.keys() & theirs.keys():
                    mine[name] = either(mine[name], theirs[name])

    def mark(self, names: Iterable[str], more: Value) -> None:
        """What they are depends on more."""
        for name in names:
            depth = self._depth(name)
            if depth is not None:
                old = self.frames[depth][name]
                new = Value(old.needs | more.needs, old.later | more.later, old.handles)
                self.put((depth, name), new)

    def _depth(self, name: str) -> int | None:
        for depth in range(len(self.frames) - 1, -1, -1):
            if name in self.frames[depth]:
                return depth
        return None
