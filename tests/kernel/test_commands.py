"""Commands: one handler each, one answer each, none lost and none for ever."""

import asyncio

from tests.kernel.kernels import ANN, BOB, OTHER, Bench, refused
from tests.patience import PATIENCE_S, turns, until
from vegakit.concurrency import SteadyClock
from vegakit.control import (
    AnswerCommandRequest,
    CommandIdRequest,
    CommandRecord,
    CommandStatus,
    QueryRequest,
    RefusalCode,
    RenewCommandRequest,
    SendRequest,
    TakeCommandRequest,
)
from vegakit.kernel import Kernel, TenantKernel, commands
from vegakit.store import open_tenants


async def taken(
    kernel: TenantKernel, topic: str = "t", holder: str = "w", lease_ms: int = 1_000
) -> CommandRecord | None:
    return (await kernel.take_command(TakeCommandRequest(topic, holder, lease_ms))).command


async def had(kernel: TenantKernel, topic: str = "t", holder: str = "w") -> CommandRecord:
    command = await taken(kernel, topic, holder)
    assert command is not None
    return command


def said(command: CommandRecord, answer: object = None, error: str = "") -> AnswerCommandRequest:
    return AnswerCommandRequest(command.id, command.holder, command.attempt, answer, error)


async def test_a_command_goes_to_one_handler_and_its_outcome_is_kept() -> None:
    bench = Bench()
    sent = await bench.of().send(SendRequest("t", {"x": 1}, id="c"))
    assert (sent.status, sent.by, sent.attempt) == (CommandStatus.WAITING, "ann", 0)
    assert await taken(bench.of(), "other topic") is None
    command = await had(bench.of(BOB))
    assert (command.id, command.body, command.attempt) == ("c", {"x": 1}, 1)
    assert await taken(bench.of()) is None
    done = await bench.of(BOB).answer_command(said(command, "ok"))
    assert (done.status, done.answer, done.ended_ms) == (
        CommandStatus.DONE,
        "ok",
        bench.clock.now(),
    )
    assert await bench.of().get_command(CommandIdRequest("c")) == done
    assert await taken(bench.of()) is None


async def test_what_is_asked_again_is_done_once() -> None:
    bench = Bench()
    first = await bench.of().send(SendRequest("t", 1, id="c"))
    assert await bench.of().send(SendRequest("t", 1, id="c")) == first
    for other in (SendRequest("t", 2, id="c"), SendRequest("u", 1, id="c")):
        with refused(RefusalCode.CONFLICT, "is there already, with another"):
            await bench.of().send(other)
    with refused(RefusalCode.CONFLICT, "is there already, with another"):
        await bench.of().query(QueryRequest("t", 1, id="c"))
    command = await had(bench.of())
    done = await bench.of().answer_command(said(command, [1]))
    assert await bench.of().answer_command(said(command, [1])) == done
    with refused(RefusalCode.CONFLICT, "no longer holds"):
        await bench.of().answer_command(said(command, [2]))
    assert await bench.of().send(SendRequest("t", 1, id="c")) == done
    assert await taken(bench.of()) is None


async def test_a_handler_that_is_gone_is_followed_and_cannot_answer_any_more() -> None:
    bench = Bench()
    await bench.of().send(SendRequest("t", id="c", max_attempts=2))
    first = await had(bench.of())
    bench.clock.advance(999)
    await bench.of().renew_command(RenewCommandRequest("c", "w", 1, 1_000))
    bench.clock.advance(999)
    assert await bench.kernel().sweep() == 0
    bench.clock.advance(1)
    assert await bench.kernel().sweep() == 1
    second = await had(bench.of())
    assert (second.id, second.holder, second.attempt) == ("c", "w", 2)
    for late in (said(first), AnswerCommandRequest("c", "another", 2)):
        with refused(RefusalCode.CONFLICT, "no longer holds"):
            await bench.of().answer_command(late)
    with refused(RefusalCode.CONFLICT, "no longer holds"):
        await bench.of().renew_command(RenewCommandRequest("c", "w", 1))
    bench.clock.advance(1_000)
    assert await bench.kernel().sweep() == 1
    failed = await bench.of().get_command(CommandIdRequest("c"))
    assert failed.status is CommandStatus.FAILED
    assert "2 times" in failed.error
    assert await taken(bench.of()) is None


async def test_with_one_attempt_no_two_are_ever_handed_it() -> None:
    bench = Bench()
    await bench.of().send(SendRequest("t", id="c", max_attempts=1))
    await had(bench.of())
    bench.clock.advance(1_000)
    await bench.kernel().sweep()
    assert await taken(bench.of()) is None


async def test_a_handler_that_is_late_may_answer_while_nobody_else_has_it() -> None:
    bench = Bench()
    await bench.of().send(SendRequest("t", id="c", expires_in_ms=10))
    command = await had(bench.of())
    bench.clock.advance(5_000)
    done = await bench.of().answer_command(said(command, error="it does not work"))
    assert (done.status, done.error) == (CommandStatus.FAILED, "it does not work")


async def test_what_nobody_takes_expires_whether_swept_or_not() -> None:
    bench = Bench()
    await bench.of().send(SendRequest("t", id="swept", expires_in_ms=10))
    await bench.of().send(SendRequest("u", id="not swept", expires_in_ms=10))
    await bench.of().send(SendRequest("u", id="later", expires_in_ms=11))
    bench.clock.advance(9)
    assert await bench.kernel().sweep() == 0
    bench.clock.advance(1)
    assert (await had(bench.of(), "u")).id == "later"
    assert await bench.kernel().sweep() == 1
    for key in ("swept", "not swept"):
        expired = await bench.of().get_command(CommandIdRequest(key))
        assert expired.status is CommandStatus.EXPIRED
    bench.clock.advance(commands.KEEP_MS)
    await bench.kernel().sweep()
    with refused(RefusalCode.NOT_FOUND, "no command 'swept'"):
        await bench.of().get_command(CommandIdRequest("swept"))


async def test_the_one_whose_time_ends_first_goes_first() -> None:
    bench = Bench()
    await bench.of().send(SendRequest("t", id="a", expires_in_ms=300))
    await bench.of().send(SendRequest("t", id="b", expires_in_ms=100))
    bench.clock.advance(1)
    await bench.of().send(SendRequest("t", id="c", expires_in_ms=300))
    assert [(await had(bench.of())).id for _ in "123"] == ["b", "a", "c"]


async def test_tenants_do_not_meet_and_commands_are_bounded() -> None:
    bench = Bench()
    await bench.of().send(SendRequest("t", id="c"))
    assert await taken(bench.of(OTHER)) is None
    with refused(RefusalCode.NOT_FOUND):
        await bench.of(OTHER).get_command(CommandIdRequest("c"))
    large = "x" * commands.MESSAGE_BYTES
    with refused(RefusalCode.INVALID, "65538 bytes"):
        await bench.of().send(SendRequest("t", large))
    with refused(RefusalCode.INVALID, "the answer"):
        await bench.of().answer_command(said(await had(bench.of()), large))
    commands._MOST_UNHANDLED, before = 3, commands._MOST_UNHANDLED
    try:
        await bench.of().send(SendRequest("t"))
        await bench.of().send(SendRequest("t"))
        with refused(RefusalCode.EXHAUSTED, "not handled yet"):
            await bench.of().send(SendRequest("t"))
        assert await bench.of(OTHER).send(SendRequest("t"))
        await bench.of().answer_command(said(await had(bench.of())))
        await bench.of().send(SendRequest("t"))
    finally:
        commands._MOST_UNHANDLED = before


async def test_a_query_waits_for_its_one_answer() -> None:
    kernel = Kernel(open_tenants(":memory:"), SteadyClock())
    asker, handler = TenantKernel(kernel, ANN), TenantKernel(kernel, BOB)

    async def handle() -> None:
        for _ in range(3):
            found = await handler.take_command(TakeCommandRequest("t", "w", wait_ms=60_000))
            assert found.command is not None
            await handler.answer_command(said(found.command, found.command.body * 2))

    handling = asyncio.create_task(handle())
    asked = [asker.query(QueryRequest("t", n, id=f"q{n}", wait_ms=60_000)) for n in range(3)]
    answers = await asyncio.wait_for(asyncio.gather(*asked), PATIENCE_S)
    assert [one.answer for one in answers] == [0, 2, 4]
    await handling
    again = await asker.query(QueryRequest("t", 2, id="q2", wait_ms=1))
    assert again == answers[2]


async def test_a_query_ends_at_its_deadline_and_takes_no_answer_after_it() -> None:
    bench = Bench()
    kernel = bench.of()
    asked = asyncio.create_task(kernel.query(QueryRequest("t", id="q", wait_ms=500)))
    await until(lambda: bench.clock._sleepers)
    command = await had(bench.of(), holder="slow")
    for _ in range(10):
        bench.clock.advance(49)
        await turns(20)
    assert not asked.done()
    # Nobody sweeps: whoever asked, and whoever answers, see for themselves.
    bench.clock.advance(10)
    with refused(RefusalCode.CONFLICT, "its time is over"):
        await bench.of().answer_command(said(command, "too late"))
    reply = await asyncio.wait_for(asked, PATIENCE_S)
    assert (reply.status, reply.answer) == (CommandStatus.EXPIRED, None)
    assert await taken(bench.of()) is None


async def test_a_taker_waits_and_looks_only_when_something_changed() -> None:
    bench = Bench()
    kernel = bench.kernel()
    taker = TenantKernel(kernel, BOB)
    waiting = asyncio.create_task(taker.take_command(TakeCommandRequest("t", "w", wait_ms=60_000)))
    await until(lambda: bench.clock._sleepers)
    await TenantKernel(kernel, ANN).send(SendRequest("t", id="c"))
    # The clock stands still: only the bell can have told.
    found = await asyncio.wait_for(waiting, PATIENCE_S)
    assert found.command is not None
    nobody = asyncio.create_task(taker.take_command(TakeCommandRequest("t", "w", wait_ms=100)))
    await until(lambda: bench.clock._sleepers)
    bench.clock.advance(100)
    assert (await asyncio.wait_for(nobody, PATIENCE_S)).command is None
