"""What a person stops, takes back, sums up and goes on with at the screen of `vega code`, and that
keys are carried out in the order in which they were pressed."""

from itertools import product
from pathlib import Path

import pytest
from campaigns.code_screens import strips_of
from textual.events import Key

from tests.cli.terminal.test_screen import answer, ends, notes, opened, say, text_of
from tests.patience import until
from tests.sage.scene import calls, scene
from vegakit.cli.terminal import prompt
from vegakit.cli.terminal.app import CodeApp
from vegakit.cli.terminal.draw import Canvas, lines_of, status_line
from vegakit.cli.terminal.screens import ConfirmScreen, PageScreen, PickScreen
from vegakit.cli.terminal.state import EndItem, ToolItem, ToolState
from vegakit.policy import (
    InterruptRefusal,
    InterruptStatus,
)
from vegakit.policy.approvals import _refused  # pyright: ignore[reportPrivateUsage]
from vegakit.sage import EndReason
from vegakit.testing import Break, Hang, ProviderReply

STUCK = ProviderReply("one two three", breaks=Break(2, Hang()))


def press_at_once(app: CodeApp, *keys: str) -> None:
    """Press keys as a terminal passes them that has several in one piece."""
    letters = {"backspace": "\x7f", "enter": "\r"}
    for key in keys:
        app.post_message(Key(key, letters.get(key, key if len(key) == 1 else None)))


def shown(app: CodeApp, item: object) -> str:
    lines = lines_of(item, Canvas(100))  # pyright: ignore[reportArgumentType]
    return "\n".join("".join(part.text for part in line) for line in lines)


# Keys.


@pytest.mark.parametrize("is_broken", [False, True])
async def test_keys_are_carried_out_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_broken: bool
) -> None:
    """A letter that is typed right after Backspace stays, and the one before it goes; a planted
    fault, keys as Textual takes them, is seen."""

    async def never(*_: object) -> bool:
        return False

    if is_broken:
        monkeypatch.setattr(prompt, "edited", never)
    with scene(tmp_path, "Yes.") as it, it.inside():
        async with opened(it) as (app, pilot):
            app.prompt.insert("xq")
            press_at_once(app, "backspace", "backspace", "q", "j", "left", "i")
            await pilot.pause()
            await pilot.pause()
            assert (app.prompt.text == "qij") is not is_broken


async def test_a_list_is_narrowed_before_it_is_moved_in(tmp_path: Path) -> None:
    with scene(tmp_path, "Yes.") as it, it.inside():
        async with opened(it) as (app, pilot):
            await pilot.press("ctrl+k")
            await until(lambda: isinstance(app.screen, PickScreen))
            press_at_once(app, *"modx", "backspace", "down", "enter")
            await until(lambda: app.prompt.text == "/model ")


async def test_pages_take_the_keys_of_pages(tmp_path: Path) -> None:
    """The conversation below does not move, and nothing is opened over what is open."""
    with scene(tmp_path, "Yes.") as it, it.inside():
        async with opened(it) as (app, pilot):
            await pilot.resize_terminal(80, 12)
            await pilot.press("f1")
            await until(lambda: isinstance(app.screen, PageScreen))
            before = strips_of(app)[1].text
            await pilot.press("pagedown", "f1", "ctrl+k")
            await pilot.pause()
            assert strips_of(app)[1].text != before
            assert len(app.screen_stack) == 2
            await pilot.press("escape")
            await until(lambda: len(app.screen_stack) == 1)


# Stops.


async def test_a_call_that_was_cut_off_may_have_cost_less(tmp_path: Path) -> None:
    """The screen says at most where nobody knows the bill; and a session whose turn was stopped
    does not begin to work by itself when it is opened again."""
    with scene(tmp_path, [STUCK, "Second."]) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "talk")
            await until(lambda: "one" in text_of(app))
            await pilot.press("ctrl+c")
            await until(lambda: ends(app) == [EndReason.INTERRUPTED])
            item = next(one for one in app.state.items if isinstance(one, EndItem))
            assert item.end is not None
            assert item.end.unbilled_usd > 0
            assert "at most $" in shown(app, item)
            assert "their bills are not known" in shown(app, item)
            status = "".join(part.text for part in status_line(app.state, 100, ""))
            assert "≤ $" in status
            await say(pilot, "/cost")
            await until(lambda: any(one.startswith("at most $") for one in notes(app)))
        assert len(it.bodies) == 1
        async with opened(it, resume="", budget=None) as (again, pilot):
            await until(lambda: any("goes on; at most $0." in one for one in notes(again)))
            assert ends(again) == [EndReason.INTERRUPTED]
            await say(pilot, "go on")
            await until(lambda: ends(again) == [EndReason.INTERRUPTED, EndReason.DONE])
        assert len(it.bodies) == 2
        assert "This turn was stopped" in str(it.bodies[1]["messages"])


async def test_one_command_is_stopped_and_the_turn_goes_on(tmp_path: Path) -> None:
    script = [calls(("shell", {"command": "echo begun; sleep 600"})), "Done."]
    with scene(tmp_path, script) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "/stop")
            await until(lambda: any("no command runs" in one for one in notes(app)))
            await say(pilot, "wait")
            await until(lambda: any("begun" in one.output for one in app.state.tools.values()))
            await pilot.press("ctrl+x")
            await until(lambda: ends(app) == [EndReason.DONE])
        assert "stopped by the person" in str(it.results(it.bodies[1])[-1]["content"])


# What was done.


async def test_what_a_command_changed_is_listed(tmp_path: Path) -> None:
    """Beside the conversation, and before it is taken back."""
    edit = ("edit", {"path": "./a.py", "old": "x = 1", "new": "x = 2"})
    script = [calls(edit), calls(("shell", {"command": "echo hi > made.txt"})), "Done."]
    with scene(tmp_path, script) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "make it")
            await until(lambda: ends(app) == [EndReason.DONE])
            files = {name: one.by_command for name, one in app.state.changed.items()}
            assert files == {"./a.py": False, "made.txt": True}
            await say(pilot, "/undo")
            await until(lambda: isinstance(app.screen, ConfirmScreen))
            await pilot.pause()
            rows = [one.text for one in strips_of(app)]
            listed = [" ".join(row.split()) for row in rows]
            assert "made.txt by a command" in listed
            assert "a.py +1 \u22121" in listed
            await pilot.press("n")


async def test_a_declined_call_is_told_in_words(tmp_path: Path) -> None:
    script = [calls(("shell", {"command": "make"})), "Done."]
    with scene(tmp_path, script) as it, it.inside():
        async with opened(it, mode="ask") as (app, pilot):
            await say(pilot, "build")
            await answer(app, pilot, "n")
            await pilot.press("enter")
            await until(lambda: ends(app) == [EndReason.DONE])
            item = next(one for one in app.state.items if isinstance(one, ToolItem))
            assert item.state is ToolState.REFUSED
            assert "a person declined it" in shown(app, item)
            assert "_" not in shown(app, item)


def test_no_refusal_is_a_name_of_the_code() -> None:
    class Attempt:
        tool = "shell"

    for refusal, status in product(InterruptRefusal, InterruptStatus):
        told = _refused(Attempt(), refusal, status)  # pyright: ignore[reportArgumentType]
        assert "_" not in told.reason


# Sums.


async def test_a_person_may_have_the_conversation_summed_up(tmp_path: Path) -> None:
    script = ["First answer.", "The sum of it.", "Second answer.", "Third answer."]
    with scene(tmp_path, script) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "/compact")
            await until(lambda: any("nothing was said yet" in one for one in notes(app)))
            await say(pilot, "first question")
            await until(lambda: len(ends(app)) == 1)
            await say(pilot, "/compact")
            await until(lambda: any("before your next prompt" in one for one in notes(app)))
            for number, prompt_text in enumerate(("second question", "third question")):
                await say(pilot, prompt_text)
                await until(lambda n=number: len(ends(app)) == 2 + n)
            assert any("was summed up" in one for one in notes(app))
        asked = [str(body["messages"]) for body in it.bodies]
        assert len(asked) == 4  # once, and not again for the third
        assert "The sum of it." in asked[2]
        assert "First answer." not in asked[2]
        assert "second question" in asked[2]


def test_a_budget_of_a_session_that_goes_on_is_of_all_its_turns(tmp_path: Path) -> None:
    with scene(tmp_path, "Done.") as it:
        assert it.here("-p", "a", "--budget", "$2", "--session", "s").returncode == 0
        again = it.here("-p", "b", "--resume", "s", "--budget", "$2")
        assert again.returncode == 0
        assert "at most $2.00, of which $0.0" in again.stderr
        more = it.here("-p", "c", "--resume", "s", "--budget", "$3")
        assert "at most $3.00, of which $0.0" in more.stderr
        less = it.here("-p", "d", "--resume", "s", "--budget", "$1")
        assert less.returncode != 0
        assert "may spend $3.00 in all its turns" in less.stderr
        assert "--budget '+$1'" in less.stderr


async def test_what_a_stopped_turn_did_is_shown_when_the_session_is_opened_again(
    tmp_path: Path,
) -> None:
    """The command that ran in it, and what had come of an answer."""
    run = calls(("shell", {"command": "echo began; sleep 600"}), text="I look.")
    stuck = ProviderReply("one two three", breaks=Break(2, Hang()))
    with scene(tmp_path, [run, stuck]) as it, it.inside():
        async with opened(it, session="s") as (app, pilot):
            await say(pilot, "run it")
            await until(lambda: any("began" in one.output for one in app.state.tools.values()))
            await pilot.press("escape")
            await until(lambda: ends(app) == [EndReason.INTERRUPTED])
            await say(pilot, "talk")
            await until(lambda: "one" in text_of(app))
            await pilot.press("escape")
            await until(lambda: len(ends(app)) == 2)
            said = text_of(app)
        async with opened(it, resume="s", budget=None) as (app, pilot):
            await until(lambda: len(ends(app)) == 2)
            assert text_of(app) == said
            (command,) = [one for one in app.state.items if isinstance(one, ToolItem)]
            assert (command.name, command.state) == ("shell", ToolState.STOPPED)
