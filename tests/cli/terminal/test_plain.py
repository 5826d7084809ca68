"""`vega code --plain` at a real pseudo terminal: a real session, a provider on a socket that
answers by a script."""

import asyncio
import os
import pty
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from campaigns.terminal.tty import terminal

from tests.patience import PATIENCE_S, until
from tests.sage.scene import Scene, calls, scene
from vegakit.cli.look import Look
from vegakit.cli.terminal.approvals import MINUS
from vegakit.cli.terminal.commands import COMMANDS
from vegakit.cli.terminal.plain import PlainFace
from vegakit.cli.terminal.state import ApprovalState
from vegakit.testing import Break, Hang, ProviderReply

EDIT = ("edit", {"path": "a.py", "old": "x = 1", "new": "x = 2"})
ASKED = "answer y, a, n, e or ?: "


class Desk:
    """A person at a terminal, who hears what it says."""

    def __init__(self, master: int, face: PlainFace) -> None:
        self._master, self.face = master, face
        self.told, self._at = "", 0
        self._asked: object = None
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        with suppress(OSError):
            self.told += os.read(self._master, 65_536).decode()

    async def hears(self, text: str) -> str:
        """Wait for a text that comes after all that was waited for; return what came until then."""
        try:
            await until(lambda: text in self.told[self._at :])
        except TimeoutError:
            raise AssertionError(f"{text!r} did not come in: {self.told[self._at :]}") from None
        before, self._at = self._at, self.told.index(text, self._at) + len(text)
        return self.told[before : self._at].replace("\r\n", "\n")

    def heard(self) -> None:
        """Take all that came as heard."""
        self._at = len(self.told)

    def types(self, text: str) -> None:
        os.write(self._master, text.encode())

    async def says(self, text: str, then: str) -> str:
        self.types(f"{text}\n")
        return await self.hears(then)

    async def is_asked(self) -> None:
        """Wait for another question that takes an answer; what one asks for may be told twice."""
        state, now = self.face.state, self.face.driver.now

        def is_new() -> bool:
            asked = state.asked
            return asked is not None and asked is not self._asked and asked.shown_ms is not None

        await until(is_new)
        await self.hears(ASKED)
        self.heard()
        self._asked = asked = state.asked
        assert asked is not None
        await until(lambda: now() - max(asked.shown_ms or 0, state.last_key_ms) >= 300)


@asynccontextmanager
async def seated(it: Scene, **options: Any) -> AsyncGenerator[Desk]:
    """A person at the prompt of a new session."""
    (it.folder / "a.py").write_text("x = 1\n")
    master, slave = pty.openpty()
    with os.fdopen(os.dup(slave), "w", encoding="utf-8") as out:
        face = PlainFace(it.folder, {"budget": "$2", **options}, slave, out, look=Look(width=80))
        desk, life = Desk(master, face), asyncio.create_task(face.run())
        try:
            await desk.hears("\n> ")
            yield desk
            await face.leave()
            assert await asyncio.wait_for(life, PATIENCE_S) == 0
        finally:
            life.cancel()
            asyncio.get_running_loop().remove_reader(master)
            os.close(master)
            os.close(slave)


async def test_a_turn_is_told_as_it_happens(tmp_path: Path) -> None:
    """Text, each call when it begins and when it has ended with its outcome, and the money."""
    command = ("shell", {"command": "seq 30; exit 3"})
    script = [calls(EDIT, text="I look.\n\nThen"), calls(command), "It is *done*."]
    with scene(tmp_path, script) as it, it.inside():
        async with seated(it, mode="auto") as desk:
            told = await desk.says("fix it", "\n> ")
        assert "I look.\n\nThen\nbegins: edit a.py\n" in told
        done = "done: edit a.py, 1 line added, 1 removed\n  - 1: x = 1\n  + 1: x = 2\n"
        assert told.index("begins: edit") < told.index(done) < told.index("begins: shell seq 30")
        assert "failed: shell seq 30; exit 3, exit code 3" in told
        assert "  10 lines before; /open tells all\n  11\n" in told
        assert "\n  30\nIt is *done*.\nturn done after " in told
        assert " for this turn, $1.99" in told
        assert "\x1b" not in desk.told


async def test_questions_are_answered_in_words(tmp_path: Path) -> None:
    """Yes to exactly this, always, and no with a reason that the agent reads."""
    one, two = (("shell", {"command": f"echo {word}"}) for word in ("one", "two"))
    script = [calls(EDIT), calls(one), calls(two), calls(one), "Done."]
    with scene(tmp_path, script) as it, it.inside():
        async with seated(it, mode="ask") as desk:
            told = await desk.says("fix it", "? why.")
            assert f"may it use edit?\n  | a.py\n  | {MINUS} x = 1\n  | + x = 2\n" in told
            await desk.is_asked()
            desk.types("y\n")
            await desk.is_asked()
            desk.types("a\n")
            await desk.is_asked()
            desk.types("n not this one\n")
            told = await desk.hears("turn done")
            assert "declined, not this one: shell echo two" in told
            assert "allowed, this exact action for the session: shell echo one" in told
        results = [it.results(body)[-1] for body in it.bodies[1:]]
        assert [bool(each.get("is_error")) for each in results] == [False, False, True, False]
        assert "declined by a person: not this one" in str(results[2]["content"])


async def test_what_was_typed_before_a_question_does_not_answer_it(tmp_path: Path) -> None:
    """Neither a line that was begun before it, nor one that comes at once with it."""
    asked = ProviderReply(calls=calls(EDIT).calls, delay_ms=200)
    with scene(tmp_path, [asked, "Done."]) as it, it.inside():
        async with seated(it, mode="ask") as desk:
            desk.types("fix it\n")
            await until(lambda: desk.face.state.is_working)
            desk.types("y")
            await desk.hears("not sent, as a question came up: y")
            await desk.hears("? why.")
            desk.types("\n")
            await desk.hears(ASKED)
            await desk.says("also this\ny", "it waits for the end of the turn")
            state = desk.face.state
            state.last_key_ms = desk.face.driver.now() + 60_000  # as if keys were pressed just now
            await desk.says("y", "that came too soon")
            assert state.asked is not None
            assert state.asked.state is ApprovalState.OPEN
            assert (it.folder / "a.py").read_text() == "x = 1\n"


async def test_a_long_question_is_answered_after_its_last_line(tmp_path: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(60))
    script = [calls(("write", {"path": "long.txt", "content": text})), "Done."]
    with scene(tmp_path, script) as it, it.inside():
        async with seated(it, mode="ask") as desk:
            await desk.says("write it", "Enter tells the rest: ")
            await desk.says("y", "Enter tells it, and then you can answer")
            assert desk.face.state.asked is not None
            await desk.says("", "  | line 59")
            await desk.is_asked()
            await desk.says("y", "turn done")
        assert (it.folder / "long.txt").read_text() == text


async def test_a_turn_is_stopped_and_the_next_goes_on(tmp_path: Path) -> None:
    hangs = ProviderReply("It begins.\nIt does not end.", breaks=Break(4, Hang()))
    with scene(tmp_path, [hangs, "I go on."]) as it, it.inside():
        async with seated(it) as desk:
            await desk.says("talk", "It begins.")
            desk.face.interrupt()
            await desk.hears("turn stopped")
            await desk.hears("> ")
            desk.face.interrupt()
            await desk.hears("press Ctrl-C again to leave\n".replace("\n", "\r\n"))
            await desk.says("go on", "I go on.")


async def test_lines_that_come_at_once_are_one_prompt(tmp_path: Path) -> None:
    with scene(tmp_path, ["One.", "Two."]) as it, it.inside():
        async with seated(it) as desk:
            await desk.says("a paste\nof lines\n\nfour", "One.")
            await desk.hears("> ")
            await desk.says("begun\\", "... ")
            await desk.says("and ended", "Two.")
        said = [body["messages"][-1]["content"] for body in it.bodies]
        assert "a paste\nof lines\n\nfour" in str(said[0]).replace("\\n", "\n")
        assert "begun\nand ended" in str(said[1]).replace("\\n", "\n")


async def test_every_command_is_carried_out_or_refused_in_words(tmp_path: Path) -> None:
    """None of them needs a part of the screen that lines do not have."""
    given = {"budget": "+$1", "model": "smart", "rename": "other", "search": "said", "rewind": "9"}
    with scene(tmp_path, [calls(EDIT), "Done."]) as it, it.inside():
        async with seated(it, mode="auto") as desk:
            await desk.says("fix it", "\n> ")
            for one in [one for one in COMMANDS if one.name not in {"quit", "undo"}]:
                desk.types(f"/{one.name} {given.get(one.name, '')}\n")
                await desk.hears("\n")
                await until(lambda: desk.told.endswith(("\n> ", "none: ")))
                if desk.told.endswith("none: "):
                    await desk.says("", "nothing was chosen")
                    await desk.hears("\n> ")
                desk.heard()
            assert "AttributeError" not in desk.told
            assert "TypeError" not in desk.told


async def test_undo_says_what_it_takes_back_and_asks(tmp_path: Path) -> None:
    with scene(tmp_path, [calls(EDIT), "Done."]) as it, it.inside():
        async with seated(it, mode="auto") as desk:
            await desk.says("fix it", "\n> ")
            told = await desk.says("/undo", "y or n: ")
            assert "Take back 1 turn, files and conversation?\n" in told
            assert "1 path  fix it\n  a.py  +1" in told
            await desk.says("n", "nothing was done")
            assert (it.folder / "a.py").read_text() == "x = 2\n"
            await desk.hears("> ")
            await desk.says("/undo", "y or n: ")
            told = await desk.says("y", "\n> ")
            assert "note: Undone: 1 path restored" in told
            assert (it.folder / "a.py").read_text() == "x = 1\n"


async def test_a_session_that_goes_on_tells_its_last_turn(tmp_path: Path) -> None:
    with scene(tmp_path, ["One.", "Two."]) as it, it.inside():
        async with seated(it, session="first") as desk:
            await desk.says("say one", "One.")
            await desk.hears("\n> ")
            await desk.says("say two", "Two.")
            await desk.hears("\n> ")
        async with seated(it, session="", budget=None, resume="first") as desk:
            told = desk.told.replace("\r\n", "\n")
            assert "2 turns before; the last one was:\nyou said: say two\nTwo.\n" in told
            assert "say one" not in told


def test_a_dumb_terminal_has_lines(tmp_path: Path) -> None:
    """Ctrl-C of the terminal stops the turn, twice at the prompt leaves; it says how to go on."""
    hangs = ProviderReply("It begins.\nIt does not end.", breaks=Break(4, Hang()))
    with scene(tmp_path, [hangs]) as it, terminal(80, 24) as tty:
        command = [sys.executable, "-m", "vegakit", "code"]
        tty.start(command, it.folder, {**it.environment, "TERM": "dumb"})
        tty.seen("vega code in lines, as TERM is dumb.")
        tty.seen("\n>")
        tty.type("talk\n")
        tty.seen("It begins.")
        tty.type("\x03")
        tty.seen("turn stopped")
        tty.seen(lambda: tty.text().rstrip().endswith("\n>"))
        tty.type("\x03")
        tty.seen("press Ctrl-C again to leave")
        tty.type("\x03")
        assert tty.ended() == 0
        tty.seen("to go on, type: vega code --plain --resume ")
        assert b"\x1b" not in b"".join(chunk.data for chunk in tty.log)
