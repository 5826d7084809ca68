"""The screen of `vega code`, drawn by Textual in the colours of the terminal: the conversation, the
right pane, the prompt line and the status. What commands do is in `actions`."""

import asyncio
import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.driver import Driver
from textual.screen import ModalScreen
from textual.widgets import Static

from vegakit.cli.look import cut, look_of
from vegakit.cli.terminal.actions import Actions, list_paths
from vegakit.cli.terminal.commands import BY_NAME, images_in, parse_command
from vegakit.cli.terminal.draw import Canvas, greeting, safe, status_line
from vegakit.cli.terminal.driver import SessionDriver
from vegakit.cli.terminal.markdown import Line
from vegakit.cli.terminal.painted import ChatView, Painted
from vegakit.cli.terminal.pane import pane_lines
from vegakit.cli.terminal.prompt import HintLines, PromptInput
from vegakit.cli.terminal.reducer import on_hidden, on_key, on_shown, on_submit
from vegakit.cli.terminal.screens import ConfirmScreen, PageScreen, PickScreen
from vegakit.cli.terminal.state import (
    EditText,
    GiveBack,
    PromptItem,
    ToolItem,
    TypedPrompt,
    ViewState,
)
from vegakit.cli.terminal.waiting import waiting_line
from vegakit.concurrency import end_signals
from vegakit.config import has_light_background
from vegakit.errors import VegaError

T = TypeVar("T")
_FRAME_S, _TURN_S = 1 / 15, 1 / 4
_WIDE, _NAME = 120, 32
_BESIDE = 28
"""What a wait has of the line above the prompt, whatever else is told there."""
_TWICE_MS = 1_500


class _StatusLine(Painted):
    """Mode, model, money, context, and the keys that are valid now."""

    def rows(self, width: int, height: int) -> list[Line]:
        """Return the line."""
        app = cast("CodeApp", self.app)
        return [status_line(app.state, width, app.keys_now(width))]


class _RuleLine(Painted):
    """The line above the prompt. It says what is waited for, which prompts wait, and that the end
    of the conversation is out of sight."""

    def rows(self, width: int, height: int) -> list[Line]:
        """Return the line."""
        app = cast("CodeApp", self.app)
        # Which session it is must be seen where there are several.
        name = cut(safe(app.state.name), _NAME) if len(app.drivers) > 1 else ""
        told = [name if app.chat.follows else "ctrl-end shows the end"]
        if queue := app.state.queue:
            first = safe(queue[0].text).replace("\n", " ")
            many = f"{len(queue)} wait" if len(queue) > 1 else "waits"
            told = [f"{many}: {cut(first, max(8, width - 56))}", "up takes back", *told]
        right = cut(" · ".join(filter(None, told)), max(8, width - _BESIDE))
        return [waiting_line(app.state, app.driver.now(), width, right)]


class _SidePane(Painted):
    """The right pane."""

    def rows(self, width: int, height: int) -> list[Line]:
        """Return its lines."""
        app = cast("CodeApp", self.app)
        return pane_lines(app.state, width, app.driver.now())


class CodeApp(App[str]):
    """The screen of `vega code`. It ends with what to tell the person."""

    TITLE = "vega code"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; }
    #chat { width: 1fr; height: 1fr; }
    #pane { width: 46; height: 1fr; border-left: solid ansi_bright_black; display: none; }
    .wide #pane { display: block; }
    #rule { height: 1; }
    #hints { height: auto; display: none; }
    #line { height: auto; max-height: 8; }
    #mark { width: 3; height: 1; color: ansi_cyan; }
    #status { height: 1; }
    PromptInput:ansi .text-area--cursor, PromptInput:light .text-area--cursor {
        color: ansi_default; background: ansi_default; text-style: reverse;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "stop", show=False, priority=True),
        Binding("ctrl+q", "command('quit')", "quit", show=False, priority=True),
        Binding("ctrl+k", "palette", "commands", show=False, priority=True),
        Binding("ctrl+r", "history", "history", show=False, priority=True),
        Binding("ctrl+s", "command('sessions')", "sessions", show=False, priority=True),
        Binding("ctrl+b", "command('pane')", "pane", show=False, priority=True),
        Binding("ctrl+o", "command('open')", "open", show=False, priority=True),
        Binding("ctrl+x", "command('stop')", "stop the command", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", "suspend", show=False, priority=True),
        Binding("f1", "command('help')", "help", show=False, priority=True),
        Binding("pageup", "scroll(-1)", "up", show=False, priority=True),
        Binding("pagedown", "scroll(1)", "down", show=False, priority=True),
        Binding("ctrl+end", "follow", "end", show=False, priority=True),
    ]

    def __init__(
        self,
        folder: Path,
        options: dict[str, Any],
        *,
        light: bool = False,
        ascii_only: bool = False,
    ) -> None:
        super().__init__(driver_class=_keyboard(), ansi_color=True)
        self.folder, self.ascii_only = folder, ascii_only
        self.driver = SessionDriver(folder, options, self)
        self.drivers = [self.driver]
        self.actions = Actions(self)
        self._dirty, self._hides_pane = False, False
        self._last_interrupt_ms = -_TWICE_MS
        self._status = 0
        self.choose_theme(light=light)

    @property
    def state(self) -> ViewState:
        """Return what is shown."""
        return self.driver.state

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        prompt = PromptInput(self.take_key, self.submit, id="prompt")
        with Vertical():
            with Horizontal():
                yield ChatView(
                    lambda: self.state.items,
                    lambda: self.state.asked,
                    self.canvas,
                    empty=lambda width: greeting(self.state, width),
                    id="chat",
                )
                yield _SidePane(id="pane")
            yield _RuleLine(id="rule")
            yield HintLines(prompt, id="hints")
            with Horizontal(id="line"):
                yield Static(" > ", id="mark", markup=False)
                yield prompt
            yield _StatusLine(id="status")

    def canvas(self, width: int) -> Canvas:
        """Return what lines are made for."""
        theme = "ansi_light" if self.is_light else "ansi_dark"
        return Canvas(width, theme, self.ascii_only, self.driver.now())

    def choose_theme(self, *, light: bool) -> None:
        """Draw for a light or a dark ground."""
        self.is_light = light
        self.theme = "ansi-light" if light else "ansi-dark"

    async def on_mount(self) -> None:
        """Open the session."""
        self.prompt.focus()
        for number in end_signals():
            # Not in a thread: tests run there, and their process has its own handlers.
            with suppress(NotImplementedError, RuntimeError, ValueError):
                asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)
        self.set_interval(_FRAME_S, self._frame)
        self.set_interval(_TURN_S, self.refresh_rule)
        self.set_interval(1.0, self._second)
        self.run_worker(self._open())

    @on(Driver.SignalResume)
    def _redraw(self) -> None:
        """Draw everything: after Ctrl-Z and `fg` nothing of it is on the terminal any more."""
        self.refresh(layout=True)

    async def _open(self) -> None:
        try:
            await self.driver.open()
            if self.driver.was_resumed:
                await self.driver.load()
                self.actions.tell_resumed()
                self.driver.go_on()
        except VegaError as error:
            self.exit("\n".join([f"error: {error}", *self._unsent()]), 1)
            return
        self._remember()
        self.driver.begin_next()
        self.prompt.paths = await asyncio.to_thread(list_paths, self.folder)

    # Drawing.

    @property
    def prompt(self) -> PromptInput:
        """The prompt line."""
        return self.screen_stack[0].query_one(PromptInput)

    @property
    def chat(self) -> ChatView:
        """The conversation."""
        return self.screen_stack[0].query_one(ChatView)

    def changed(self) -> None:
        """Draw anew at the next frame."""
        self._dirty = True

    def ended(self) -> None:
        """Leave."""
        self.run_worker(self.leave())

    def _on_signal(self, number: signal.Signals) -> None:
        """End the sessions and give the terminal back."""
        self._status = 128 + number
        self.ended()

    def unsaid(self, text: str) -> None:
        """Give a prompt back that was not said."""
        if self.screen_stack:
            self.prompt.give_back(text)

    def on_resize(self, event: events.Resize) -> None:
        """Show the right pane where there is room."""
        self.show_pane(hidden=self._hides_pane, width=event.size.width)

    def show_pane(self, *, hidden: bool, width: int | None = None) -> None:
        """Show or hide the right pane; a narrow screen has none."""
        self._hides_pane = hidden
        wide = self.size.width if width is None else width
        self.screen_stack[0].set_class(wide >= _WIDE and not hidden, "wide")
        self.changed()

    @property
    def hides_pane(self) -> bool:
        """Whether the person has hidden the right pane."""
        return self._hides_pane

    def show_session(self, driver: SessionDriver) -> None:
        """Show another session; the one before goes on. No key answers a question of either before
        that question was drawn."""
        on_hidden(self.state)
        self.driver = driver
        on_hidden(self.state)
        self.chat.forget()
        self._remember()
        self.changed()

    def _remember(self) -> None:
        """Have the prompts of the session at hand, those that wait, too."""
        said = [one.text for one in self.state.items if isinstance(one, PromptItem)]
        self.prompt.remember([*said, *(one.text for one in self.state.queue)])

    def _frame(self) -> None:
        if not self._dirty or not self.screen_stack or not self.screen_stack[0].query(ChatView):
            return  # nothing is new, or the screen is being taken down
        self._dirty = False
        if not self.state.replying_to:
            self.prompt.put_back()
        base = self.screen_stack[0]
        is_new = self.chat.repaint()
        self._note_shown()
        asked = self.state.asked
        if is_new and asked is not None and asked.shown_ms is None:
            self._dirty = True  # to look again when it was drawn
        others = [_StatusLine, _RuleLine] + [_SidePane] * base.has_class("wide")
        for kind in others:
            for one in base.query(kind):  # while the screen is taken down some are gone
                one.repaint()

    def refresh_rule(self) -> None:
        """Move the sign that something is waited for: a few cells, and only while it is."""
        if self.state.is_working and self.screen_stack:
            for rule in self.screen_stack[0].query(_RuleLine):  # while it is left there is none
                rule.repaint()

    def _note_shown(self) -> None:
        """Note whether the question that a key would answer is the one that was drawn."""
        # A question below another page is not on the screen.
        is_base = self.screen is self.screen_stack[0]
        shown = self.chat.watched_approval() if is_base else None
        if shown is not None:
            on_shown(self.state, shown, self.driver.now())
        else:
            on_hidden(self.state)

    async def _second(self) -> None:
        for driver in self.drivers:
            await driver.refresh_cost()
        asked = self.state.asked
        if asked is not None and asked.shown_ms is None:
            self.chat.repaint_whole()  # a row that was never drawn must not keep it from an answer
        if self.state.is_working:
            self._dirty = True

    def keys_now(self, width: int) -> str:
        """Return the keys that are valid now."""
        state = self.state
        if state.replying_to:
            what = (
                "enter say what to do instead"
                if state.is_editing
                else "enter say no, with a reason"
            )
            return f"{what}  esc back"
        if state.asked is not None and self.prompt.text and not state.has_focus_on_approval:
            return "tab to the question"
        if state.asked is not None and state.asked.shown_ms is None:
            return "pgup pgdn read the question"
        if state.asked is not None:
            return "y a n e ? answer" if state.asked.permits else "enter answer"
        if others := sum(bool(one.state.waiting) for one in self.drivers):
            return f"{others} needs you  ctrl-s"
        first = "esc stop" if state.is_working else "enter send"
        more = "  ctrl-k commands  f1 help" if width >= 100 else "  f1 help"
        return first + more

    # Keys.

    def take_key(self, event: events.Key) -> bool:
        """Give a key to the reducer first: it may be the answer to a question. It counts from when
        it was pressed, however long it waited to be looked at."""
        prompt = self.prompt
        if event.key in {"tab", "escape"} and prompt.candidates:
            if event.key == "escape":
                prompt.candidates = []
                self.on_prompt_input_completing()
            return event.key == "escape"
        waited_ms = round(1000 * (events.Key("", None).time - event.time))
        key = event.character if event.character and event.is_printable else event.key
        pressed_ms = self.driver.now() - waited_ms
        self._note_shown()
        actions = on_key(self.state, key, pressed_ms, is_draft_empty=not prompt.text)
        if actions is None:
            return False
        for action in actions:
            if isinstance(action, EditText) and self.state.replying_to:
                prompt.set_aside(action.text)
            elif isinstance(action, EditText):
                prompt.drop()
            elif isinstance(action, GiveBack):
                prompt.give_back(action.text)
        self.driver.carry_out(actions)
        self._frame()  # at once: who stops a turn wants silence
        return True

    def submit(self, text: str) -> None:
        """Carry out a command, or send a prompt."""
        self.chat.follows = True
        if not self.state.replying_to and (found := parse_command(text)) is not None:
            self.run_worker(self.actions.carry_out(*found))
            return
        if self._is_unknown_command(text):
            name = text.split(maxsplit=1)[0]
            self.driver.say(f"there is no command {name}; type / to see them", "error")
            self.prompt.give_back(text)
            return
        images = [one for one in images_in(text) if (self.folder / one).is_file()]
        prompt = TypedPrompt(text, tuple(str(self.folder / one) for one in images))
        self.driver.carry_out(on_submit(self.state, prompt))
        if not self.state.replying_to:
            self.prompt.put_back()  # at once: what is typed next goes behind it

    def _is_unknown_command(self, text: str) -> bool:
        word = text.split(maxsplit=1)[0] if text.split() else ""
        is_named = word.startswith("/") and word[1:].isalpha() and not Path(word).exists()
        return is_named and not self.state.replying_to and not self.driver.has_command(word[1:])

    def on_prompt_input_completing(self) -> None:
        """Show what the text may go on to."""
        hints = self.screen_stack[0].query_one(HintLines)
        many = len(self.prompt.candidates)
        hints.display = many > 0
        hints.styles.height = many
        hints.repaint()

    @property
    def _over(self) -> PageScreen | PickScreen | ConfirmScreen | None:
        """What is open over the conversation; its keys are not those below it."""
        return cast("PageScreen", self.screen) if len(self.screen_stack) > 1 else None

    def action_palette(self) -> None:
        """Choose a command."""
        if self._over is None:
            self.run_worker(self.actions.palette())

    def action_history(self) -> None:
        """Search the earlier prompts of the project."""
        if self._over is None:
            self.run_worker(self.actions.history())

    def action_command(self, name: str) -> None:
        """Carry out a command by its key."""
        if self._over is None or name == "quit":
            self.run_worker(self.actions.carry_out(BY_NAME[name], ""))

    def action_scroll(self, pages: int) -> None:
        """Move by a page, in what is open over the conversation if something is."""
        if (over := self._over) is not None:
            over.action_page(pages)
            return
        self.chat.scroll_lines(pages * max(1, self.chat.size.height - 2))
        self.changed()

    def action_follow(self) -> None:
        """Follow the end again."""
        self.chat.scroll_to_end()
        self.changed()

    def on_mouse_scroll_up(self) -> None:
        """Move up."""
        self.chat.scroll_lines(-3)
        self.changed()

    def on_mouse_scroll_down(self) -> None:
        """Move down."""
        self.chat.scroll_lines(3)
        self.changed()

    def on_click(self, event: events.Click) -> None:
        """Open a tool call that is clicked twice."""
        if event.widget is self.chat and event.chain == 2:
            item = self.chat.item_at(event.y)
            if isinstance(item, ToolItem):
                self.run_worker(self.actions.open_item(item))

    def action_interrupt(self) -> None:
        """Stop the turn; what was typed stays. Twice leaves."""
        now = self.driver.now()
        is_again = now - self._last_interrupt_ms <= _TWICE_MS
        self._last_interrupt_ms = now
        if selected := self.screen.get_selected_text():
            self.copy_to_clipboard(selected)
        elif is_again:
            self.ended()
        elif self.state.is_working:
            self.take_key(events.Key("escape", None))
        else:
            self.driver.say("press Ctrl-C again to leave; what you typed stays")

    async def asked(self, screen: ModalScreen[T]) -> T | None:
        """Show something over the conversation, and return what was chosen there."""
        return await self.push_screen_wait(screen)

    async def leave(self, told: str = "") -> None:
        """Close all sessions and leave."""
        names = [driver.state.name for driver in self.drivers if driver.state.turn]
        for driver in self.drivers:
            await driver.close()
        unsent = self._unsent()  # now: what the agents have not heard was given back
        if names and not told:
            again = [f"to go on, type: vega code --resume {shlex.quote(name)}" for name in names]
            told = "\n".join(again)
        self.exit("\n".join(filter(None, [*unsent, told])), self._status)

    def _unsent(self) -> list[str]:
        """Return what was typed and not sent, for the person to have."""
        queued = [prompt.text for driver in self.drivers for prompt in driver.state.queue]
        left = [safe(text) for text in (*queued, self.prompt.unsent()) if text.strip()]
        return ["you had typed this, and it was not sent:", *left] if left else []


def _keyboard() -> type[Driver] | None:
    """Return what reads keys; None is what Textual has for a system."""
    if sys.platform == "win32":
        return None
    from vegakit.cli.terminal.keyboard import keyboard_driver

    return keyboard_driver()


def run_screen(folder: Path, options: dict[str, Any]) -> int:
    """Open the screen in a folder, and say how to go on when it is left."""
    if sys.platform != "win32":
        from vegakit.cli.terminal.keyboard import make_usable

        make_usable()
    ascii_only = look_of(sys.stdout).ascii_only
    app = CodeApp(folder, options, light=has_light_background(), ascii_only=ascii_only)
    told = app.run()
    if told:
        print(told, file=sys.stderr if app.return_code else sys.stdout)
    return app.return_code or 0
