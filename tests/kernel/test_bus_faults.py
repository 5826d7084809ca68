"""Faults planted in the bus and in commands, each found by the test that holds what it breaks."""

import logging
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from _pytest.outcomes import Failed

from tests import patience
from tests.kernel import test_bus, test_commands
from tests.store import test_bus as test_store_bus
from tests.store.redis_server import redis_server
from vegakit.kernel import bus_calls, commands, kernel
from vegakit.ports import KeptMessage, TopicMessage, TopicPage
from vegakit.store import RedisBus, bus
from vegakit.store.redis import bus as redis_bus


def nothing(*_: object, **__: object) -> None:
    """What should have been done is not."""


async def nobody(*_: object) -> None:
    """What should go on does not even begin."""


def untold(kept: list[KeptMessage], after: int) -> TopicPage:
    """A reader hears nothing of what it missed."""
    messages = tuple(TopicMessage(one.number, one.at_ms, one.body) for one in kept)
    return TopicPage(messages, messages[-1].number if messages else after)


def anybody(tables: object, key: str, _holder: str, _attempt: int) -> object:
    return commands.need(tables, key)  # pyright: ignore[reportArgumentType]


async def in_folder(test: Callable[[Path], Awaitable[None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        await test(Path(folder))


async def with_redis(test: Callable[..., Awaitable[None]]) -> None:
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as server:
        await test("redis", server)


async def told(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        await test_bus.test_a_redis_tells_servers_of_each_others_changes(folder, patch)


class Log(logging.Handler):
    """The messages of a logger, as the fixture of pytest shows them."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += f"{record.getMessage()}\n"

    def set_level(self, level: int, logger: str) -> None:
        logging.getLogger(logger).setLevel(level)


async def killed(folder: Path) -> None:
    log: Any = Log()
    logger = logging.getLogger("vegakit")
    logger.addHandler(log)
    try:
        await test_bus.test_a_redis_that_fails_loses_and_doubles_no_command(
            test_bus._killed, folder, log
        )
    finally:
        logger.removeHandler(log)


FAULTS: dict[str, tuple[object, str, object, Callable[[], Awaitable[None]]]] = {
    "anybody may answer a command": (
        commands,
        "_held",
        anybody,
        test_commands.test_a_handler_that_is_gone_is_followed_and_cannot_answer_any_more,
    ),
    "a command that is there is sent again": (
        commands,
        "_found",
        nothing,
        test_commands.test_what_is_asked_again_is_done_once,
    ),
    "a command never expires": (
        kernel,
        "_DUE",
        (),
        test_commands.test_a_handler_that_is_gone_is_followed_and_cannot_answer_any_more,
    ),
    "messages may have any size": (
        commands,
        "check_size",
        nothing,
        test_bus.test_a_message_and_the_number_of_topics_are_bounded,
    ),
    "a slow reader is not told": (
        bus,
        "topic_page",
        untold,
        test_bus.test_a_slow_subscriber_holds_up_nobody_and_is_told_what_it_missed,
    ),
    "a bell wakes nobody": (
        bus.Bells,
        "ring",
        nothing,
        test_commands.test_a_taker_waits_and_looks_only_when_something_changed,
    ),
    "servers are not told": (RedisBus, "_tell", nobody, lambda: in_folder(told)),
    "a lost history is not told": (
        redis_bus,
        "topic_page",
        untold,
        lambda: in_folder(test_store_bus.test_a_flushed_history_is_told_and_no_number_comes_again),
    ),
    "a restarted server goes on counting": (
        redis_bus,
        "_PUBLISH",
        redis_bus._PUBLISH.replace("tail[2][4] == start", "true"),
        lambda: in_folder(
            test_store_bus.test_a_server_that_forgot_the_last_messages_begins_a_new_base
        ),
    ),
    "names are not quoted": (
        redis_bus,
        "quote",
        lambda text, safe: text,
        lambda: with_redis(test_store_bus.test_topics_and_tenants_are_apart),
    ),
    "subscribers end with the bus": (
        bus_calls,
        "BusError",
        ZeroDivisionError,
        lambda: in_folder(killed),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, broken, test = FAULTS[fault]
    await test()
    for module in (test_bus, test_commands, test_store_bus, patience):
        monkeypatch.setattr(module, "PATIENCE_S", 3.0)
    monkeypatch.setattr(place, name, broken)
    with pytest.raises((AssertionError, Failed, TimeoutError)):
        await test()
