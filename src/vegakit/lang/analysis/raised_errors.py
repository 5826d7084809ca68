"""Errors that a program raises itself, and which handler takes each, known before it runs (pure).

A `fail` is a decision of the program, so a lookahead must not pass it before it is taken. That a
send or a cast fails is none: nobody writes it down, and the lookahead assumes that it does not.

A call raises every error that leaves the function it calls. So a `fail` in a helper counts in its
callers as if it were written there.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vegakit.lang.codegen.bytecode import Function, Handler, Module, Op


class RaisedErrors:
    """The errors that the functions of one module raise. Functions are given by their numbers."""

    def __init__(self, module: Module) -> None:
        self._functions: Sequence[Function] = module.functions
        self._constants = module.constants
        self._covering: dict[tuple[int, str], Sequence[Handler | None]] = {}
        self._leaving = [set[str]() for _ in module.functions]
        self._propagate()

    def leaving(self, function: int) -> frozenset[str]:
        """Return the names of the errors that may leave a function."""
        return frozenset(self._leaving[function])

    def handlers_of(self, function: int) -> Mapping[int, tuple[Handler | None, ...]]:
        """Return the instructions of a function that may raise. Each has the handlers that take
        its errors; None stands for an error that leaves the function."""
        found: dict[int, tuple[Handler | None, ...]] = {}
        for at, instruction in enumerate(self._functions[function].code):
            taken = [self._handler(function, at, each) for each in self._raised_by(instruction)]
            if taken:
                found[at] = tuple(dict.fromkeys(taken))
        return found

    def _raised_by(self, instruction: Sequence[Any]) -> list[str]:
        if instruction[0] == Op.CALL:
            return sorted(self._leaving[int(instruction[2])])
        return [str(self._constants[instruction[1]])] if instruction[0] == Op.RAISE else []

    def _propagate(self) -> None:
        """Follow each error from where it is raised through the callers that do not catch it. A
        call is looked at once for each error, so a long chain of calls takes no longer than its
        code."""
        callers: dict[int, list[tuple[int, int]]] = {}
        due: list[tuple[int, str]] = []
        for number, at, instruction in self._instructions():
            if instruction[0] == Op.CALL:
                callers.setdefault(instruction[2], []).append((number, at))
            elif instruction[0] == Op.RAISE:
                due += self._left_by(number, at, self._constants[instruction[1]])
        while due:
            called, error = due.pop()
            for number, at in callers.get(called, ()):
                due += self._left_by(number, at, error)

    def _instructions(self) -> Iterator[tuple[int, int, Sequence[Any]]]:
        for number, function in enumerate(self._functions):
            for at, instruction in enumerate(function.code):
                yield number, at, instruction

    def _left_by(self, function: int, at: int, error: str) -> list[tuple[int, str]]:
        """Note that an error may leave a function. Return that news, or nothing if it is none."""
        if error in self._leaving[function] or self._handler(function, at, error) is not None:
            return []
        self._leaving[function].add(error)
        return [(function, error)]

    def _handler(self, function: int, at: int, error: str) -> Handler | None:
        """Return the handler that takes an error of an instruction: of several the first, as the
        machine looks for it."""
        if not self._functions[function].handlers:
            return None
        key = function, error
        covering = self._covering.get(key)
        if covering is None:
            covering = self._covering[key] = _covering(self._functions[function], error)
        return covering[at]


def _covering(function: Function, error: str) -> Sequence[Handler | None]:
    """Return for each instruction the handler that takes the error there. The handlers are laid
    over each other from the last to the first, since many instructions times many handlers would
    be too much work."""
    covering: list[Handler | None] = [None] * len(function.code)
    for handler in reversed(function.handlers):
        if not handler.kinds or error in handler.kinds:
            covering[handler.start : handler.end] = [handler] * (handler.end - handler.start)
    return covering
