"""Undo on the screen of `vega code`: of the session that is shown, beside others in its folder."""

from pathlib import Path
from typing import Any

from tests.cli.terminal.test_screen import ends, notes, opened, say, screen_text
from tests.patience import until
from tests.sage.scene import calls, scene
from vegakit.cli.terminal.app import CodeApp
from vegakit.cli.terminal.screens import ConfirmScreen, PickScreen
from vegakit.cli.terminal.state import PromptItem
from vegakit.config import load
from vegakit.sage import EndReason, SageAgent, open_undo, undo_turns, undoable_turns


def write(path: str) -> Any:
    return calls(("write", {"path": path, "content": "new\n"}))


def writes(request: Any) -> Any:
    """A file by the name of each prompt."""
    last = request.body["messages"][-1]
    return "Done." if "tool_result" in str(last) else write(str(last["content"][-1]["text"])[-3:])


def prompts(app: CodeApp) -> list[str]:
    return [item.text for item in app.state.items if isinstance(item, PromptItem)]


async def taken_back(app: CodeApp, pilot: Any, command: str) -> str:
    """What the page shows, and yes."""
    await say(pilot, command)
    await until(lambda: isinstance(app.screen, ConfirmScreen))
    page = app.screen
    assert isinstance(page, ConfirmScreen)
    lines = page.made(80)
    shown = "\n".join("".join(part.text for part in line) for line in lines)
    many = len(notes(app))
    await pilot.press("y")
    await until(lambda: any("Undone" in one for one in notes(app)[-1:]) or len(notes(app)) < many)
    return shown


async def test_undo_is_of_the_session_on_the_screen(tmp_path: Path) -> None:
    """An idle session beside it neither stops its undo nor loses a turn by it."""
    with scene(tmp_path, writes) as it, it.inside():
        async with SageAgent(session="other", budget="$1") as other:
            [event async for event in other.turn("aaa")]
            async with opened(it) as (app, pilot):
                for many, name in enumerate(("bbb", "ccc", "ddd"), 1):
                    await say(pilot, name)
                    await until(lambda many=many: len(ends(app)) == many)
                [event async for event in other.turn("eee")]
                spent = app.state.money.spent
                shown = await taken_back(app, pilot, "/undo")
                assert "turn 3  1 path" in shown
                assert app.state.money.spent == spent  # it was, whatever was taken back
                assert {path.name for path in it.folder.iterdir()} >= {"aaa", "bbb", "ccc", "eee"}
                assert not (it.folder / "ddd").exists()
                shown = await taken_back(app, pilot, "/rewind 0")
                assert "turn 1 " in shown
                assert "aaa" not in shown
                await until(lambda: not prompts(app))
                await say(pilot, "/undo")
                await until(lambda: any("no turn of this session" in one for one in notes(app)))
                await say(pilot, "/redo")
                await until(lambda: prompts(app) == ["bbb", "ccc"])
            assert {one.name for one in it.folder.iterdir()} == {"a.py", "aaa", "bbb", "ccc", "eee"}
            [event async for event in other.turn("fff")]
            assert len(await undoable_turns(session="other")) == 3


async def test_a_turn_beside_another_that_works_says_that_it_cannot_be_undone(
    tmp_path: Path,
) -> None:
    """And the undo of an earlier turn says that what this one wrote stays."""
    with scene(tmp_path, writes) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "aaa")
            await until(lambda: ends(app) == [EndReason.DONE])
            with open_undo(it.folder, load(directory=it.folder).data_path):
                await say(pilot, "bbb")
                await until(lambda: len(ends(app)) == 2)
            await until(lambda: "/undo cannot take this turn back" in screen_text(app))
            shown = await taken_back(app, pilot, "/undo")
            assert "turn 2  bbb" in shown
            assert "STAYS" in shown
            assert (it.folder / "bbb").exists()
            assert not (it.folder / "aaa").exists()


async def test_a_session_whose_turns_were_taken_back_elsewhere_is_shown_as_it_is(
    tmp_path: Path,
) -> None:
    """The prompt that was typed meanwhile is not sent, and not lost."""
    with scene(tmp_path, writes) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "aaa")
            await until(lambda: ends(app) == [EndReason.DONE])
            await undo_turns()
            await say(pilot, "bbb")
            await until(lambda: any("taken back elsewhere" in one for one in notes(app)))
            assert prompts(app) == []
            assert app.prompt.text == "bbb"
            await pilot.press("enter")
            await until(lambda: ends(app) == [EndReason.DONE])
            assert "aaa" not in str(it.bodies[-1]["messages"])


# Sessions of the list, and their names.


async def test_a_session_of_the_list_goes_on_with_its_own_budget(tmp_path: Path) -> None:
    """Also from a screen that was begun with another one."""
    with scene(tmp_path, writes) as it, it.inside():
        async with SageAgent(session="earlier", budget="$1", mode="plan") as earlier:
            run = (await earlier.opened()).run
        async with opened(it, budget="$0.12") as (app, pilot):
            await say(pilot, "/sessions")
            await until(lambda: isinstance(app.screen, PickScreen))
            await pilot.press(*"earlier", "enter")
            await until(lambda: app.state.run == run or notes(app))
            assert not any("budget already" in one for one in notes(app))
            assert (app.state.mode, app.state.money.at_most) == ("plan", 1_000_000_000)


async def test_a_fork_is_renamed_as_often_as_it_is_typed(tmp_path: Path) -> None:
    """It says so, one after the other, and the list of the same screen has the new name."""
    with scene(tmp_path, writes) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "aaa")
            await until(lambda: ends(app) == [EndReason.DONE])
            first = app.driver
            await say(pilot, "/fork")
            await until(lambda: app.driver is not first)
            await say(pilot, "/rename one")
            await say(pilot, "/rename two")
            named = [f"this session is named {name} now" for name in ("one", "two")]
            await until(lambda: notes(app)[-2:] == named)
            assert app.state.name == "two"
