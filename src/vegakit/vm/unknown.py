"""What a scout does not know: values that an answer will bring.

An `Unknown` lives in the registers of a scout only. It may be moved and put into lists; whatever
computes with it fails, and what it would have written is unknown in turn. It carries how long it
could be as text, so that a send that waits for it can be priced.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

from vegakit.vm.faults import Fault
from vegakit.vm.values import Fields, Items, Unknown, Value, weight_of

__all__ = [
    "NO_BOUND",
    "LookedEnoughError",
    "never_fails",
    "on_lookahead_bug",
    "poisoned",
    "size_of",
    "strict_lookahead",
]


NO_BOUND = -1
_MOST_WALKED = 20_000
_HOLDS = frozenset({Unknown, Items, Fields})
"""What can be unknown, or hold something that is."""


class LookedEnoughError(Exception):
    """Ends a look ahead. It is no `Fault`: those go to handlers of the program, and a look ahead
    that ends must not be taken for an error of the program."""


_STRICT = [False]
_TOLD: list["Callable[[str, Exception], None]"] = []


def on_lookahead_bug(told: "Callable[[str, Exception], None]") -> None:
    """Whom to tell of a bug of the lookahead: this package is pure and writes no log."""
    _TOLD[:] = [told]


def strict_lookahead(*, on: bool) -> None:
    """Whether a bug of the lookahead raises, as tests and campaigns want it."""
    _STRICT[0] = on


@contextmanager
def never_fails(what: str) -> Generator[None]:
    """Around whatever looks ahead. A bug there costs the overlap and is told; the program goes on
    in order. A `Fault` that gets as far as here is the program's own, and it will meet it."""
    try:
        yield
    except (LookedEnoughError, Fault):
        pass
    except Exception as error:
        if _STRICT[0]:
            raise
        for told in _TOLD:
            told(what, error)


def size_of(values: Iterable[Value]) -> Unknown | None:
    """None when all is known. Else what it could be as text: known bytes and unknown answers."""
    values = [*values]
    if _HOLDS.isdisjoint(map(type, values)):
        return None
    size, answers, found, walked = 0, 0, False, 0
    due = values
    while due:
        value = due.pop()
        walked += 1
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is Unknown:
            found = True
            size = NO_BOUND if NO_BOUND in (size, value.size) else size + value.size
            answers += value.answers
        elif kind is Items or kind is Fields:
            due += value if kind is Items else value.values()
        elif size != NO_BOUND:
            size += weight_of(value)
        if walked > _MOST_WALKED:
            raise LookedEnoughError
    return Unknown(size, answers) if found else None


def poisoned(read: Sequence[int], written: Sequence[int], registers: list[Value]) -> bool:
    """Whether an instruction computes with something unknown; then what it writes is unknown."""
    unknown = size_of([registers[each] for each in read])
    if unknown is None:
        return False
    for each in written:
        registers[each] = unknown
    return True
