"""What an agent says in a program in Python: there it is called like a function.

The program is read and not run, so these have types for who writes it, and an answer for who calls
them from plain Python.
"""

from collections.abc import Iterator
from typing import Any, NoReturn, TypeVar, overload

from vegakit.errors import UserError

__all__ = ["Askable", "only_in_program"]

R = TypeVar("R")


def only_in_program(what: str) -> NoReturn:
    raise UserError(
        f"{what} means something only in a program: put it into a function below @program, and run "
        "that with `await main(...)` or: vega run FILE.py"
    )


class Askable:
    """`reviewer("…")`, `reviewer.ask("…", returns=Finding)`; elsewhere `await rt.ask(reviewer, …)`
    asks an agent."""

    def __call__(self, message: str) -> str:
        only_in_program("calling an agent")

    @overload
    def ask(self, message: str, *, timeout: str = ..., budget: str = ...) -> str: ...
    @overload
    def ask(
        self, message: str, *, returns: type[R], timeout: str = ..., budget: str = ...
    ) -> R: ...

    def ask(self, message: str, **_: Any) -> Any:
        only_in_program("asking an agent")

    def stream(self, message: str) -> Iterator[str]:
        """Its answer, piece by piece."""
        only_in_program("a stream of an agent")

    def submit(self, message: str, **_: Any) -> Any:  # noqa: ANN401
        """Its answer later: take it with `.result()`."""
        only_in_program("asking an agent")
