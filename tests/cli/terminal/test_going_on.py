"""What a session that goes on has on the screen of `vega code`: the question that was open, the
conversation, and what was typed while it opened."""

import asyncio
from contextlib import aclosing
from pathlib import Path

from tests.cli.terminal.test_screen import (
    EDIT,
    answer,
    ends,
    notes,
    opened,
    question_on,
    say,
    text_of,
)
from tests.cli.terminal.test_taking_back import prompts
from tests.patience import until
from tests.sage.scene import calls, scene
from vegakit.cli.terminal.state import ToolItem, ToolState
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
        agent = SageAgent(
            it.folder,
            session="s",
            mode="ask",
            budget="$2",
            on_question=lambda _, one: asked.append(one.id),
        )
        async with agent:
            turn = asyncio.create_task(heard(agent))
            await until(lambda: asked)
            agent.runtime.approvals.questions.keep_open()  # as whoever is killed leaves it
            turn.cancel()
            await asyncio.wait({turn})
        async with opened(it, resume="s", budget=None) as (app, pilot):
            assert (await answer(app, pilot, "y")).id == asked[0]
            await until(lambda: ends(app) == [EndReason.DONE])
        assert (it.folder / "a.py").read_text() == "x = 2\n"


async def test_a_question_that_was_open_when_the_screen_was_left_is_asked_again(
    tmp_path: Path,
) -> None:
    """Nobody had said yes, so it is known that it was not done."""
    with scene(tmp_path, [calls(EDIT), "Done."]) as it, it.inside():
        async with opened(it, session="s", mode="ask") as (app, pilot):
            await say(pilot, "fix it")
            await question_on(app)
        async with opened(it, resume="s", budget=None) as (app, pilot):
            await answer(app, pilot, "y")
            await until(lambda: ends(app) == [EndReason.DONE])
            (tool,) = [one for one in app.state.items if isinstance(one, ToolItem)]
            assert tool.state is ToolState.DONE
        assert (it.folder / "a.py").read_text() == "x = 2\n"


async def test_a_question_of_a_turn_that_was_stopped_is_not_asked_again(tmp_path: Path) -> None:
    with scene(tmp_path, [calls(EDIT), "Done."]) as it, it.inside():
        async with opened(it, session="s", mode="ask") as (app, pilot):
            await say(pilot, "fix it")
            await question_on(app)
            await pilot.press("escape")
            await until(lambda: ends(app) == [EndReason.INTERRUPTED])
        async with opened(it, resume="s", budget=None) as (app, pilot):
            await until(lambda: ends(app) == [EndReason.INTERRUPTED])
            assert not app.state.waiting
            assert not app.state.is_working


# How it opens.


async def test_a_fork_opens_with_the_conversation_of_the_other(tmp_path: Path) -> None:
    with scene(tmp_path, "Yes.") as it, it.inside():
        async with SageAgent(session="s", budget="$1") as agent:
            [event async for event in agent.turn("the first prompt")]
        async with opened(it, fork="s") as (app, _):
            await until(lambda: prompts(app) == ["the first prompt"])
            assert app.state.name != "s"
            assert text_of(app) == "Yes."


async def test_a_budget_that_the_settings_cut_is_told(tmp_path: Path) -> None:
    with scene(tmp_path, "Yes.") as it, it.inside():
        async with opened(it, budget="$50") as (app, _):
            told = "at most $10.00 (your settings allow no more; --budget is $50)"
            await until(lambda: told in notes(app))
        async with opened(it, budget="$2") as (app, _):
            await until(lambda: app.state.money.at_most)
            assert not any("settings" in one for one in notes(app))


# Pastes.


async def test_the_mark_of_a_paste_is_never_torn(tmp_path: Path) -> None:
    """It goes as one character, and what is typed inside of it stands behind it."""
    pasted = "a line\n" * 300
    with scene(tmp_path, "Yes.") as it, it.inside():
        async with opened(it) as (app, _):
            prompt, mark = app.prompt, app.prompt._mark(pasted)  # pyright: ignore[reportPrivateUsage]
            prompt.insert(f"x{mark}y")
            prompt.move_cursor((0, 5))
            for letter in "ab":
                prompt._replace_via_keyboard(letter, *prompt.selection)  # pyright: ignore[reportPrivateUsage]
            assert prompt.text == f"x{mark}aby"
            assert prompt.whole() == f"x{pasted}aby"
            prompt.move_cursor((0, 1))
            prompt.action_delete_right()
            assert prompt.text == "xaby"
            prompt.action_undo()
            assert prompt.whole() == f"x{pasted}aby"
            prompt.move_cursor((0, 1 + len(mark)))
            prompt.action_delete_left()
            assert prompt.whole() == "xaby"
