"""A program asks a person: the question waits in its history, whoever dies meanwhile."""

import asyncio
import secrets
from pathlib import Path
from typing import Any

import pytest
from campaigns.dataflow_worker import Workers

from tests.durable.bodies import COUNTER, asked, buyer
from tests.durable.stage import stage, until
from vegakit.control import Question
from vegakit.durable import ProgramHandle, connect
from vegakit.errors import UserError
from vegakit.host import Reducer


def bodies() -> list[Any]:
    return [Reducer("buyer", buyer)]


def ask(program: ProgramHandle, **question: Any) -> "asyncio.Future[Any]":
    return asyncio.ensure_future(program.ask("buyer", {"open": False, **question}))


async def test_a_person_allows(temporal: str, tmp_path: Path) -> None:
    """Who it is must be said; an answer counts once."""
    async with stage(temporal, tmp_path, bodies()) as here:
        program = await here.start()
        await program.spawn("buyer")
        asking = ask(program, question="Buy it?")
        question: Question = await until(lambda: asked(program))
        assert (question.text, question.process, question.permits) == ("Buy it?", "buyer", True)
        with pytest.raises(UserError, match="by= a name"):
            await program.answer(question.id, True, by="")
        with pytest.raises(UserError, match="wants yes or no"):
            await program.answer(question.id, "perhaps", by="ada")
        await program.answer(question.id, "yes", by="ada", action=question.action)
        assert await asking is True
        assert await program.interrupts() == []
        with pytest.raises(UserError, match="it is asked once"):
            await program.answer(question.id, False, by="eve")
        await program.stop()


async def test_nobody_answers(temporal: str, tmp_path: Path) -> None:
    """Silence permits nothing, and says nothing."""
    async with stage(temporal, tmp_path, bodies()) as here:
        program = await here.start()
        await program.spawn("buyer")
        assert await ask(program, question="Buy it?", timeout_ms=200) is False
        assert await ask(program, question="Which?", open=True, timeout_ms=200) is None
        await program.stop()


async def test_a_question_whose_asker_ends_is_withdrawn(temporal: str, tmp_path: Path) -> None:
    """Nobody can answer it any more."""
    async with stage(temporal, tmp_path, bodies()) as here:
        program = await here.start()
        await program.spawn("buyer")
        asking = ask(program, question="Buy it?")
        question: Question = await until(lambda: asked(program))
        await program.kill("buyer", tree=True)
        await asyncio.wait([asking])
        assert asking.exception() is not None
        assert await program.interrupts() == []
        with pytest.raises(UserError):
            await program.answer(question.id, True, by="ada")
        await program.stop()


async def test_a_question_moves_to_the_next_run(temporal: str, tmp_path: Path) -> None:
    """Under its id and with its time; the answer finds it there."""
    async with stage(temporal, tmp_path, [*bodies(), COUNTER]) as here:
        program = await here.start(longest=30)
        for body in ("buyer", "counter"):
            await program.spawn(body)
        asking = ask(program, question="Which?", open=True)
        before: Question = await until(lambda: asked(program))
        for _ in range(12):
            await program.ask("counter", "more")
        assert len(await here.histories()) > 1
        assert await asked(program) == before
        await program.answer(before.id, "the red one", by="ada")
        assert await asking == "the red one"
        await program.stop()


@pytest.mark.parametrize("answered_meanwhile", [True, False])
async def test_a_worker_dies_while_a_person_thinks(
    temporal: str, tmp_path: Path, answered_meanwhile: bool
) -> None:
    """The answer is given to the next worker, or waits for it."""
    queue = f"questions-{secrets.token_hex(4)}"
    program = await (await connect(temporal, queue=queue)).start_program()
    workers = Workers(queue, temporal, tmp_path, 1_000, bodies)
    await program.spawn("buyer")
    asking = ask(program, question="Which?", open=True)
    question: Question = await until(lambda: asked(program))
    workers.end()
    red = program.answer(question.id, "red", by="ada")
    answering = asyncio.ensure_future(red) if answered_meanwhile else red
    workers = Workers(queue, temporal, tmp_path, 1_000, bodies)
    try:
        if not answered_meanwhile:
            assert await until(lambda: asked(program)) == question
        await answering
        assert await asking == "red"
        await program.stop()
    finally:
        workers.end()
