"""Variables while a program is walked: what is known of each, and what was ever assigned."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TypeAlias

from msgspec import Struct

from vegakit.lang.quoting.values import Value, either
from vegakit.lang.steps import took
from vegakit.lang.types import Type

__all__ = ["Frames", "Scopes", "Variable"]


class Variable(Struct, frozen=True):
    value: Value
    type: Type


Frames: TypeAlias = list[dict[str, Variable]]


class Scopes:
    """Innermost last. What leaves a block in its middle, by `break` or an error, sees a value that
    the end of the block does not; so each watch joins all that was assigned while it lasts.

    A copy shares its frames until one of them is written: loops copy far more often than their
    bodies assign. `_own` says of each frame whether nobody else has it."""

    def __init__(self) -> None:
        self._frames: Frames = [{}]
        self._own: list[bool] = [True]
        self._watches: list[dict[tuple[int, str], Value]] = []

    @contextmanager
    def block(self) -> Generator[None]:
        self._frames.append({})
        self._own.append(True)
        yield
        self._frames.pop()
        self._own.pop()

    @contextmanager
    def watch(self) -> Generator[dict[tuple[int, str], Value]]:
        seen: dict[tuple[int, str], Value] = {}
        self._watches.append(seen)
        yield seen
        self._watches.pop()

    def declare(self, name: str, value: Value, kind: Type) -> None:
        self._writable(-1)[name] = Variable(value, kind)

    def _writable(self, depth: int) -> dict[str, Variable]:
        if not self._own[depth]:
            took(1 + len(self._frames[depth]) // 16)
            self._frames[depth] = dict(self._frames[depth])
            self._own[depth] = True
        return self._frames[depth]

    def find(self, name: str) -> tuple[int, Variable] | None:
        took(1 + len(self._frames) // 16)
        for depth in range(len(self._frames) - 1, -1, -1):
            if name in self._frames[depth]:
                return depth, self._frames[depth][name]
        return None

    def put(self, depth: int, name: str, value: Value) -> None:
        took(1 + len(self._watches))
        self._writable(depth)[name] = Variable(value, self._frames[depth][name].type)
        for seen in self._watches:
            known = seen.get((depth, name))
            seen[depth, name] = value if known is None else either(known, value)

    def join(self, before: Frames, seen: dict[tuple[int, str], Value]) -> None:
        """What was assigned meanwhile may be there, or what was there before may still be."""
        for (depth, name), value in seen.items():
            if depth < len(before) and name in before[depth]:
                self.put(depth, name, either(before[depth][name].value, value))

    def meet(self, ends: Sequence[Frames]) -> None:
        """Whichever of these it came from; frames that are closed by now are not looked at, and
        what is the same wherever it came from stays."""
        for depth, frame in enumerate(self._frames):
            others = [end[depth] for end in ends if end[depth] is not frame]
            if not others:
                continue
            took(1 + len(frame) * len(others) // 8)
            for name, here in list(frame.items()):
                if all(other.get(name) is here for other in others):
                    continue
                values = [end[depth][name].value for end in ends if name in end[depth]]
                if values:
                    took(len(values))
                    self.put(depth, name, reduce(either, values))

    @contextmanager
    def unwatched(self) -> Generator[None]:
        """For a walk whose values are none that the program could have."""
        watches, self._watches = self._watches, []
        frames = self.copy()
        yield
        self._watches = watches
        self.restore(frames)

    def copy(self) -> Frames:
        took(1 + len(self._frames) // 16)
        self._own = [False] * len(self._frames)
        return self._frames.copy()

    def restore(self, frames: Frames) -> None:
        took(1 + len(frames) // 16)
        self._frames = frames.copy()
        self._own = [False] * len(frames)
