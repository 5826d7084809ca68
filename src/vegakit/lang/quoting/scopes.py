"""Variables while a program is walked: what is known of each, and what was ever assigned."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TypeAlias

from msgspec import Struct

from vegakit.lang.quoting.values import Value, either
from vegakit.lang.types import Type

__all__ = ["Frames", "Scopes", "Variable"]


class Variable(Struct, frozen=True):
    value: Value
    type: Type


Frames: TypeAlias = list[dict[str, Variable]]


class Scopes:
    """Innermost last. What leaves a block in its middle, by `break` or an error, sees a value that
    the end of the block does not; so each watch joins all that was assigned while it lasts."""

    def __init__(self) -> None:
        self._frames: list[dict[str, Variable]] = [{}]
        self._watches: list[dict[tuple[int, str], Value]] = []

    @contextmanager
    def block(self) -> Generator[None]:
        self._frames.append({})
        yield
        self._frames.pop()

    @contextmanager
    def watch(self) -> Generator[dict[tuple[int, str], Value]]:
        seen: dict[tuple[int, str], Value] = {}
        self._watches.append(seen)
        yield seen
        self._watches.pop()

    def declare(self, name: str, value: Value, kind: Type) -> None:
        self._frames[-1][name] = Variable(value, kind)

    def find(self, name: str) -> tuple[int, Variable] | None:
        for depth in range(len(self._frames) - 1, -1, -1):
            if name in self._frames[depth]:
                return depth, self._frames[depth][name]
        return None

    def put(self, depth: int, name: str, value: Value) -> None:
        self._frames[depth][name] = Variable(value, self._frames[depth][name].type)
        for seen in self._watches:
            known = seen.get((depth, name))
            seen[depth, name] = value if known is None else either(known, value)

    def join(self, before: Frames, seen: dict[tuple[int, str], Value]) -> None:
        """What was assigned meanwhile may be there, or what was there before may still be."""
        for (depth, name), value in seen.items():
            if depth < len(before) and name in before[depth]:
                self.put(depth, name, either(before[depth][name].value, value))

    def meet(self, ends: Sequence[Frames]) -> None:
        """Whichever of these it came from; frames that are closed by now are not looked at."""
        for depth, frame in enumerate(self._frames):
            for name in list(frame):
                values = [end[depth][name].value for end in ends if name in end[depth]]
                if values:
                    self.put(depth, name, reduce(either, values))

    @contextmanager
    def unwatched(self) -> Generator[None]:
        """For a walk whose values are none that the program could have."""
        watches, self._watches = self._watches, []
        frames = self.copy()
        yield
        self._watches = watches
        self._frames = frames

    def copy(self) -> Frames:
        return [dict(frame) for frame in self._frames]

    def restore(self, frames: Frames) -> None:
        self._frames = [dict(frame) for frame in frames]
