"""A way with a fault, to see that `just speedups` sees it: `--plant FAULT`."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any

__all__ = ["open_programs"]

Program = Callable[..., Awaitable[Any]]


def _twice(program: Program) -> Program:
    """Every call twice."""

    async def run(*arguments: Any) -> Any:
        await program(*arguments)
        return await program(*arguments)

    return run


def _words(program: Program) -> Program:
    """Other words in the first argument."""

    async def run(first: Any, *others: Any) -> Any:
        return await program(f"{first}!" if isinstance(first, str) else first[::-1], *others)

    return run


def _result(program: Program) -> Program:
    """The same calls, another result."""

    async def run(*arguments: Any) -> Any:
        return [await program(*arguments)]

    return run


_FAULTS = {"twice": _twice, "words": _words, "result": _result}


async def open_programs(
    url: str, stack: AsyncExitStack, sound: str, fault: str
) -> Mapping[str, Program]:
    module: Any = import_module(f"benchmarks.speedups.{sound}")
    programs: Mapping[str, Program] = await module.open_programs(url, stack)
    return {name: _faulty(program, fault) for name, program in programs.items()}


def _faulty(program: Program, fault: str) -> Program:
    made = _FAULTS[fault](program)
    vars(made).update(notes=getattr(program, "notes", dict))
    return made
