"""The fake clock."""

import asyncio
from collections.abc import Callable

import pytest

from vegakit.ports import Clock
from vegakit.testing import FakeClock


def test_it_moves_only_when_told() -> None:
    """Two readings are the same instant; advancing moves both hands by as much."""
    clock = FakeClock(1000)
    assert (clock.now(), clock.now(), clock.wall()) == (1000, 1000, 1000)
    clock.advance(250)
    clock.advance(0)
    assert (clock.now(), clock.wall()) == (1250, 1250)


def test_steady_time_does_not_notice_a_step_of_the_wall_clock() -> None:
    """Setting the clock back an hour moves the wall alone, and both go on from there."""
    clock = FakeClock(5_000_000)
    clock.step_wall(-3_600_000)
    clock.advance(1)
    clock.step_wall(10)
    assert (clock.now(), clock.wall()) == (5_000_001, 1_400_011)


def test_time_does_not_go_back() -> None:
    """The message names what was probably meant."""
    with pytest.raises(ValueError, match="got -1 ms, use step_wall"):
        FakeClock().advance(-1)


def test_it_is_a_clock_that_starts_at_a_real_looking_time() -> None:
    """Code that mixes up seconds and milliseconds shows."""
    clock: Clock = FakeClock()
    assert clock.now() == 1_750_000_000_000


def woken(times: list[int], act: Callable[[FakeClock, list["asyncio.Task[None]"]], None]):
    """The order in which sleepers with these times wake up while a test acts on the clock."""
    clock, order = FakeClock(0), list[int]()

    async def sleep(at_ms: int) -> None:
        await clock.wait_until(at_ms)
        order.append(at_ms)

    async def main() -> None:
        tasks = [asyncio.create_task(sleep(at_ms)) for at_ms in times]
        await settle()
        act(clock, tasks)
        await settle()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())
    assert not clock._sleepers
    return order


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_sleepers_wake_in_the_order_of_their_times_and_not_before() -> None:
    """A step to 20 ms wakes those of 10 and 20, whoever lay down first."""

    def act(clock: FakeClock, _: object) -> None:
        clock.advance(9)
        clock.advance(11)

    assert woken([21, 20, 10, 30], act) == [10, 20]


def test_a_time_that_has_come_is_not_waited_for() -> None:
    """Others get a turn first, and nothing has to advance."""

    def act(clock: FakeClock, _: object) -> None:
        assert clock.now() == 0

    assert woken([1, 0, -5], act) == [0, -5]


def test_a_cancelled_sleeper_leaves() -> None:
    """The clock forgets it and wakes the others, also when both happen at one instant."""

    def act(clock: FakeClock, tasks: list["asyncio.Task[None]"]) -> None:
        tasks[0].cancel()
        clock.advance(10)
        clock.advance(10)

    assert woken([10, 10], act) == [10]
