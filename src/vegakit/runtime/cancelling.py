"""Several works at once, none of which outlives the wait for them."""

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, TypeVar

__all__ = ["all_of", "end_all", "first_of", "to_its_end"]

T = TypeVar("T")


async def first_of(*works: Coroutine[Any, Any, object]) -> None:
    """Until the first of them is done; the others are cancelled."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_all(tasks)


async def all_of(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Runs them at once and answers in their order. Nothing runs on when this returns or raises.

    `asyncio.gather` leaves the others running when one fails; `TaskGroup` hides which one failed.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        for task in tasks:
            await task
    finally:
        await end_all(tasks)
    return [task.result() for task in tasks]


async def to_its_end(work: Awaitable[T]) -> T:
    """Waits for it even if we are cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


async def end_all(tasks: "Sequence[asyncio.Future[Any]]") -> None:
    """Also when cancelled again meanwhile: what it left running nobody would ever await."""
    for task in tasks:
        task.cancel()
    cancelled = None
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as again:
            cancelled = again
    for task in tasks:
        if not task.cancelled():
            task.exception()  # seen, so that asyncio does not report it as lost
    if cancelled is not None:
        raise cancelled
