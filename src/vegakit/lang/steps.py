"""How much work a program makes for whoever looks at it, counted in steps.

A step is about a node looked at once by one phase. Checking, compiling, listing what is touched,
quoting and drawing flows all count, and inside one `counted()` they share what is allowed. It is
counted, not timed: whether a program is too much work depends on its source alone, so it is the
same on a slow machine, in another process, and when a recorded run is taken up again.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from vegakit.errors import UserError

__all__ = ["MOST_STEPS", "Counter", "StepsSpentError", "counted", "took"]

MOST_STEPS = 160_000
"""Of a program that a model writes: below half a second of a core."""
_MOST_OF_A_FILE = 20 * MOST_STEPS
"""Of a person's own: who waits for it is who wrote it."""


class StepsSpentError(UserError):
    def __init__(self) -> None:
        super().__init__(
            "the program makes too much work for whoever checks and prices it; nest fewer loops, "
            "repeat less, or put parts of it in functions or in a program of their own"
        )


class Counter:
    def __init__(self, most: int) -> None:
        self.left = most

    @property
    def are_spent(self) -> bool:
        return self.left < 0


_counter: ContextVar[Counter | None] = ContextVar("steps", default=None)


def took(steps: int = 1) -> None:
    counter = _counter.get()
    if counter is not None:
        counter.left -= steps
        if counter.left < 0:
            raise StepsSpentError


@contextmanager
def counted(most: int = _MOST_OF_A_FILE) -> Generator[Counter]:
    """Whoever counts already counts this too, and its limit holds."""
    known = _counter.get()
    if known is not None:
        yield known
        return
    token = _counter.set(counter := Counter(most))
    try:
        yield counter
    finally:
        _counter.reset(token)
