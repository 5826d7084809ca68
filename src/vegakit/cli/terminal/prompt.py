"""The prompt line: several lines of text, earlier prompts, completion of `/` and `@`, and pasted
text that stands as a mark until it is sent."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget
from textual.widgets import TextArea

from vegakit.cli.look import Tone, cells, cut
from vegakit.cli.terminal.commands import Candidate, candidates
from vegakit.cli.terminal.draw import seg, spread
from vegakit.cli.terminal.markdown import Line
from vegakit.cli.terminal.painted import Painted

_FOLDED_FROM = 1_000
"""Characters of a paste that stands as one mark; it is sent whole."""
_MOST_KEPT = 1_000


async def edited(widget: Widget, event: events.Key) -> bool:
    """Carry out a key such as Backspace that a widget has a binding for, and return whether it has
    one. Textual lets such a key rise to the app first, so that letters which were typed after it
    would be there before it, and the wrong one would be deleted."""
    known = widget._bindings.key_to_bindings  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    own = [one for one in known.get(event.key, ()) if not one.priority]
    if event.is_printable or not own:
        return False
    event.prevent_default()
    event.stop()
    for binding in own:
        await widget.run_action(binding.action)
    return True


class PromptInput(TextArea):
    """The place where a person types. `paths` are the files that `@` completes to."""

    DEFAULT_CSS = """
    PromptInput {
        height: auto; max-height: 8; border: none; padding: 0; background: ansi_default;
        color: ansi_default; scrollbar-size-vertical: 1; width: 1fr;
    }
    PromptInput:focus { border: none; }
    PromptInput > .text-area--cursor-line { background: ansi_default; }
    PromptInput > .text-area--cursor {
        text-style: reverse; background: ansi_default; color: ansi_default;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+k", "app.palette", "commands", show=False, priority=True),
        Binding("ctrl+u", "delete_to_start_of_line", "", show=False),
        Binding("ctrl+underscore", "undo", "", show=False),
    ]

    class Submitted(Message):
        """The person sends what stands here."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Completing(Message):
        """The completions have changed."""

    def __init__(self, take_key: Callable[[events.Key], bool], *, id: str) -> None:  # noqa: A002
        super().__init__(
            id=id,
            soft_wrap=True,
            show_line_numbers=False,
            theme="css",
            compact=True,
            highlight_cursor_line=False,
        )
        self.cursor_blink = False
        self._take_key = take_key
        self.paths: list[str] = []
        self.candidates: list[Candidate] = []
        self.chosen = 0
        self._pastes: dict[str, str] = {}
        self._history: list[str] = []
        self._at = 0
        self._draft = ""
        self._aside: str | None = None
        self._own_keys: Mapping[str, Callable[[], None]] = {
            "enter": self.action_submit,
            **dict.fromkeys(("ctrl+j", "shift+enter", "alt+enter"), self.action_newline),
            "up": self.action_older,
            "down": self.action_newer,
            "tab": self.action_complete,
        }

    # Keys. They are taken here and not by bindings that go first: those would pass the letters
    # before them, which still wait, and Enter would send a line that is not there yet.

    async def _on_key(self, event: events.Key) -> None:
        is_taken, own = self._take_key(event), self._own_keys.get(event.key)
        if not is_taken and own is None:
            if not await edited(self, event):
                await super()._on_key(event)
            return
        event.prevent_default()
        event.stop()
        if own is not None and not is_taken:
            own()

    # What stands here.

    def whole(self) -> str:
        """Return the text with what was pasted in the place of its marks."""
        text = self.text
        for mark, pasted in self._pastes.items():
            text = text.replace(mark, pasted)
        return text

    def put(self, text: str) -> None:
        """Put a text into the line, with the cursor at its end. What stood there can be had back as
        an earlier prompt."""
        if self.text.strip() and self.whole() != text:
            self._history.append(self.whole())
            self._at = len(self._history)
        self._put(text)

    def _put(self, text: str) -> None:
        self.load_text(text if len(text) < _FOLDED_FROM else self._mark(text))
        self.move_cursor(self.document.end)

    def _mark(self, text: str) -> str:
        """Return a short text that stands for a long one."""
        lines = text.count("\n") + 1
        mark = f"[pasted {len(self._pastes) + 1}: {lines:,} lines, {len(text):,} characters]"
        self._pastes[mark] = text
        return mark

    def set_aside(self, text: str) -> None:
        """Put a text into the line for a while; what stands there comes back by `put_back`."""
        if self._aside is None:
            self._aside = self.whole()
            self._put(text)
        else:
            self.put(text)

    def put_back(self) -> None:
        """Put back what was set aside, before what is typed since."""
        aside, self._aside = self._aside, None
        if aside:
            self.give_back(aside)

    def give_back(self, text: str) -> None:
        """Put a text before what stands in the line."""
        self._put("\n".join(filter(str.strip, (text, self.whole()))))

    def unsent(self) -> str:
        """Return all that was typed and not sent."""
        parts = (self._aside or "", self._draft, self.whole())
        return "\n".join(filter(str.strip, parts))

    def remember(self, prompts: list[str]) -> None:
        """Know the prompts that were said before."""
        self._history = prompts[-_MOST_KEPT:]
        self._at = len(self._history)

    def action_newline(self) -> None:
        """Begin another line."""
        self.insert("\n")

    def action_submit(self) -> None:
        """Take the completion of a command that was chosen, or send what stands here."""
        self._look_ahead()  # what was typed at once with Enter was not looked at yet
        if self.candidates and self.text.startswith("/") and not self._is_whole_command():
            self.action_complete()
            return
        text = self.whole()
        if text.strip():
            self._history.append(text)
        draft, self._draft = self._draft, ""
        self._at = len(self._history)
        self._pastes.clear()
        self._put(draft)  # what was typed before an earlier prompt was shown and sent
        self.post_message(self.Submitted(text))

    def _is_whole_command(self) -> bool:
        return any(one.text.strip() == self.text.strip() for one in self.candidates)

    # Earlier prompts.

    def action_older(self) -> None:
        """Choose the row above, go up a line, or show the prompt before."""
        if self.candidates:
            self._choose(-1)
        elif self.cursor_location[0] > 0 or not self._history:
            self.action_cursor_up()
        elif self._at > 0:
            self._keep()
            self._at -= 1
            self._put(self._history[self._at])

    def _keep(self) -> None:
        """Keep what stands here in its place, before another prompt is shown."""
        if self._at == len(self._history):
            self._draft = self.whole()
        elif self.text.strip():
            self._history[self._at] = self.whole()

    def action_newer(self) -> None:
        """Choose the row below, go down a line, or show the prompt after."""
        if self.candidates:
            self._choose(1)
        elif self.cursor_location[0] < self.document.line_count - 1:
            self.action_cursor_down()
        elif self._at < len(self._history):
            self._keep()
            self._at += 1
            if self._at < len(self._history):
                self._put(self._history[self._at])
            else:
                draft, self._draft = self._draft, ""
                self._put(draft)

    # Completion.

    def on_text_area_changed(self) -> None:
        """Look for what the text may go on to."""
        self._look_ahead()

    def _look_ahead(self) -> None:
        row, column = self.cursor_location
        before = "\n".join([*self.document.lines[:row], self.document.lines[row][:column]])
        found = candidates(before, self.paths)
        if [one.text.strip() for one in found] == [before.strip()]:
            found = []
        self.chosen = 0 if found != self.candidates else self.chosen
        if found or self.candidates:
            self.candidates = found
            self.post_message(self.Completing())

    def _choose(self, rows: int) -> None:
        self.chosen = (self.chosen + rows) % len(self.candidates)
        self.post_message(self.Completing())

    def action_complete(self) -> None:
        """Take the completion that is chosen."""
        if self.candidates:
            row, column = self.cursor_location
            after = self.document.lines[row][column:]
            rest = "\n".join([after, *self.document.lines[row + 1 :]])
            self._put(self.candidates[self.chosen].text + rest)

    # Paste.

    async def _on_paste(self, event: events.Paste) -> None:
        if len(event.text) < _FOLDED_FROM:
            return
        event.prevent_default()
        event.stop()
        self.insert(self._mark(event.text))


class HintLines(Painted):
    """The completions above the prompt line."""

    def __init__(self, prompt: PromptInput, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._prompt = prompt

    def rows(self, width: int, height: int) -> list[Line]:
        """Return a line for each."""
        return [
            self._row(one, width, is_chosen=number == self._prompt.chosen)
            for number, one in enumerate(self._prompt.candidates[:height])
        ]

    def _row(self, one: Candidate, width: int, *, is_chosen: bool) -> Line:
        told = cut(one.told, max(width // 2, width - cells(one.shown) - 7))
        name = cut(one.shown, width - cells(told) - 6)
        tone = Tone.STRONG if is_chosen else Tone.PLAIN
        left = [seg(" ▸ " if is_chosen else "   ", Tone.WORK), seg(name, tone)]
        return spread(left, [seg(f"{told} ", tone)], width) if told else left
