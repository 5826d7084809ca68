"""The walker that dataflow and cost share: variables with what is known of them, and the way
through the statements of a function (pure).

A walk runs nothing. It goes through every branch once and joins what they leave, so a subclass says
what is known of a value and how two such facts are joined.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Generic, TypeAlias, TypeVar

from vegakit.lang.diagnostics import count_steps
from vegakit.lang.syntax.tree import Block, Stmt

Known = TypeVar("Known")
Place: TypeAlias = tuple[int, str]
"""A variable: the depth of its block, and its name."""


class Scopes(Generic[Known]):
    """The variables of the blocks around, innermost last. What leaves a block in its middle, by
    `break` or an error, sees a value that the end of the block does not; so each watch joins all
    that was assigned while it lasts.

    A copy shares its frames until one of them is written: loops copy far more often than their
    bodies assign. `_own` says of each frame whether nobody else has it."""

    def __init__(self, either: Callable[[Known, Known], Known]) -> None:
        self._either = either
        self.frames: list[dict[str, Known]] = [{}]
        self._own: list[bool] = [True]
        self._watches: list[dict[Place, Known]] = []

    @contextmanager
    def block(self) -> Generator[None]:
        """Open a block, and close it at the end."""
        self.frames.append({})
        self._own.append(True)
        yield
        self.frames.pop()
        self._own.pop()

    @contextmanager
    def watch(self) -> Generator[dict[Place, Known]]:
        """Join all that is assigned meanwhile."""
        seen: dict[Place, Known] = {}
        self._watches.append(seen)
        yield seen
        self._watches.pop()

    @contextmanager
    def unwatched(self) -> Generator[None]:
        """Walk with values that the program could not have, and forget them."""
        watches, self._watches = self._watches, []
        frames = self.copy()
        yield
        self._watches = watches
        self.restore(frames)

    def define(self, name: str, known: Known) -> None:
        """Declare a variable in the innermost block."""
        self._writable(-1)[name] = known

    def depth_of(self, name: str) -> int | None:
        """Return the index of the innermost frame that has the variable, None if none has."""
        count_steps(1 + len(self.frames) // 16)
        for depth in range(len(self.frames) - 1, -1, -1):
            if name in self.frames[depth]:
                return depth
        return None

    def set(self, place: Place, known: Known) -> None:
        """Assign a variable that is there."""
        count_steps(1 + len(self._watches))
        depth, name = place
        self._writable(depth)[name] = known
        for seen in self._watches:
            seen[place] = self._either(seen[place], known) if place in seen else known

    def _writable(self, depth: int) -> dict[str, Known]:
        if not self._own[depth]:
            count_steps(1 + len(self.frames[depth]) // 16)
            self.frames[depth] = dict(self.frames[depth])
            self._own[depth] = True
        return self.frames[depth]

    def copy(self) -> list[dict[str, Known]]:
        """Return the frames as they are now. They are shared until one of them is written."""
        count_steps(1 + len(self.frames) // 16)
        self._own = [False] * len(self.frames)
        return self.frames.copy()

    def restore(self, frames: Sequence[dict[str, Known]]) -> None:
        """Go back to frames that `copy` returned, which may be restored more than once."""
        count_steps(1 + len(frames) // 16)
        self.frames = [*frames]
        self._own = [False] * len(frames)

    def join(self, values: Mapping[Place, Known]) -> None:
        """Let these be there, or what is there now. Variables of blocks that are closed by now are
        left out."""
        for place, known in values.items():
            depth, name = place
            if depth < len(self.frames) and name in self.frames[depth]:
                self.set(place, self._either(self.frames[depth][name], known))

    def meet(self, ends: Sequence[Sequence[dict[str, Known]]]) -> None:
        """Let it be as at whichever of these ends it came from; frames that are closed by now are
        not looked at, and what is the same wherever it came from stays."""
        for depth, frame in enumerate(self.frames):
            others = [end[depth] for end in ends if end[depth] is not frame]
            if not others:
                continue
            count_steps(1 + len(frame) * len(others) // 8)
            for name, here in list(frame.items()):
                if all(other.get(name) is here for other in others):
                    continue
                values = [end[depth][name] for end in ends if name in end[depth]]
                if values:
                    count_steps(len(values))
                    self.set((depth, name), reduce(self._either, values))


ScopesOf = TypeVar("ScopesOf", bound=Scopes[Any])


class TreeWalk(ABC, Generic[ScopesOf]):
    """A walk through the statements of one function."""

    scopes: ScopesOf

    @abstractmethod
    def statement(self, node: Stmt) -> None:
        """Walk one statement, by the rule of its kind."""

    def all(self, body: Sequence[Stmt]) -> None:
        """Walk statements in their order, in the block that is open."""
        for stmt in body:
            self.statement(stmt)

    def block(self, block: Block) -> None:
        """Walk a block, whose variables are gone after it."""
        with self.scopes.block():
            self.all(block.body)
