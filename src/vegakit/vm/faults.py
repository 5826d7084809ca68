"""Errors of a running program, on their way from an instruction to its handler.

What a program may catch stands in `lang.CATCHABLE`. Anything else ends it: exhausted fuel, a
program that is not what the compiler makes (`BadProgram`), and errors of the host that have no name
in the language.
"""

__all__ = ["Fault", "arithmetic", "bad", "limit"]

Rows = tuple[tuple[str, str, int], ...]
Cause = tuple[str, ...]


class Fault(Exception):  # noqa: N818  (it carries an error of the program, and is none of ours)
    """`stack` are rows of function, file and line, innermost first; empty until it is known.
    `cause` are the keys of the effects whose outcomes it comes from."""

    def __init__(self, name: str, reason: str, stack: Rows = (), cause: Cause = ()) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason
        self.stack = stack
        self.cause = cause


def bad(reason: str) -> Fault:
    """The checker lets no such program through; only made-up bytecode comes here."""
    return Fault("BadProgram", reason)


def limit(reason: str) -> Fault:
    return Fault("LimitReached", reason)


def arithmetic(reason: str) -> Fault:
    return Fault("ArithmeticError", reason)
