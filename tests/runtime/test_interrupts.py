"""Ctrl-C comes between two steps, wherever the signal does."""

import asyncio
import os
import signal
from typing import Any, cast

import pytest

from tests.hosts.conformance import SimulatedHost
from vegakit.concurrency import run_interruptibly
from vegakit.host import Driver
from vegakit.program import CancelAsk, Machine


class _Machine:
    """A machine that is interrupted in the middle of its first step."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.driver: Driver | None = None

    def step(self, event: CancelAsk, _: int) -> list[Any]:
        self.told.append(f"begins {event.ask}")
        if event.ask == "1":
            assert self.driver is not None
            self.driver.submit_between(CancelAsk("2"))
        self.told.append(f"ends {event.ask}")
        return []


async def test_a_step_is_not_interrupted_by_another() -> None:
    machine = _Machine()
    host = cast("Any", SimulatedHost)(lambda _: None)
    machine.driver = Driver(cast("Machine", machine), host, print)
    machine.driver.submit(cast("Any", CancelAsk("1")))
    await asyncio.sleep(0)
    assert machine.told == ["begins 1", "ends 1", "begins 2", "ends 2"]


def _press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_cancels_between_two_steps_and_the_second_ends() -> None:
    told: list[str] = []

    async def work() -> None:
        _press()
        told.append("step")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("cancelled")
            _press()
            told.append("step")
            await asyncio.Event().wait()

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(work())
    assert told == ["step", "cancelled", "step"]
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_not_interrupted_returns() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 3

    assert run_interruptibly(work()) == 3


def test_ctrl_c_while_the_loop_closes_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """asyncio closes the pipe of the signals before it removes their handlers."""
    before = signal.getsignal(signal.SIGTERM)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, print)
        remove = loop.remove_signal_handler

        def press_and_remove(number: int) -> bool:
            _press()
            return remove(number)

        cast("Any", loop).remove_signal_handler = press_and_remove

    try:
        with pytest.raises(KeyboardInterrupt):
            run_interruptibly(work())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capfd.readouterr().err == ""
