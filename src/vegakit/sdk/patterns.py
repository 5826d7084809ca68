"""Ways to ask more than once: side by side, one by one over a list, or again.

They run with the budget and span of the line they are written on, and leave no task running when
they return, raise or are cancelled.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from contextvars import copy_context
from functools import wraps
from typing import Any, ParamSpec, TypeVar, overload

from vegakit.concurrency import AwaitedWork, cancel_all
from vegakit.errors import BudgetExceeded, Cancelled, InvalidRuleError, LimitReached

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")

_SHOWN = 200


def _where_written(
    pattern: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Keeps the context of the call, as an ask does, wherever it is awaited."""

    @wraps(pattern)
    def called(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        context = copy_context()
        for work in args:
            if isinstance(work, AwaitedWork):
                work.hand_over()

        async def awaited() -> T:
            return await asyncio.create_task(pattern(*args, **kwargs), context=context)

        return awaited()

    return called


@overload
def race(
    *works: Awaitable[T], good: Callable[[T], bool] | None = None
) -> Coroutine[Any, Any, T]: ...
@overload
def race(*works: T, good: Callable[[T], bool] | None = None) -> T: ...
@_where_written
async def race(*works: Awaitable[T], good: Callable[[T], bool] | None = None) -> T:
    """Return the first that succeeds, and with `good` the first whose answer is good; the others
    are cancelled. If none is, raise LimitReached with the last answer; if all fail, the failure
    that came first. The other failures are its notes."""
    _check_at_least_one("works to race", len(works))
    failures: list[BaseException] = []
    answers: list[T] = []
    async with aclosing(_as_they_end(works)) as ended:
        async for work in ended:
            failure = _failure_of(work)
            if failure is not None:
                failures.append(failure)
            elif good is None or good(work.result()):
                return work.result()
            else:
                answers.append(work.result())
    raised, *others = [*([_none_was_good(answers)] if answers else []), *failures]
    for other in others:
        raised.add_note(f"another in the race: {type(other).__name__}: {other}")
    raise raised


@_where_written
async def map_all(
    ask: Callable[[S], Awaitable[T]], items: Iterable[S], concurrency: int = 8
) -> list[T]:
    """Return the answers in the order of the items, which are taken one by one as there is room.
    The first failure cancels the rest. Asks wait for money that the others hold. If a budget
    refuses one, the calls in flight end and no call begins; `answers` of the error has their
    answers by position."""
    _check_at_least_one("concurrency", concurrency)
    answers: dict[int, T] = {}
    refusals: list[BudgetExceeded] = []
    waiting = enumerate(items)

    async def work_off() -> None:
        for place, item in waiting:
            try:
                answers[place] = await ask(item)
            except BudgetExceeded as refusal:
                refusals.append(refusal)
            if refusals:
                return

    async with aclosing(_as_they_end([work_off() for _ in range(concurrency)])) as ended:
        async for worker in ended:
            failure = _failure_of(worker)
            if failure is not None:
                raise failure
    if refusals:
        refusals[0].answers = answers
        refusals[0].add_note(f"{len(answers)} answers arrived: see `answers` of this error")
        raise refusals[0]
    return [answers[place] for place in range(len(answers))]


@_where_written
async def retry_until(
    make: Callable[[], Awaitable[T]], good: Callable[[T], bool], max_attempts: int = 3
) -> T:
    """Asks anew until an answer is good. What fails is not asked again: the gate has done that."""
    _check_at_least_one("max_attempts", max_attempts)
    answers: list[T] = []
    for _ in range(max_attempts):
        answer = await make()
        if good(answer):
            return answer
        answers.append(answer)
    raise _none_was_good(answers, "raise max_attempts, ")


def _none_was_good(answers: Sequence[object], advice: str = "") -> LimitReached:
    return LimitReached(
        f"none of {len(answers)} answers was good; the last was {str(answers[-1])[:_SHOWN]!r}; "
        f"{advice}say in the prompt what is wanted, or accept more"
    )


async def _as_they_end(works: Iterable[Awaitable[T]]) -> AsyncGenerator[asyncio.Future[T]]:
    tasks: list[asyncio.Future[T]] = []
    try:
        tasks += map(asyncio.ensure_future, works)
        left = set(tasks)
        while left:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for task in filter(done.__contains__, tasks):
                yield task
    finally:
        await cancel_all(tasks)


def _failure_of(task: "asyncio.Future[Any]") -> BaseException | None:
    """Return how a task failed. One that somebody else cancelled has failed too; it must not look
    as if we were cancelled."""
    if task.cancelled():
        return Cancelled("it was cancelled before it answered; see who cancelled it, or ask again")
    return task.exception()


def _check_at_least_one(what: str, number: int) -> None:
    if number < 1:
        raise InvalidRuleError(f"{what}: expected at least 1, got {number}; give one or more")
