"""The screen of `vega code`, driven by keys without a terminal: a real session, a provider on a
socket that answers by a script."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.events import Paste
from textual.geometry import Region
from textual.pilot import Pilot

from tests.patience import PATIENCE_S, until
from tests.sage.scene import Scene, calls, scene
from vegakit.cli.terminal.actions import Actions
from vegakit.cli.terminal.app import CodeApp
from vegakit.cli.terminal.commands import COMMANDS
from vegakit.cli.terminal.driver import SessionDriver
from vegakit.cli.terminal.screens import ConfirmScreen, PageScreen, PickScreen
from vegakit.cli.terminal.state import (
    ApprovalItem,
    ApprovalState,
    EndItem,
    NoteItem,
    PromptItem,
    TextItem,
    ToolItem,
    TurnState,
)
from vegakit.sage import EndReason, SageCost
from vegakit.testing import Break, Hang, ProviderReply

EDIT = ("edit", {"path": "a.py", "old": "x = 1", "new": "x = 2"})


@asynccontextmanager
async def opened(it: Scene, **options: Any) -> AsyncGenerator[tuple[CodeApp, Pilot[str]]]:
    """A screen whose session is open."""
    (it.folder / "a.py").write_text("x = 1\n")
    app = CodeApp(it.folder, {"budget": "$2", **options})
    async with app.run_test(size=(100, 30)) as pilot:
        await until(lambda: bool(app.state.run))
        yield app, pilot
        for driver in app.drivers:
            await driver.close()


async def say(pilot: Pilot[str], text: str) -> None:
    app = pilot.app
    assert isinstance(app, CodeApp)
    app.prompt.insert(text)
    await pilot.press("enter")


def ends(app: CodeApp) -> list[EndReason]:
    return [item.end.reason for item in app.state.items if isinstance(item, EndItem) and item.end]


def text_of(app: CodeApp) -> str:
    return "".join(item.text for item in app.state.items if isinstance(item, TextItem))


async def question_on(app: CodeApp) -> ApprovalItem:
    """Wait until a question is on the screen and takes keys."""
    await until(lambda: app.state.asked is not None and app.state.asked.shown_ms is not None)
    asked = app.state.asked
    assert asked is not None
    await until(lambda: app.driver.now() - max(asked.shown_ms or 0, app.state.last_key_ms) >= 300)
    return asked


async def answer(app: CodeApp, pilot: Pilot[str], key: str) -> ApprovalItem:
    """Press a key until it answers the question. A question that is drawn again takes no key for
    300 ms, and a busy machine may draw it again just before the key."""
    asked = await question_on(app)
    await pilot.press(key)
    while asked.state is ApprovalState.OPEN and not app.state.replying_to:
        await pilot.press("backspace")
        asked = await question_on(app)
        await pilot.press(key)
    return asked


async def test_a_turn_is_shown_as_it_happens(tmp_path: Path) -> None:
    """Text, tools with their output, the diff, and what it cost."""
    script = [calls(EDIT, ("shell", {"command": "echo hello"}), text="I look."), "It is *done*."]
    with scene(tmp_path, script) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "fix it")
            await until(lambda: ends(app) == [EndReason.DONE])
            assert text_of(app) == "I look.It is *done*."
            tools = {item.name: item for item in app.state.items if isinstance(item, ToolItem)}
            assert "hello" in tools["shell"].result
            assert app.state.changed["a.py"].added == 1
            assert app.state.money.spent > 0
            assert app.prompt.text == ""
        assert (it.folder / "a.py").read_text() == "x = 2\n"


async def test_letters_and_enter_that_come_at_once_are_one_prompt(tmp_path: Path) -> None:
    with scene(tmp_path, "Yes.") as it, it.inside():
        async with opened(it) as (app, pilot):
            await pilot.press(*"hello", "enter")
            await until(lambda: ends(app) == [EndReason.DONE])
            assert [i.text for i in app.state.items if isinstance(i, PromptItem)] == ["hello"]


async def test_a_question_is_answered_where_it_stands(tmp_path: Path) -> None:
    """Yes runs it, no tells the reason; a key that comes too early is text."""
    command = ("shell", {"command": "echo one"})
    script = [calls(command), calls(("shell", {"command": "echo two"})), calls(command), "Done."]
    with scene(tmp_path, script) as it, it.inside():
        async with opened(it, mode="ask") as (app, pilot):
            await say(pilot, "run them")
            await until(lambda: app.state.asked is not None)
            await pilot.press("y")
            assert app.state.asked is not None
            assert app.prompt.text == "y"
            await pilot.press("backspace")
            first = await answer(app, pilot, "a")
            assert first.state is ApprovalState.ALWAYS
            await until(lambda: app.state.asked not in (None, first))
            second = await answer(app, pilot, "n")
            await pilot.press(*"later")
            await pilot.press("enter")
            await until(lambda: ends(app) == [EndReason.DONE])
            assert (second.state, second.reason) == (ApprovalState.NO, "later")
            # The third call is the first one again, which was allowed for the session.
            asked = [item.state for item in app.state.items if isinstance(item, ApprovalItem)]
            assert asked == [ApprovalState.ALWAYS, ApprovalState.NO, ApprovalState.ALWAYS]
        results = [it.results(body)[-1] for body in it.bodies[1:]]
        assert [bool(one.get("is_error")) for one in results] == [False, True, False]
        assert "declined by a person: later" in str(results[1]["content"])


async def test_a_long_question_takes_no_key_before_it_was_read(tmp_path: Path) -> None:
    """Its first lines are shown first, and yes counts when the last one was reached."""
    text = "".join(f"line {n}\n" for n in range(60))
    script = [calls(("write", {"path": "long.txt", "content": text})), "Done."]
    with scene(tmp_path, script) as it, it.inside():
        async with opened(it, mode="ask") as (app, pilot):
            await say(pilot, "write it")
            await until(lambda: app.state.asked is not None)
            await pilot.pause(0.5)  # longer than a question waits that is whole on the screen
            await pilot.press("y", "backspace")
            assert app.state.asked is not None
            for _ in range(3):
                await pilot.press("pagedown")
                await pilot.pause(0.1)
            await answer(app, pilot, "y")
            await until(lambda: ends(app) == [EndReason.DONE])
        assert (it.folder / "long.txt").read_text() == text


async def test_escape_stops_a_turn_and_the_next_prompt_goes_on(tmp_path: Path) -> None:
    """What was typed meanwhile waits, comes back before what stands in the line, and is said when
    the person sends it."""
    stuck = ProviderReply("one two three", breaks=Break(2, Hang()))
    with scene(tmp_path, [stuck, "Second."]) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "talk")
            await until(lambda: "one" in text_of(app))
            await say(pilot, "then this")
            await say(pilot, "and that")
            assert [one.text for one in app.state.queue] == ["then this", "and that"]
            await pilot.press(*"draft", "escape")
            await until(lambda: ends(app) == [EndReason.INTERRUPTED])
            assert app.prompt.text == "then this\nand that\ndraft"
            assert not app.state.is_working
            await pilot.press("enter")
            await until(lambda: ends(app) == [EndReason.INTERRUPTED, EndReason.DONE])
            assert text_of(app).endswith("Second.")


async def test_interrupt_never_loses_what_was_typed(tmp_path: Path) -> None:
    stuck = ProviderReply("one two three", breaks=Break(2, Hang()))
    with scene(tmp_path, stuck) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "talk")
            await until(lambda: "one" in text_of(app))
            await pilot.press(*"draft", "ctrl+c")
            await until(lambda: ends(app) == [EndReason.INTERRUPTED])
            assert app.prompt.text == "draft"
            end = next(one.end for one in app.state.items if isinstance(one, EndItem))
            assert end is not None
            assert end.message == "stopped by you"  # by whichever key


async def test_undo_shows_what_it_takes_back_and_asks(tmp_path: Path) -> None:
    with scene(tmp_path, [calls(EDIT), "Done."]) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "fix it")
            await until(lambda: ends(app) == [EndReason.DONE])
            await say(pilot, "/undo")
            await until(lambda: isinstance(app.screen, ConfirmScreen))
            await pilot.press("enter")  # the default is no
            await until(lambda: not isinstance(app.screen, ConfirmScreen))
            assert (it.folder / "a.py").read_text() == "x = 2\n"
            await say(pilot, "/undo")
            await until(lambda: isinstance(app.screen, ConfirmScreen))
            await pilot.press("y")
            await until(lambda: (it.folder / "a.py").read_text() == "x = 1\n")
            await until(
                lambda: any("Undone" in i.text for i in app.state.items if isinstance(i, NoteItem))
            )
            assert not ends(app)  # the conversation went with it
            await say(pilot, "/redo")
            await until(lambda: (it.folder / "a.py").read_text() == "x = 2\n")
            await until(lambda: ends(app) == [EndReason.DONE])


async def test_a_session_works_on_while_another_is_looked_at(tmp_path: Path) -> None:
    """It is listed first when it needs a person, and answered in place."""

    def script(request: Any) -> Any:
        said = str(request.body["messages"])
        if "first" in said and "tool_result" not in said:
            return calls(("shell", {"command": "echo one"}))
        return "Done."

    with scene(tmp_path, script) as it, it.inside():
        async with opened(it, mode="ask") as (app, pilot):
            await say(pilot, "first")
            await until(lambda: app.state.asked is not None)
            first = app.driver
            await say(pilot, "/new")
            await until(lambda: app.driver is not first)
            assert app.state.mode == "ask"
            await say(pilot, "second")
            await until(lambda: ends(app) == [EndReason.DONE])
            await say(pilot, "/sessions")
            await until(lambda: isinstance(app.screen, PickScreen))
            await pilot.press("enter")
            await until(lambda: app.driver is first)
            await answer(app, pilot, "y")
            await until(lambda: ends(app) == [EndReason.DONE])


def screen_text(app: CodeApp) -> str:
    """What Textual has drawn: its own cache of the rows, as a terminal is sent them."""
    return "\n".join(strip.text for strip in app.chat.render_lines(app.chat.size.region))


async def go_to(app: CodeApp, wanted: SessionDriver) -> None:
    """Show a session as its choice in the list does: the list that closes has a row of what is
    below it drawn, before the next frame."""
    app.show_session(wanted)
    app.chat.refresh(Region(0, 0, 1, 1))
    screen_text(app)
    await until(lambda: not app._dirty)  # pyright: ignore[reportPrivateUsage]


async def test_another_session_is_drawn_whole_and_only_its_question_is_answered(
    tmp_path: Path,
) -> None:
    """Two sessions ask; after each change of the session the screen shows one of them alone."""

    def script(request: Any) -> Any:
        last = str(request.body["messages"][-1])
        if "tool_result" in last:
            return "Done."
        return calls(("shell", {"command": "touch forked" if "say FK" in last else "touch orig"}))

    with scene(tmp_path, script) as it, it.inside():
        async with opened(it, mode="ask", session="alpha") as (app, pilot):
            first = app.driver
            await say(pilot, "/new omega")
            await until(lambda: app.driver is not first)
            second = app.driver
            await say(pilot, "say FK")
            await question_on(app)
            await go_to(app, first)
            await until(lambda: "touch forked" not in screen_text(app))
            await say(pilot, "say ORIG")
            await question_on(app)
            assert "touch orig " in screen_text(app)
            await go_to(app, second)
            await question_on(app)
            assert "touch forked" in screen_text(app)
            assert "orig" not in screen_text(app).lower()
            await answer(app, pilot, "y")
            await until(lambda: ends(app) == [EndReason.DONE])
        assert (it.folder / "forked").exists()
        assert not (it.folder / "orig").exists()


async def test_a_key_answers_no_question_that_was_not_drawn(tmp_path: Path) -> None:
    """However long a question is there: while the rows of another one stand, a key is text."""
    with scene(tmp_path, calls(("shell", {"command": "touch it"}))) as it, it.inside():
        async with opened(it, mode="ask") as (app, pilot):
            await say(pilot, "touch")
            asked = await question_on(app)
            app.chat.refresh = lambda *_, **__: app.chat  # nothing of it reaches the terminal
            app.show_session(app.driver)
            await pilot.pause(0.6)
            await pilot.press("y")
            assert asked.state is ApprovalState.OPEN
            assert app.prompt.text == "y"


def notes(app: CodeApp) -> list[str]:
    return [item.text for item in app.state.items if isinstance(item, NoteItem)]


async def test_a_model_that_there_is_not_is_refused_at_once(tmp_path: Path) -> None:
    with scene(tmp_path, "Done.") as it, it.inside():
        async with opened(it) as (app, pilot):
            before = app.state.model
            await say(pilot, "/model nope")
            await until(lambda: any("nope" in one for one in notes(app)))
            assert app.state.model == before
            assert not any("from the next turn on" in one for one in notes(app))
            await say(pilot, "hello")
            await until(lambda: ends(app) == [EndReason.DONE])


async def test_an_export_leaves_a_file_that_is_there(tmp_path: Path) -> None:
    """It says so in one sentence, without the words of Python."""
    with scene(tmp_path, "Done.") as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "/export sub/../a.py")
            await until(lambda: any("a.py" in one for one in notes(app)))
            told = notes(app)[-1]
            assert f"cannot write {it.folder / 'a.py'}: File exists" in told
            assert "Errno" not in told
        assert (it.folder / "a.py").read_text() == "x = 1\n"


async def test_the_diff_of_an_edit_has_the_lines_of_the_file(tmp_path: Path) -> None:
    edit = ("edit", {"path": "add.py", "old": "a - b", "new": "a + b"})
    with scene(tmp_path, [calls(edit), "Done."]) as it, it.inside():
        (it.folder / "add.py").write_text("def add(a, b):\n    return a - b  # sum\n")
        async with opened(it) as (app, pilot):
            await say(pilot, "fix it")
            await until(lambda: ends(app) == [EndReason.DONE])
            await until(lambda: "2 +     return a + b  # sum" in screen_text(app))
            assert "2 \u2212     return a - b  # sum" in screen_text(app)


async def test_a_large_paste_is_one_mark_and_is_sent_whole(tmp_path: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(20_000))
    with scene(tmp_path, "Read.") as it, it.inside():
        async with opened(it) as (app, pilot):
            app.prompt.post_message(Paste(text))
            await until(lambda: app.prompt.text.startswith("[pasted 1: 20,001 lines"))
            await pilot.press("enter")
            await until(lambda: ends(app) == [EndReason.DONE])
        sent = str(it.bodies[0]["messages"][-1])
        assert "line 19999" in sent
        assert "[pasted" not in sent


async def test_images_go_with_their_prompt(tmp_path: Path) -> None:
    png = bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154"
        "08d763f8cfc000000301010018dd8db00000000049454e44ae426082"
    )
    with scene(tmp_path, "A dot.") as it, it.inside():
        (it.folder / "shot.png").write_bytes(png)
        async with opened(it) as (app, pilot):
            await say(pilot, "what is on @shot.png?")
            await until(lambda: ends(app) == [EndReason.DONE])
        content = it.bodies[0]["messages"][-1]["content"]
        assert any(part["type"] == "image" for part in content)


async def test_mode_and_budget_change_between_turns(tmp_path: Path) -> None:
    with scene(tmp_path, "Yes.") as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "/mode plan")
            await until(lambda: app.state.mode == "plan")
            await say(pilot, "/budget +$1")
            await until(lambda: app.state.money.at_most == 3_000_000_000)
            await say(pilot, "/nonsense")
            await until(lambda: app.prompt.text == "/nonsense")


async def test_pages_open_and_close(tmp_path: Path) -> None:
    script = [calls(("shell", {"command": "seq 1 9000"})), "Done."]
    with scene(tmp_path, script) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "count")
            await until(lambda: ends(app) == [EndReason.DONE])
            for key in ("ctrl+o", "f1"):
                await pilot.press(key)
                await until(lambda: isinstance(app.screen, PageScreen))
                await pilot.press("G", "g", "escape")
                await until(lambda: not isinstance(app.screen, PageScreen))
            await pilot.press("ctrl+r")
            await until(lambda: isinstance(app.screen, PickScreen))
            await pilot.press("enter")
            await until(lambda: app.prompt.text == "count")


def test_each_command_of_the_table_is_carried_out() -> None:
    app = CodeApp(Path(), {})
    carried_out = Actions(app)._by_name  # pyright: ignore[reportPrivateUsage]
    assert list(carried_out) == [one.name for one in COMMANDS]


# Without a screen, and on a real terminal.

_NO_TEXTUAL = """
import sys
sys.modules["textual"] = None
from vegakit.cli import main
sys.exit(main(["code", *sys.argv[1:]]))
"""


def run_without_textual(it: Scene, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", _NO_TEXTUAL, *words],
        cwd=it.folder,
        env=it.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * PATIENCE_S,
    )


def test_print_and_json_never_load_textual(tmp_path: Path) -> None:
    with scene(tmp_path, "Done.") as it:
        assert run_without_textual(it, "-p", "Go.").stdout == "Done.\n"
        assert '"reason":"done"' in run_without_textual(it, "-p", "Go.", "--json").stdout
        refused = run_without_textual(it)
        assert refused.returncode == 2
        assert "-p PROMPT" in refused.stderr


def test_a_real_terminal_is_given_back(tmp_path: Path) -> None:
    """Typed at once, answered, left: the other screen and the mouse are off, the cursor is on."""
    with scene(tmp_path, "An answer for you.") as it:
        pid, fd = pty.fork()
        if pid == 0:  # pragma: no cover
            os.chdir(it.folder)
            variables = {**it.environment, "TERM": "xterm-256color"}
            os.execve(sys.executable, [sys.executable, "-m", "vegakit", "code"], variables)
        try:
            assert b"$10" in read_until(fd, b"$10")
            os.write(fd, b"hello\r")
            assert b"answer" in read_until(fd, b"spent")
            os.write(fd, b"\x11")
            rest = read_until(fd, b"--resume")
            assert b"\x1b[?1049l" in rest
            assert b"\x1b[?25h" in rest
        finally:
            os.close(fd)
            os.waitpid(pid, 0)


def read_until(fd: int, wanted: bytes) -> bytes:
    got = b""
    while wanted not in got:
        ready, _, _ = select.select([fd], [], [], PATIENCE_S)
        assert ready, got[-2000:]
        got += os.read(fd, 65536)
    return got


async def test_a_session_may_close_while_its_cost_is_asked(tmp_path: Path) -> None:
    """The screen asks each second, and who leaves does not wait for the answer."""
    with scene(tmp_path, [ProviderReply("Done.")]) as it, it.inside():
        async with opened(it) as (app, _):
            agent = app.driver._agent  # pyright: ignore[reportPrivateUsage]
            assert agent is not None
            asked = agent.cost

            async def cost() -> SageCost:
                found = await asked()
                await app.driver.close()
                return found

            agent.cost = cost
            app.state.turn_state = TurnState.WORKING
            await app.driver.refresh_cost()
            await app.driver._answer("q", answer=True)  # pyright: ignore[reportPrivateUsage]
            notes = [item.text for item in app.state.items if isinstance(item, NoteItem)]
            assert "the answer came too late: the session is closed" in notes
