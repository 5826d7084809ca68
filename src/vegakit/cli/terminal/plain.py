"""`vega code --plain`: the same session as on the screen, in lines, for screen readers and for
terminals that cannot be drawn on.

It is another face of the driver and the reducer. Nothing moves a cursor or has a colour; the
terminal edits what is typed. A question is told whole, and a line answers it only if it was typed
after the last line of the question was printed: what was begun before is taken out and told.
"""

import asyncio
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from vegakit.cli.look import Look, count, duration, look_of, money
from vegakit.cli.terminal.commands import COMMANDS, SlashCommand, images_in, parse_command
from vegakit.cli.terminal.driver import SessionDriver
from vegakit.cli.terminal.narrator import (
    Narrator,
    brief,
    call_lines,
    last_output,
    named,
    question_lines,
    safe,
)
from vegakit.cli.terminal.reducer import on_hidden, on_key, on_shown, on_submit
from vegakit.cli.terminal.state import (
    ApprovalItem,
    EditText,
    ToolItem,
    TurnState,
    TypedPrompt,
    ViewState,
)
from vegakit.cli.terminal.typed import (
    HELP,
    HOW_TO_ANSWER,
    TAKE_TEXT,
    ToldLines,
    TypedLines,
    parse_answer,
)
from vegakit.concurrency import end_signals
from vegakit.errors import UserError, VegaError

if TYPE_CHECKING:
    from vegakit.cli.terminal.actions import Actions

_PAGE = 40
"""Lines of a question that are told at once; Enter tells the next."""
_SILENT_S = (15, 30, 60)
"""After so many seconds of silence, and then each minute, it is told what is waited for."""
_WIDTH = 100
_WHY = (
    "The mode of this session asks before each write and command. Yes is for exactly what was "
    "told, once; a change of a single character is another question. No is told to the agent with "
    "your reason, and it goes on without."
)
_MORE = "there is more of the question: Enter tells it, and then you can answer"
_TOO_SOON = "that came too soon after the question to be meant for it; answer again"
_ALONE = {(key, "") for key in ("y", "a", "n")}
_ON_SCREEN_ONLY = ("pane", "theme", "clear", "copy", "plain")


class PlainFace:
    """The lines of `vega code`. It has the parts of a screen that a session and commands use."""

    is_light, hides_pane = False, True

    def __init__(
        self,
        folder: Path,
        options: dict[str, Any],
        terminal: int,
        out: TextIO,
        *,
        look: Look,
        why: str = "",
    ) -> None:
        self.folder = folder
        self.driver = SessionDriver(folder, options, self)
        self.drivers = [self.driver]
        self.status = 0
        self._look, self._why = look, why
        self._over = asyncio.Event()
        self._told = ToldLines(out, look, self._over.set)
        self._typed = TypedLines(terminal, self._on_text, self._on_end_of_input)
        self._narrators: dict[int, Narrator] = {}
        self._told_others: dict[int, tuple[bool, bool]] = {}
        self._asked: ApprovalItem | None = None
        self._more: list[str] = []
        self._modal: tuple[str, asyncio.Future[str]] | None = None
        self._is_open, self._may_leave, self._is_hearing, self._commands = False, False, False, 0
        self._heard_ms, self._silences = 0, 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._actions: Actions | None = None
        self._own: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "help": self._help,
            "open": self._open_last,
            "quit": lambda _: self.leave(),
        }

    @property
    def state(self) -> ViewState:
        """Return what is told."""
        return self.driver.state

    @property
    def _narrator(self) -> Narrator:
        return self._narrators.setdefault(id(self.driver), Narrator(self.state))

    def take_signals(self) -> None:
        """Let Ctrl-C stop the turn; a signal that ends the program ends its sessions first."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self.interrupt)
        for number in end_signals():
            loop.add_signal_handler(number, self._on_signal, number)

    async def run(self) -> int:
        """Open the session, and stay until the person leaves."""
        await self.driver.open()
        await self._greet()
        self._is_open = True
        self._typed.start()
        self.driver.begin_next()
        ticking = asyncio.create_task(self._tick())
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait((ticking, over), return_when=asyncio.FIRST_COMPLETED)
            if ticking.done():
                ticking.result()
        finally:
            ticking.cancel()
            over.cancel()
            self._over.set()
            self._typed.stop()
            for driver in self.drivers:
                await driver.close()
        return self.status

    async def _greet(self) -> None:
        state, narrator = self.state, self._narrator
        if self.driver.was_resumed:
            await self.driver.load()
            narrator.skip(to_last_turn=True)
        at_most = state.money.at_most
        limit = "" if at_most is None else f", at most {money(at_most)}"
        spent = f", of which {money(state.money.spent)} is spent" if state.money.spent else ""
        kind = f"{state.model}, mode {state.mode}{limit}{spent}"
        self._tell(
            [
                f"vega code in lines{self._why}.",
                f"session {state.name} in {state.folder}: {kind}",
                "Type what you want done, then Enter; /help tells the rest.",
            ]
        )
        if self.driver.was_resumed and state.turn:
            self._tell([f"{count(state.turn, 'turn')} before; the last one was:"])
        self.driver.go_on()

    # What is told.

    def _tell(self, lines: Sequence[str]) -> None:
        if lines:
            self._told.tell(lines)
            self._heard_ms, self._silences = self.driver.now(), 0

    def changed(self) -> None:
        """Tell what is new, ask what is open, and show what is waited for."""
        if not self._is_open or self._over.is_set():
            return
        if self._modal is None:
            self._tell(self._narrator.lines())
            self._tell_others()
            self._ask()
        if not self._is_hearing:
            self._told.ask(self._wanted())

    def _tell_others(self) -> None:
        """Tell of the sessions that go on beside this one when they need somebody, or have ended a
        turn."""
        for one in self.drivers:
            now = bool(one.state.waiting), one.state.is_working
            before = self._told_others.get(id(one), (False, False))
            self._told_others[id(one)] = now
            if one is self.driver or now == before:
                continue
            if now[0] and not before[0]:
                self._tell([f"session {one.state.name} asks you something: /sessions goes to it"])
            if before[1] and not now[1]:
                self._tell([f"session {one.state.name}: its turn has ended"])

    def _wanted(self) -> str:
        """Return what stands before what is typed next; nothing while a turn works."""
        state = self.state
        if self._modal is not None:
            return self._modal[0]
        if self._typed.goes_on:
            return "... "
        if state.replying_to:
            return "do what instead: " if state.is_editing else "reason, or Enter for none: "
        if state.asked is not None and self._more:
            return "Enter tells the rest: "
        if state.asked is not None:
            return "answer y, a, n, e or ?: " if state.asked.permits else "your answer: "
        is_busy = state.is_working or state.queue or self._commands
        return "" if is_busy else "> "

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1)
            for driver in self.drivers:
                await driver.refresh_cost()
            self._tell_silence()
            self.changed()

    def _tell_silence(self) -> None:
        """Say what is waited for: silence must not sound like a program that has died."""
        state = self.state
        if not state.is_working or state.waiting or self._modal is not None:
            self._heard_ms, self._silences = self.driver.now(), 0
            return
        at = self._silences
        after = _SILENT_S[at] if at < len(_SILENT_S) else 60 * (at - len(_SILENT_S) + 2)
        heard, waited = self._heard_ms, self.driver.now() - self._heard_ms
        if waited < 1000 * after:
            return
        calls = [*state.tools.values()]
        what = named(calls[-1]) if calls else "the model"
        said = last_output(calls[-1]) if calls else ""
        self._tell(
            [f"still waiting for {what}, {duration(waited)}{f'; it said: {said}' if said else ''}"]
        )
        self._heard_ms, self._silences = heard, at + 1

    # Questions of the agent.

    def _ask(self) -> None:
        """Tell the question that is answered next, if it was not told yet."""
        asked = self.state.asked
        if asked is None or asked is self._asked:
            return
        self._tell_unsent(", as a question came up")
        self._typed.hurry()  # what was sent before is not for this one
        if asked is self._asked or asked is not self.state.asked:
            return
        self._asked = asked
        width = self._look.width or _WIDTH
        lines = question_lines(asked, self.driver.now(), width, ascii_only=self._look.ascii_only)
        self._more = lines
        self._tell_more(asked)

    def _tell_unsent(self, why: str) -> None:
        """Take away what was begun and not sent, and tell it."""
        if draft := self._typed.take_draft():
            self._tell([f"not sent{why}: {brief(draft, _WIDTH)}"])

    def _tell_more(self, asked: ApprovalItem) -> None:
        page, self._more = self._more[:_PAGE], self._more[_PAGE:]
        self._tell(page)
        if self._more:
            self._tell([f"{count(len(self._more), 'more line')} of this question"])
            return
        if asked.permits:
            self._tell([f"{HOW_TO_ANSWER}."])
        on_shown(self.state, asked, self.driver.now())

    def _answered(self, text: str) -> bool:
        """Take a line as the answer to the question that was told; False if it is none."""
        state, asked = self.state, self.state.asked
        if asked is None or state.replying_to or asked is not self._asked:
            return False
        if not text.strip():
            if self._more:
                self._tell_more(asked)
            return True
        key, rest = parse_answer(text) if asked.permits else ("", "")
        if not key:
            state.last_key_ms = self.driver.now()
            return False
        actions = on_key(state, key, self.driver.now(), is_draft_empty=True)
        if actions is None:
            self._tell([_MORE if self._more else _TOO_SOON])
            return True
        if key == "?":
            self._tell([_WHY, safe(f"Asked by {asked.process}, as: {asked.text}")])
        self.driver.carry_out(actions)
        if key in TAKE_TEXT and rest:
            self.driver.carry_out(on_submit(state, TypedPrompt(rest)))
        elif key == "e" and any(isinstance(one, EditText) and one.text for one in actions):
            given = next(one.text for one in actions if isinstance(one, EditText))
            self._tell([f"it wants to run: {safe(given)}"])
        return True

    # What is typed.

    def _on_text(self, text: str) -> None:
        self._told.answered()
        self._may_leave, self._is_hearing = False, True
        if self._typed.goes_on:
            pass
        elif self._modal is not None:
            (_, answer), self._modal = self._modal, None
            if not answer.done():
                answer.set_result(text)
        elif not self._answered(text):
            self._submit(text)
        self._is_hearing = False
        self.changed()

    def _submit(self, text: str) -> None:
        state = self.state
        if not state.replying_to and (found := parse_command(text)) is not None:
            self._commands += 1
            self._start(self._command(*found))
            return
        if "\n" in text and parse_command(text.split("\n", maxsplit=1)[0]) is not None:
            self._tell(["error: several lines came at once, and a command is one; type it alone"])
            return
        word = text.split(maxsplit=1)[0] if text.split() else ""
        is_named = word.startswith("/") and word[1:].isalpha() and not Path(word).exists()
        if is_named and not state.replying_to:
            self._tell([f"error: there is no command {word}; /help names them"])
            return
        images = [one for one in images_in(text) if (self.folder / one).is_file()]
        prompt = TypedPrompt(text, tuple(str(self.folder / one) for one in images))
        many, asked = len(state.queue), state.asked
        if state.is_working and not state.replying_to and parse_answer(text) in _ALONE:
            self._tell([f"not sent: {text.strip()}; it is an answer, and nothing was asked"])
            return
        self._narrator.said = "" if state.is_working else text
        if asked is not None and asked is not self._asked:
            state.queue.append(prompt)  # it was sent before that question was told
        else:
            self.driver.carry_out(on_submit(state, prompt))
        if len(state.queue) > many:
            after = f", after {many:,} more" if many else ""
            self._tell([f"it waits for the end of the turn{after}"])

    def interrupt(self) -> None:
        """Stop the turn; at the prompt, twice leaves."""
        self._told.broke_off()
        self._tell_unsent("")
        state = self.state
        if self._modal is not None:
            self._on_text("")
        elif self._may_leave:
            self._start(self.leave())
        elif state.turn_state is TurnState.WORKING:
            self._stop_turn()
        else:
            self._may_leave = True
            self._tell(["press Ctrl-C again to leave"])
        self.changed()

    def _stop_turn(self) -> None:
        state = self.state
        for _ in range(2):  # the first may only take back what is being said to a question
            actions = on_key(state, "escape", self.driver.now(), is_draft_empty=True) or []
            given = [one.text for one in actions if isinstance(one, EditText) and one.text]
            self._tell([f"not sent: {brief(text, _WIDTH)}" for text in given])
            self.driver.carry_out(actions)
            if state.turn_state is not TurnState.WORKING:
                return

    def _on_end_of_input(self) -> None:
        """Leave at Ctrl-D; while a turn works only at the second one."""
        self._told.broke_off()
        if self.state.is_working and not self._may_leave:
            self._may_leave = True
            self._tell(["a turn works: Ctrl-C stops it, Ctrl-D again stops it and leaves"])
            return
        self._typed.stop()
        self._start(self.leave())

    def _on_signal(self, number: signal.Signals) -> None:
        self.status = 128 + number
        self.ended()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            kind = "" if isinstance(error, VegaError) else f"{type(error).__name__}: "
            self._tell([f"error: {kind}{safe(str(error))}"])
        self.changed()

    # Commands.

    async def _command(self, command: SlashCommand, argument: str) -> None:
        try:
            await self._carry_out(command, argument)
        finally:
            self._commands -= 1

    async def _carry_out(self, command: SlashCommand, argument: str) -> None:
        if command.name in _ON_SCREEN_ONLY:
            self._tell([f"error: /{command.name} is for the screen, and these are lines"])
        elif own := self._own.get(command.name):
            await own(argument)
        elif command.idle and self.state.is_working:
            self._tell(
                [f"error: not while a turn works; Ctrl-C stops it, then type /{command.name} again"]
            )
        else:
            await self._shared().carry_out(command, argument)

    def _shared(self) -> "Actions":
        """Return the commands of the screen. They are loaded when one is wanted, as they bring
        along what draws it."""
        if find_spec("textual") is None:
            raise UserError(
                "this command needs what the screen needs; in your shell, type: "
                "pip install 'vegakit[tui]'"
            )
        if self._actions is None:
            from vegakit.cli.terminal.actions import Actions, CodeScreen

            self._actions = Actions(cast("CodeScreen", self))
        return self._actions

    async def _help(self, argument: str) -> None:
        del argument
        rows = [(f"/{one.name} {one.arguments}".rstrip(), one.told) for one in COMMANDS]
        shown = [row for row in rows if row[0].split()[0][1:] not in _ON_SCREEN_ONLY]
        self._tell([f"{name}: {told}" for name, told in (*HELP, *shown)])

    async def _open_last(self, argument: str) -> None:
        del argument
        ended = [one for one in self.state.items if isinstance(one, ToolItem) and one.ended_ms]
        if not ended:
            self._tell(["no call has ended yet"])
            return
        self._tell(call_lines(ended[-1], await self.driver.whole_result(ended[-1])))

    async def _line(self, prompt: str) -> str:
        """Ask for a line that is neither a prompt nor an answer to the agent."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._tell_unsent("")
        self._modal = prompt, answer
        self._told.ask(prompt)
        return (await answer).strip()

    async def asked(self, screen: Any) -> Any:  # noqa: ANN401
        """Tell what a command would show over the conversation, and return what is chosen."""
        from vegakit.cli.terminal.screens import ConfirmScreen, PickScreen

        self._tell([safe(screen.heading)])
        if isinstance(screen, PickScreen):
            return await self._picked(screen.choices, screen.empty)
        lines = ["".join(part.text for part in line).strip() for line in screen.made(_WIDTH)]
        self._tell([f"  {line}" for line in lines if line])
        if not isinstance(screen, ConfirmScreen):
            return None
        is_yes = (await self._line(f"{screen.yes}? y or n: ")).lower() in {"y", "yes"}
        self._tell([] if is_yes else ["nothing was done"])
        return is_yes

    async def _picked(self, choices: Sequence[Any], empty: str) -> str | None:
        if not choices:
            self._tell([empty])
            return None
        for number, one in enumerate(choices, 1):
            told = f", {one.told}" if one.told else ""
            self._tell([f"  {number}: {brief(one.shown, _WIDTH)}{told}"])
        chosen = await self._line(f"1 to {len(choices)}, or Enter for none: ")
        if chosen.isdecimal() and 0 < int(chosen) <= len(choices):
            return cast("str", choices[int(chosen) - 1].key)
        self._tell(["nothing was chosen" if not chosen else f"error: there is no {safe(chosen)}"])
        return None

    # What commands and sessions ask of a screen.

    @property
    def chat(self) -> "PlainFace":
        """The conversation."""
        return self

    @property
    def prompt(self) -> "PlainFace":
        """The prompt line."""
        return self

    def forget(self) -> None:
        """Take what is shown anew as told."""
        self._narrator.skip()

    def put(self, text: str) -> None:
        """Say what to type."""
        self._tell([f"type: {brief(text, _WIDTH)}"])

    def unsaid(self, text: str) -> None:
        """Give a prompt back that was not said."""
        self._tell([f"not sent: {brief(text, _WIDTH)}"])

    def ended(self) -> None:
        """Leave."""
        self._start(self.leave())

    def show_session(self, driver: SessionDriver) -> None:
        """Tell another session; the one before goes on."""
        on_hidden(self.state)
        self.driver, self._asked = driver, None
        on_hidden(self.state)
        if id(driver) not in self._narrators:
            self._narrator.skip(to_last_turn=True)
        state = driver.state
        self._tell([f"session {state.name}: {state.model}, mode {state.mode}"])
        self.changed()

    async def leave(self, told: str = "") -> None:
        """Say how to go on, and leave."""
        if self._over.is_set():
            return
        queued = [one.text for driver in self.drivers for one in driver.state.queue]
        unsent = [text for text in (*queued, self._typed.take_draft()) if text.strip()]
        if unsent:
            self._tell(["you had typed this, and it was not sent:", *map(safe, unsent)])
        names = [driver.state.name for driver in self.drivers if driver.state.turn]
        again = [f"to go on, type: vega code --plain --resume {shlex.quote(one)}" for one in names]
        self._tell([told] if told else again)
        self._over.set()


def run_plain(folder: Path, options: dict[str, Any], why: str = "") -> int:
    """Have a session in lines at this terminal."""
    look = look_of(sys.stdout)

    async def stay() -> int:
        terminal, out = sys.stdin.fileno(), sys.stdout
        face = PlainFace(folder, options, terminal, out, look=look, why=why)
        face.take_signals()
        return await face.run()

    with suppress(asyncio.CancelledError):
        return asyncio.run(stay())
    return 128 + signal.SIGINT
