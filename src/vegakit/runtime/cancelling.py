"""Several works at once, none of which outlives the wait for them."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

__all__ = ["all_of", "first_of"]

T = TypeVar("T")


async def first_of(*works: Coroutine[Any, Any, object]) -> None:
    """Until the first of them is done; the others are cancelled."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end(tasks)


async def all_of(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Runs them at once and answers in their order. Nothing runs on when this returns or raises.

    `asyncio.gather` leaves the others running when one fails; `TaskGroup` hides which one failed.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        for task in tasks:
            await task
    finally:
        await _end(tasks)
    return [task.result() for task in tasks]


async def _end(tasks: "list[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    if not all(task.done() for task in tasks):
        await asyncio.wait(tasks)
