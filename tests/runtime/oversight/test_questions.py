"""Questions of a running program: stored before they are shown, answered once, outliving it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.oversight.desk import next_question
from vegakit.control import ControlClient, Question
from vegakit.control.sockets import find
from vegakit.errors import UserError
from vegakit.host import Reducer
from vegakit.ids import Digest
from vegakit.policy import InterruptKind
from vegakit.program import AskPerson, DeferReply, Respond, ResultMessage, Returned
from vegakit.sdk import ControlServer, Runtime
from vegakit.store import MemoryStore, SqliteJournal
from vegakit.testing import FakeClock

HOUR_MS = 3_600_000
KEY = "sk-ant-api03-" + "x" * 40


class CutOffError(Exception):
    pass


def clerk(state: Any, message: Any) -> tuple[Any, list[Any]]:
    """Asks a person what it is asked, and answers with what it hears."""
    if isinstance(message, ResultMessage):
        outcome = message.outcome
        said = outcome.value if isinstance(outcome, Returned) else outcome.error
        return state, [Respond(said, to=message.ask)]
    kind, question = message
    asks = AskPerson(question, question, InterruptKind(kind), HOUR_MS)
    return state, [DeferReply(question), asks]


CLERK = Reducer("clerk", clerk)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("kind", "answer", "heard"),
    [
        ("confirmation", True, True),
        ("confirmation", "yes", True),
        ("confirmation", False, False),
        ("confirmation", "no, not today", False),
        ("clarification", "main", "main"),
        ("clarification", "yes", "yes"),
        ("clarification", False, "no"),
    ],
)
async def test_a_person_answers(kind: str, answer: bool | str, heard: object) -> None:
    """Yes and no where leave is wanted, words elsewhere."""
    async with Runtime() as rt:
        waiting = rt.spawn(CLERK).send([kind, "which?"])
        question = await next_question(rt)
        assert (question.process, question.text, question.kind) == ("clerk", "which?", kind)
        await rt.answer(question.id, answer)
        assert await waiting == heard
        assert rt.interrupts() == []


async def test_silence_declines() -> None:
    """At the millisecond, not before."""
    clock = FakeClock()
    async with Runtime(clock=clock) as rt:
        waiting = rt.spawn(CLERK).send(["confirmation", "deploy?"])
        question = await next_question(rt)
        assert question.expires_ms == clock.now() + HOUR_MS
        clock.advance(HOUR_MS - 1)
        await settle()
        assert not waiting.done()
        clock.advance(1)
        with pytest.raises(UserError, match="its time is over"):
            await rt.answer(question.id, True)
        assert await waiting is False


async def test_an_answer_is_final() -> None:
    """The second one is refused, and so is one to what is not asked."""
    async with Runtime() as rt:
        waiting = rt.spawn(CLERK).send(["confirmation", "deploy?"])
        question = await next_question(rt)
        await rt.answer(question.id, False)
        with pytest.raises(UserError, match="asked once"):
            await rt.answer(question.id, True)
        with pytest.raises(UserError, match="no question 'ffff"):
            await rt.answer("ffff", True)
        assert await waiting is False


@pytest.mark.parametrize("answer", ["maybe", "yes but not on Friday", ""])
async def test_leave_is_given_by_yes_and_nothing_else(answer: str) -> None:
    """What is not understood changes nothing."""
    async with Runtime() as rt:
        waiting = rt.spawn(CLERK).send(["confirmation", "deploy?"])
        question = await next_question(rt)
        with pytest.raises(UserError, match="wants yes or no"):
            await rt.answer(question.id, answer)
        assert rt.interrupts() == [question]
        waiting.cancel()


async def test_a_program_does_not_answer_itself() -> None:
    """Neither does another process of it."""

    async def friend(question: str) -> str:
        try:
            await rt.answer(question, True, by="ann")
        except UserError as refused:
            return str(refused)
        return "answered"

    async with Runtime() as rt:
        rt.spawn(CLERK).tell(["confirmation", "deploy?"])
        question = await next_question(rt)
        assert "let a person type" in await rt.spawn(friend).ask(question.id)
        assert rt.interrupts() == [question]


async def test_a_question_is_stored_before_it_is_shown() -> None:
    """Or one that a person saw could be forgotten."""
    seen: list[bytes] = []

    class Watched(MemoryStore):
        async def put(self, kind: str, key: str, value: bytes, *, expected: int) -> bool:
            assert rt.approvals.listeners
            seen.append(value if not shown else b"too late")
            return await super().put(kind, key, value, expected=expected)

    shown: list[Question] = []
    async with Runtime(store=Watched()) as rt:
        rt.on(Question, shown.append)
        waiting = rt.spawn(CLERK).send(["confirmation", "deploy?"])
        await next_question(rt)
        assert b"deploy?" in seen[0]
        waiting.cancel()


async def test_a_question_is_withdrawn_with_the_life_that_asked() -> None:
    """An answer that comes afterwards is refused."""
    async with Runtime() as rt:
        process = rt.spawn(CLERK)
        process.tell(["confirmation", "deploy?"])
        question = await next_question(rt)
        await process.kill()
        await settle()
        assert rt.interrupts() == []
        with pytest.raises(UserError, match="asked once"):
            await rt.answer(question.id, True)


async def test_a_question_is_withdrawn_while_it_is_stored() -> None:
    """Who asked may be gone before it was ever shown."""
    writing, go_on = asyncio.Event(), asyncio.Event()

    class Slow(MemoryStore):
        async def put(self, kind: str, key: str, value: bytes, *, expected: int) -> bool:
            writing.set()
            await go_on.wait()
            return await super().put(kind, key, value, expected=expected)

    async with Runtime(store=Slow()) as rt:
        process = rt.spawn(CLERK)
        process.tell(["confirmation", "deploy?"])
        await writing.wait()
        process.exit("killed")
        await settle()
        go_on.set()
        await settle()
        assert rt.interrupts() == []


async def test_a_question_outlives_its_runtime(tmp_path: Path) -> None:
    """The same id, the same time limit; what was answered is not asked again."""
    clock, path = FakeClock(), tmp_path / "run.db"

    async def life(answer: bool | None) -> Question | object:
        async with Runtime(journal=path, clock=clock) as rt:
            waiting = rt.spawn(CLERK).send(["confirmation", "deploy?"])
            question = await next_question(rt)
            if answer is None:
                raise CutOffError(question)
            await rt.answer(question.id, answer)
            return question, await waiting

    questions: list[Any] = []
    for _ in range(2):
        with pytest.raises(CutOffError) as cut:
            await life(None)
        questions.append(cut.value.args[0])
        clock.advance(60_000)
    question, heard = await life(True)  # pyright: ignore[reportGeneralTypeIssues]
    assert questions == [question, question]
    assert heard is True


async def test_an_answer_is_recorded(tmp_path: Path) -> None:
    """A resumed run hears it from the journal."""
    path = tmp_path / "run.db"

    async def life(*, first: bool) -> object:
        async with Runtime(journal=path) as rt:
            waiting = rt.spawn(CLERK).send(["clarification", "which branch?"])
            if first:
                await rt.answer((await next_question(rt)).id, "main")
            heard = await waiting
            if first:
                raise CutOffError
            return heard

    with pytest.raises(CutOffError):
        await life(first=True)
    assert await life(first=False) == "main"


async def test_time_goes_on_while_nothing_runs(tmp_path: Path) -> None:
    """A run that is resumed too late finds its question declined."""
    clock, path = FakeClock(), tmp_path / "run.db"

    async def life() -> object:
        async with Runtime(journal=path, clock=clock) as rt:
            waiting = rt.spawn(CLERK).send(["confirmation", "deploy?"])
            if clock.now() == began:
                await next_question(rt)
                raise CutOffError
            return await waiting

    began = clock.now()
    with pytest.raises(CutOffError):
        await life()
    clock.advance(HOUR_MS)
    assert await life() is False


async def test_a_run_that_is_over_asks_nothing(tmp_path: Path) -> None:
    """Its questions went with it."""
    path = tmp_path / "run.db"
    async with Runtime(journal=path) as rt:
        rt.spawn(CLERK).tell(["confirmation", "deploy?"])
        await next_question(rt)
    journal = SqliteJournal(path)
    assert [run.ended_ms is not None for run in await journal.runs()] == [True]
    await journal.aclose()
    async with Runtime(journal=path) as rt:
        assert rt.interrupts() == []


async def test_an_equal_question_of_another_message_is_another_one() -> None:
    """Each wants its own answer."""
    async with Runtime() as rt:
        process = rt.spawn(CLERK)
        process.tell(["confirmation", "deploy?"])
        first = await next_question(rt)
        await rt.answer(first.id, True)
        process.tell(["confirmation", "deploy?"])
        second = await next_question(rt)
        assert (first.text, first.action) == (second.text, second.action)
        assert first.id != second.id


async def test_a_person_reads_what_is_there() -> None:
    """Marks that would turn a line around are spelled out."""
    async with Runtime() as rt:
        waiting = rt.spawn(CLERK).send(["confirmation", "delete \u202etxt.a\x1b[2K"])
        assert (await next_question(rt)).text == "delete \\u202etxt.a\\u001b[2K"
        waiting.cancel()


async def test_a_person_answers_from_another_process_what_was_shown(tmp_path: Path) -> None:
    """Over the socket, all of it; an answer to another action than the one shown is refused."""
    async with Runtime(observable=ControlServer(tmp_path)) as rt:
        waiting = rt.spawn(CLERK).send(["confirmation", f"deploy with {KEY}?"])
        await next_question(rt)
        remote = ControlClient(find(None, tmp_path))
        [question] = await remote.interrupts()
        assert question.text == f"deploy with {KEY}?"
        with pytest.raises(UserError, match="not what was shown"):
            await remote.answer(question.id, "yes", action=Digest("another"))
        await remote.answer(question.id, "yes", action=question.action)
        assert await waiting is True
        with pytest.raises(UserError, match="asked once"):
            await remote.answer(question.id, "no", action=question.action)
