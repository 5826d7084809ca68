"""The prompt line: several lines of text, earlier prompts, completion of `/` and `@`, and pasted
text that stands as a mark until it is sent."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.document._document import EditResult, Location
from textual.document._edit import Edit
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

    class Completing(Message):
        """The completions have changed."""

    def __init__(
        self,
        take_key: Callable[[events.Key], bool],
        submit: Callable[[str], None],
        *,
        id: str,  # noqa: A002
    ) -> None:
        super().__init__(
            id=id,
            soft_wrap=True,
            show_line_numbers=False,
            theme="css",
            compact=True,
            highlight_cursor_line=False,
        )
        self.cursor_blink = False
        # Called and not told by a message: what is pressed after Enter would be there before it.
        self._take_key, self._submit = take_key, submit
        self.paths: list[str] = []
        self.candidates: list[Candidate] = []
        self.chosen = 0
        self._pastes: dict[str, str] = {}
        self._last_mark = 0
        self._history: list[str] = []
        self._at = 0
        """The earlier prompt that is shown; their number if what stands here is the person's."""
        self._draft = ""
        """What the person had typed before an earlier prompt was shown; else empty."""
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

    # What stands here. Marks are kept in it, and pasted text takes their place when it leaves.

    def whole(self) -> str:
        """Return the text with what was pasted in the place of its marks."""
        return self._expanded(self.text)

    def _expanded(self, text: str) -> str:
        for mark, pasted in self._pastes.items():
            text = text.replace(mark, pasted)
        return text

    def _take(self) -> str:
        """Return what the person typed and did not send, to be put elsewhere. An earlier prompt is
        part of it only if it was changed: whatever is put here then would be taken for a change of
        that prompt, and be out of sight with it."""
        if self._at == len(self._history):
            return self.text
        changed = "" if self.whole() == self._history[self._at] else self.text
        own = _joined(self._draft, changed)
        self._at, self._draft = len(self._history), ""
        return own

    def put(self, text: str) -> None:
        """Show a text like an earlier prompt, with the cursor at its end. What stood here comes
        back when it was sent, or by going down."""
        own = self._take()
        if own.strip() and own != text:
            self._history.append(text)
            self._draft = own
        self._put(self._folded(text))

    def drop(self) -> None:
        """Empty the line; what stood there can be had back as an earlier prompt."""
        if (own := self._expanded(self._take())).strip():
            self._history.append(own)
        self._at = len(self._history)
        self._put("")

    def _put(self, text: str) -> None:
        self.load_text(text)
        self.move_cursor(self.document.end)

    def _folded(self, text: str) -> str:
        if len(text) < _FOLDED_FROM:
            return text
        known = (mark for mark, pasted in self._pastes.items() if pasted == text)
        return next(known, None) or self._mark(text)

    def _mark(self, text: str) -> str:
        """Return a short text that stands for a long one."""
        lines = text.count("\n") + 1
        self._last_mark += 1
        mark = f"[pasted {self._last_mark}: {lines:,} lines, {len(text):,} characters]"
        self._pastes[mark] = text
        return mark

    def set_aside(self, text: str) -> None:
        """Put a text into the line for a while; what stands there comes back by `put_back`."""
        self._aside = _joined(self._aside or "", self._take())
        self._put(self._folded(text))

    def put_back(self) -> None:
        """Put back what was set aside, before what is typed since."""
        aside, self._aside = self._aside, None
        if aside:
            self._put(_joined(aside, self._take()))

    def give_back(self, text: str) -> None:
        """Put a text before what stands in the line."""
        self._put(_joined(self._folded(text), self._take()))

    def unsent(self) -> str:
        """Return all that was typed and not sent."""
        shown = self._history[self._at : self._at + 1]
        own = "" if shown == [self.whole()] else self.text
        return self._expanded(_joined(self._aside or "", self._draft, own))

    def remember(self, prompts: list[str]) -> None:
        """Know the prompts that were said before."""
        own = self._take()
        self._history = prompts[-_MOST_KEPT:]
        self._at = len(self._history)
        if own != self.text:
            self._put(own)

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
        kept = f"{draft}{self._aside or ''}"
        self._pastes = {mark: one for mark, one in self._pastes.items() if mark in kept}
        self._last_mark = self._last_mark if self._pastes else 0
        self._put(draft)  # what was typed before an earlier prompt was shown and sent
        self._submit(text)

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
            self._put(self._folded(self._history[self._at]))

    def _keep(self) -> None:
        """Keep what stands here in its place, before another prompt is shown."""
        if self._at == len(self._history):
            self._draft = self.text
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
                self._put(self._folded(self._history[self._at]))
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

    def edit(self, edit: Edit) -> EditResult:
        """Change the text. A mark goes as a whole, and nothing is typed into it: a torn one would
        be sent in the place of what was pasted."""
        first, last = sorted((edit.from_location, edit.to_location))
        ends = self._mark_at(first), self._mark_at(last)
        if any(ends):
            begin = first if ends[0] is None or first == last else (first[0], ends[0][0])
            end = last if ends[1] is None else (last[0], ends[1][1])
            edit.from_location, edit.to_location = (end if first == last else begin), end
            edit.maintain_selection_offset = False
        return super().edit(edit)

    def _mark_at(self, location: Location) -> tuple[int, int] | None:
        """Return the columns of the mark that a place is inside of."""
        row, column = location
        line = self.document.lines[row]
        for mark in self._pastes:
            at = line.find(mark, max(0, column - len(mark) + 1))
            if -1 < at < column:
                return at, at + len(mark)
        return None

    async def _on_paste(self, event: events.Paste) -> None:
        if len(event.text) < _FOLDED_FROM:
            return
        event.prevent_default()
        event.stop()
        self.insert(self._mark(event.text))


def _joined(*parts: str) -> str:
    """Return what is not empty, each on lines of its own."""
    return "\n".join(filter(str.strip, parts))


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
