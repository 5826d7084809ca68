"""Carry out the commands of the terminal, each by its name in the table."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import Any, Protocol, TypeVar

from textual.screen import ModalScreen

from vegakit.cli.look import Sign, Tone, count, cut, moment
from vegakit.cli.terminal.amounts import AT_MOST, amount, spent_told
from vegakit.cli.terminal.commands import COMMANDS, SlashCommand, help_lines, usage_column
from vegakit.cli.terminal.diffs import changes_of
from vegakit.cli.terminal.draw import (
    Line,
    about_call,
    change_lines,
    folded,
    model_sentence,
    safe,
    settled,
)
from vegakit.cli.terminal.driver import SessionDriver
from vegakit.cli.terminal.painted import ChatView
from vegakit.cli.terminal.pane import (
    changed_since,
    help_page,
    later_prompts,
    pane_lines,
    turn_of,
    undo_page,
)
from vegakit.cli.terminal.prompt import PromptInput
from vegakit.cli.terminal.screens import Choice, ConfirmScreen, PageScreen, PickScreen
from vegakit.cli.terminal.state import (
    PromptItem,
    TextItem,
    ToolItem,
    ToolState,
)
from vegakit.cli.terminal.words import on_screen
from vegakit.errors import UserError, VegaError
from vegakit.money import dollars
from vegakit.sage import (
    UNBILLED,
    SageMode,
    SessionState,
    export_session,
    list_prompts,
    list_sessions,
    redo_turns,
    rename_session,
    search_sessions,
    transcript,
    undo_turns,
    undoable_turns,
)
from vegakit.tools import write_output

_SKIPPED = {".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", "dist", "build"}
_MOST_PATHS, _MOST_SHOWN = 20_000, 200
_TWO_COLUMNS = 120


T = TypeVar("T")


class CodeScreen(Protocol):
    """The parts of the screen that commands use. Naming only these keeps them below it."""

    folder: Path
    driver: SessionDriver
    drivers: list[SessionDriver]
    is_light: bool

    @property
    def chat(self) -> ChatView:
        """The conversation."""
        ...

    @property
    def prompt(self) -> PromptInput:
        """The prompt line."""
        ...

    @property
    def hides_pane(self) -> bool:
        """Whether the person has hidden the right pane."""
        ...

    def changed(self) -> None:
        """Draw anew, soon."""
        ...

    def show_session(self, driver: SessionDriver) -> None:
        """Show another session."""
        ...

    def show_pane(self, *, hidden: bool) -> None:
        """Show or hide the right pane."""
        ...

    def choose_theme(self, *, light: bool) -> None:
        """Draw for a light or a dark ground."""
        ...

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text."""
        ...

    async def asked(self, screen: ModalScreen[T]) -> T | None:
        """Show something over the conversation, and return what was chosen there."""
        ...

    async def leave(self, told: str = "") -> None:
        """Close all sessions and leave."""
        ...


class Actions:
    """The commands of one screen."""

    def __init__(self, app: CodeScreen, driver: SessionDriver | None = None) -> None:
        self._app, self._own = app, driver
        self._by_name: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "help": self._help,
            "undo": self._undo,
            "redo": self._redo,
            "rewind": self._rewind,
            "open": self._open_last,
            "cost": self._cost,
            "budget": self._budget,
            "mode": self._mode,
            "model": self._model,
            "compact": self._compact,
            "stop": self._stop_command,
            "tree": self._tree,
            "kill": self._kill,
            "sessions": self._sessions,
            "new": self._new,
            "fork": self._fork,
            "rename": self._rename,
            "search": self._search,
            "export": self._export,
            "copy": self._copy,
            "clear": self._clear,
            "pane": self._pane,
            "theme": self._theme,
            "plain": self._plain,
            "quit": self._quit,
        }

    @property
    def _driver(self) -> SessionDriver:
        """The session that they are for: the one on the screen, if no other was named."""
        return self._own or self._app.driver

    async def carry_out(self, command: SlashCommand, argument: str) -> None:
        """Carry out a command; what goes wrong is told in the conversation."""
        if command.idle and self._driver.state.is_working:
            self._put_off(command, argument)
            return
        try:
            await self._by_name[command.name](argument)
        except (VegaError, OSError, ValueError) as error:
            self._driver.say(on_screen(str(error)), "error")
        self._app.changed()

    def _put_off(self, command: SlashCommand, argument: str) -> None:
        """Carry out a command when the turn has ended, for the session that it was typed in; or say
        that it cannot be."""
        driver, name = self._driver, f"/{command.name} {argument}".rstrip()
        if not command.waits or not (argument or not command.arguments):
            driver.say(f"{name}: not while a turn works; Esc stops it, then type it again", "error")
            return
        own = Actions(self._app, driver)
        driver.put_off(lambda: own.carry_out(command, argument))
        driver.say(f"{name} is carried out when the turn has ended")

    async def palette(self) -> None:
        """Choose a command from the table."""
        rows = [Choice(one.name, usage_column(one.usage) + one.told, one.key) for one in COMMANDS]
        chosen = await self._app.asked(PickScreen("Commands", rows, "no command fits"))
        command = next((one for one in COMMANDS if one.name == chosen), None)
        if command is None:
            return
        if command.arguments:
            self._app.prompt.put(f"/{command.name} ")
        else:
            await self.carry_out(command, "")

    async def history(self) -> None:
        """Choose an earlier prompt of the project."""
        said = await list_prompts(self._app.folder)
        rows = [Choice(text, safe(text).replace("\n", " ")) for text in said]
        screen = PickScreen("Earlier prompts", rows, "no prompt fits")
        if chosen := await self._app.asked(screen):
            self._app.prompt.put(chosen)

    # Pages.

    async def _page(self, title: str, made: Callable[[int], list[Line]]) -> None:
        await self._app.asked(PageScreen(title, made))

    async def _help(self, argument: str) -> None:
        del argument
        await self._page("Keys and commands", lambda width: help_page(help_lines(), width))

    async def _tree(self, argument: str) -> None:
        del argument
        state, now = self._driver.state, self._driver.now()
        await self._page("Agents, files and jobs", lambda width: pane_lines(state, width, now))

    async def _open_last(self, argument: str) -> None:
        del argument
        for item in reversed(self._driver.state.items):
            if isinstance(item, ToolItem) and _opens(item):
                await self.open_item(item)
                return
        self._driver.say("no tool has said or changed anything yet")

    async def open_item(self, item: ToolItem) -> None:
        """Show a tool call whole: its diff, or all that it said."""
        changes = changes_of(item.name, item.arguments, item.result)
        if changes and item.state is ToolState.DONE:
            names = ", ".join(change.path for change in changes)
            await self._page(
                f"{item.name} {names}",
                lambda width: [[], *change_lines(changes, width, columns=width >= _TWO_COLUMNS)],
            )
            return
        text = item.output or await self._driver.whole_result(item)
        title = cut(f"{item.name} {about_call(item)}", _MOST_SHOWN)
        await self._page(title, lambda width: _listing(text, width))

    def tell_resumed(self) -> None:
        """Say what a session that goes on has spent before: its budget is for all its turns."""
        state = self._driver.state
        if state.money.spent:
            self._driver.say(f"session {state.name} goes on; {self._money_told()}")

    async def _cost(self, argument: str) -> None:
        del argument
        if not self._driver.state.run:
            raise UserError("the session is still opening; ask again in a moment")
        self._driver.say(self._money_told())

    def _money_told(self) -> str:
        own = self._driver.state.money
        of_cut = f"; {amount(own.unbilled)} of it {UNBILLED}" if own.unbilled else ""
        return f"{spent_told(own)}{of_cut}"

    # The session.

    async def _compact(self, argument: str) -> None:
        del argument
        if not self._driver.state.turn:
            raise UserError("nothing was said yet that could be summed up")
        self._driver.compacts = True
        self._driver.say(
            "the conversation is summed up before your next prompt is answered, by a call of the "
            "model that is paid for; the journal keeps all of it"
        )

    async def _stop_command(self, argument: str) -> None:
        del argument
        if not self._driver.stop_command():
            raise UserError("no command runs that could be stopped; Esc stops the turn")

    async def _budget(self, argument: str) -> None:
        if not argument:
            raise UserError("say how much is added: /budget +$1, or what it is in all: /budget $5")
        key = "raise_budget" if argument.startswith("+") else "budget"
        dollars(argument.removeprefix("+"))  # before the session is closed
        await self._driver.reopen(**{key: argument.removeprefix("+")})
        await self._cost("")

    async def _mode(self, argument: str) -> None:
        modes = [str(mode) for mode in SageMode]
        if not argument:
            mark = {True: str(Sign.DONE), False: " "}
            current = self._driver.state.mode
            rows = [
                Choice(mode, f"{mode:<6}{_MODES[mode]}", "", mark[mode == current], Tone.OK)
                for mode in modes
            ]
            screen = PickScreen("Mode", rows, "no mode fits")
            argument = await self._app.asked(screen) or ""
        if argument not in modes:
            if argument:
                raise UserError(f"a mode is one of {', '.join(modes)}; got {argument}")
            return
        await self._driver.reopen(mode=argument)
        self._driver.say(f"mode {argument}: {_MODES[argument]}")

    async def _model(self, argument: str) -> None:
        from vegakit.cli.terminal.models import model_choices, read_settings  # loads the prices

        state = self._driver.state
        if not argument:
            settings = await asyncio.to_thread(read_settings, self._app.folder)
            rows = await asyncio.to_thread(model_choices, settings, state.model)
            title = f"Model: {state.model} is {state.real_model or state.model}"
            argument = await self._app.asked(PickScreen(title, rows, "no model fits")) or ""
        if not argument:
            return
        await self._driver.check_model(argument)
        await self._driver.reopen(model=argument)
        await self._driver.note_model()
        self._driver.say(f"from the next turn on: {model_sentence(state)}")

    async def _rename(self, argument: str) -> None:
        if not argument:
            raise UserError("say the new name, such as: /rename retry-fix")
        driver = self._driver
        await driver.closed(lambda: rename_session(driver.state.run, argument, self._app.folder))
        driver.say(f"this session is named {driver.state.name} now")

    async def _kill(self, argument: str) -> None:
        del argument
        await self._driver.stop()

    # Undo.

    async def _undo(self, argument: str) -> None:
        await self._take_back(turns=int(argument) if argument else 1)

    async def _rewind(self, argument: str) -> None:
        if not argument.isdecimal():
            raise UserError("say the last turn that stays, such as: /rewind 3")
        await self._take_back(turns=sys.maxsize, after=int(argument))

    async def _take_back(self, turns: int, after: int = 0) -> None:
        """Take back the last turns of the session on the screen, all of them after one."""
        state, folder = self._driver.state, self._app.folder
        recorded = await undoable_turns(folder, session=state.run)
        standing = [one for one in recorded if one.state != "undone" and turn_of(one) > after]
        # A turn that went on after a kill is recorded in parts.
        taken = [*dict.fromkeys(map(turn_of, standing))][:turns]
        if not taken:
            what = f"no turn after {after}" if after else "no turn"
            raise UserError(f"{what} of this session can be taken back")
        chosen = [one for one in standing if turn_of(one) in taken]
        changed, stays = changed_since(state.items, min(taken)), later_prompts(state.items, taken)

        def made(width: int) -> list[Line]:
            return undo_page(chosen, changed, width, stays)

        title = f"Take back {count(len(taken), 'turn')}, files and conversation?"
        if await self._app.asked(ConfirmScreen(title, made, "take back")):
            await self._rewound(lambda: undo_turns(len(taken), folder, session=state.run), "Undone")

    async def _redo(self, argument: str) -> None:
        del argument
        run = self._driver.state.run
        await self._rewound(lambda: redo_turns(self._app.folder, session=run), "Redone")

    async def _rewound(self, work: Callable[[], Awaitable[Any]], word: str) -> None:
        done = await self._driver.closed(work)
        await self._driver.reload()
        self._app.chat.forget()
        kept = f"; kept, as somebody else changed it: {', '.join(one.path for one in done.kept)}"
        lost = f"; cannot be taken back: {', '.join(done.lasting)}" if done.lasting else ""
        self._driver.say(
            f"{word}: {count(len(done.restored), 'path')} restored{kept if done.kept else ''}{lost}"
        )

    # Sessions.

    async def _sessions(self, argument: str) -> None:
        if argument:
            await self._go_to(await self._run_of(argument))
            return
        rows = [_open_row(one, self._driver) for one in self._app.drivers]
        here = {one.state.run for one in self._app.drivers}
        for one in await list_sessions(self._app.folder):
            if one.run not in here:
                sign, tone = _STATES[one.state]
                told = f"{one.state} · {count(one.turns, 'turn')} · {moment(one.used_ms)}"
                shown = f"{one.name}  {safe(one.prompt)}".replace("\n", " ")
                rows.append(Choice(one.run, shown, told, str(sign), tone))
        order = {"needs you": 0, "working": 1}
        rows.sort(key=lambda row: order.get(row.told.partition(" · ")[0], 2))
        chosen = await self._app.asked(PickScreen("Sessions", rows, "no session fits"))
        if chosen:
            await self._go_to(chosen)

    async def _run_of(self, name: str) -> str:
        for one in await list_sessions(self._app.folder):
            if name in {one.name, one.run}:
                return one.run
        raise UserError(f"no session of this folder is called {name}; /sessions lists them")

    async def _go_to(self, run: str) -> None:
        for driver in self._app.drivers:
            if driver.state.run == run:
                self._app.show_session(driver)
                return
        # It goes on with its own budget, mode and model, not with those of this screen.
        await self._begin({"resume": run, "budget": None, "mode": None, "model": ""})

    async def _new(self, argument: str) -> None:
        await self._begin({"resume": None, "session": argument})

    async def _fork(self, argument: str) -> None:
        run = self._driver.state.run
        await self._begin({"resume": None, "fork": run, "session": argument})

    async def _begin(self, changes: dict[str, Any]) -> None:
        driver = self._driver.beside()
        await driver.open(**changes)
        if driver.was_resumed:
            await driver.load()
        driver.begin_next()
        self._app.drivers.append(driver)
        self._app.show_session(driver)
        driver.say(self._begun(driver, changes))

    def _begun(self, driver: SessionDriver, changes: dict[str, Any]) -> str:
        """Return which session is on the screen now, and what it may spend."""
        name, run = driver.state.name, changes.get("fork")
        told = next((one.state.name for one in self._app.drivers if one.state.run == run), "")
        how = "goes on" if driver.was_resumed else "begins"
        how = f"begins with the conversation of {told}" if told else how
        return f"session {name} {how}; {spent_told(driver.state.money)}"

    async def _search(self, argument: str) -> None:
        found = await search_sessions(argument, self._app.folder)
        rows = [
            Choice(one.session, safe(one.text).replace("\n", " "), f"{one.session} turn {one.turn}")
            for one in found
        ]
        screen = PickScreen(f"Search: {argument}", rows, "it stands nowhere")
        if chosen := await self._app.asked(screen):
            every = await list_sessions(self._app.folder)
            await self._go_to(next(one.run for one in every if one.name == chosen))

    async def _export(self, argument: str) -> None:
        state = self._driver.state
        path = _normal(self._app.folder / (argument or f"{state.name}.md"))
        events = await export_session(state.run, self._app.folder)
        advice = f"name another file, such as: /export {path.stem}-2.md"
        text = transcript(events).encode(errors="backslashreplace")
        await asyncio.to_thread(write_output, path, text, advice, is_new=True)
        self._driver.say(f"written: {path}")

    # The screen.

    async def _copy(self, argument: str) -> None:
        del argument
        items = reversed(self._driver.state.items)
        text = next((one.text for one in items if isinstance(one, TextItem)), "")
        if not text:
            raise UserError("nothing was said yet")
        self._app.copy_to_clipboard(text)
        self._driver.say(f"copied {len(text):,} characters, if your terminal allows it (OSC 52)")

    async def _clear(self, argument: str) -> None:
        del argument
        state = self._driver.state
        state.items[:] = [one for one in state.items if one in state.waiting]
        self._app.chat.forget()

    async def _pane(self, argument: str) -> None:
        del argument
        self._app.show_pane(hidden=not self._app.hides_pane)

    async def _theme(self, argument: str) -> None:
        light = argument == "light" if argument else not self._app.is_light
        self._app.choose_theme(light=light)
        self._app.chat.forget()

    async def _plain(self, argument: str) -> None:
        del argument
        name = quote(self._driver.state.name)
        await self._app.leave(f"to go on in lines, type: vega code --plain --resume {name}")

    async def _quit(self, argument: str) -> None:
        del argument
        await self._app.leave()


_MODES = {
    "plan": "reads and answers; writes and commands are refused",
    "ask": "asks you before each write and command",
    "auto": "writes in this folder and runs commands in the sandbox, unasked",
}
_STATES = {
    SessionState.WORKING: (Sign.WORKING, Tone.WORK),
    SessionState.OPEN: (Sign.OPEN, Tone.PLAIN),
    SessionState.CUT_OFF: (Sign.HELD, Tone.ASK),
    SessionState.FAILED: (Sign.FAILED, Tone.BAD),
    SessionState.DONE: (Sign.DONE, Tone.OK),
}


def _open_row(driver: SessionDriver, current: SessionDriver) -> Choice:
    state = driver.state
    if state.waiting:
        sign, tone, word = Sign.ASKS, Tone.ASK, "needs you"
    elif state.is_working:
        sign, tone, word = Sign.WORKING, Tone.WORK, "working"
    else:
        sign, tone, word = Sign.DONE, Tone.OK, "done"
    prompts = [one.text for one in state.items if isinstance(one, PromptItem)]
    here = " · on the screen" if driver is current else ""
    shown = f"{state.name}  {safe(prompts[-1]) if prompts else ''}".replace("\n", " ")
    most = AT_MOST if state.money.unbilled else ""
    told = f"{word} · {most}{amount(state.money.spent)} spent{here}"
    return Choice(state.run, shown, told, str(sign), tone)


def _opens(item: ToolItem) -> bool:
    return bool(changes_of(item.name, item.arguments)) or item.name in {
        "shell",
        "task",
        "git",
        "grep",
    }


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path))


def _listing(text: str, width: int) -> list[Line]:
    return [
        line
        for part in safe(settled(text)).split("\n")
        for line in folded(part, width, indent=" ") or [[]]
    ]


def list_paths(folder: Path) -> list[str]:
    """Return the files below a folder that `@` completes to, but for those of tools and caches."""
    found: list[str] = []
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name not in _SKIPPED and not name.startswith(".")
        )
        base = os.path.relpath(where, folder)
        found += [name if base == "." else f"{base}/{name}" for name in sorted(files)]
        if len(found) > _MOST_PATHS:
            break
    return found[:_MOST_PATHS]
