"""What a session that goes on has on the screen of `vega code`: the question that was open, the
conversation, and what was typed while it opened."""

import asyncio
from contextlib import aclosing
from pathlib import Path

from tests.cli.terminal.test_screen import EDIT, ends, opened, question_on
from tests.patience import until
from tests.sage.scene import calls, scene
from vegakit.sage import EndReason, SageAgent

# Questions.


async def heard(agent: SageAgent) -> None:
    async with aclosing(agent.turn("fix it")) as events:
        async for _ in events:
            pass


async def test_a_question_that_was_open_at_a_kill_is_asked_again(tmp_path: Path) -> None:
    with scene(tmp_path, [calls(EDIT), "Done."]) as it, it.inside():
        (it.folder / "a.py").write_text("x = 1\n")
        asked: list[str] = []
        options = {"session": "s", "mode": "ask", "budget": "$2"}
        agent = SageAgent(it.folder, on_question=lambda _, one: asked.append(one.id), **options)
        async with agent:
            turn = asyncio.create_task(heard(agent))
            await until(lambda: asked)
            agent.runtime.approvals.questions.keep_open()  # as whoever is killed leaves it
            turn.cancel()
            await asyncio.wait({turn})
        async with opened(it, resume="s", budget=None) as (app, pilot):
            assert (await question_on(app)).id == asked[0]
            await pilot.press("y")
            await until(lambda: ends(app) == [EndReason.DONE])
        assert (it.folder / "a.py").read_text() == "x = 2\n"
