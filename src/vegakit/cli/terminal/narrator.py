"""Tell the conversation of a session in plain lines, each thing once and in words: no sign has to
be seen, nothing is drawn again. Pure.

    text ─▶ its lines, each when it is whole
    call ─▶ `begins`, then `done`, `failed`, `refused` or `stopped`, with a diff or an output
    question ─▶ what became of it; the question itself is asked by `plain`
    end of a turn ─▶ how it ended, what it cost, what is left

What may be long is bounded; `/open` tells it whole.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from vegakit.cli.look import ERROR_NAME, Rounding, count, cut, duration, figures, money
from vegakit.cli.terminal.approvals import ShownAction, about, action_lines, read_action
from vegakit.cli.terminal.diffs import FileChange, changes_of, fields_of
from vegakit.cli.terminal.reducer import first_argument, nanos_of
from vegakit.cli.terminal.state import (
    ApprovalItem,
    ApprovalState,
    ChatItem,
    EndItem,
    NoteItem,
    PromptItem,
    QuoteItem,
    TextItem,
    ToolItem,
    ToolState,
    ViewState,
)
from vegakit.host import NO_PRICE
from vegakit.policy import escape_for_terminal, sanitise, wrap_escaped
from vegakit.sage import UNBILLED, EndReason, SageEnd, quote_text

MOST_ROWS, MOST_OUTPUT, _MOST_REASON = 40, 20, 6
"""Rows of a diff, lines of an output, and lines of why a call failed, that are told unasked."""
_MOST_CELLS, _MOST_ABOUT = 300, 120
_LONG_MS, _LONG_LINE = 1_000, 200
_SENTENCE_ENDS = (". ", "! ", "? ")
_EXIT = re.compile(r"^exit code (\d+)\Z", re.MULTILINE)

_CALL_WORDS: Mapping[ToolState, str] = {
    ToolState.WORKING: "begins",
    ToolState.DONE: "done",
    ToolState.FAILED: "failed",
    ToolState.REFUSED: "refused",
    ToolState.STOPPED: "stopped",
}
_END_WORDS: Mapping[EndReason, str] = {
    EndReason.DONE: "turn done",
    EndReason.BUDGET: "turn refused before sending",
    EndReason.ERROR: "turn failed",
    EndReason.INTERRUPTED: "turn stopped",
    EndReason.LOOP: "turn stopped, as it went in a circle",
    EndReason.LIMIT: "turn stopped at a limit",
}
_NOTE_WORDS: Mapping[str, str] = {"error": "error", "retry": "asked again"}
_ANSWERS: Mapping[ApprovalState, str] = {
    ApprovalState.YES: "allowed once",
    ApprovalState.ALWAYS: "allowed, this exact action for the session",
    ApprovalState.NO: "declined",
    ApprovalState.ANSWERED: "answered",
    ApprovalState.GONE: "no longer asked",
}
_REACHES: Mapping[str, str] = {
    "RunCommand": "It runs in the sandbox: no network, and its writes stay in this folder.",
    "WritePath": "It writes in this folder, and can be undone.",
    "Fetch": "It leaves this machine, and cannot be undone.",
}
"""What an action reaches, by the kind of right that it wants."""


def safe(text: str) -> str:
    """Return text that cannot steer a terminal, its tabs as blanks."""
    return sanitise(text.expandtabs(4), len(text) * 8 + 8)


class _Heard(NamedTuple):
    """How much of an item was told: its version, and the characters of a text."""

    version: int
    characters: int = 0


class Narrator:
    """Tells one session. `said` is the prompt that the person has just typed, and need not hear."""

    def __init__(self, state: ViewState) -> None:
        self.said = ""
        self._state, self._items = state, state.items
        self._at = 0
        self._open: dict[int, tuple[ChatItem, _Heard]] = {}
        self._spent = state.money.spent
        self._told: Mapping[type[ChatItem], Callable[[Any, _Heard | None], Iterator[str]]] = {
            PromptItem: self._prompt,
            TextItem: self._text,
            ToolItem: self._tool,
            ApprovalItem: self._approval,
            NoteItem: self._note,
            QuoteItem: self._quote,
            EndItem: self._end,
        }

    def skip(self, *, to_last_turn: bool = False) -> None:
        """Take all that stands there as told, but for the last turn if that is wanted."""
        self._items, self._open = self._state.items, {}
        prompts = [at for at, one in enumerate(self._items) if isinstance(one, PromptItem)]
        self._at = prompts[-1] if to_last_turn and prompts else len(self._items)
        ends = [one.end for one in self._items[: self._at] if isinstance(one, EndItem)]
        known = [end.spent_usd for end in ends if end is not None and end.spent_usd is not None]
        is_all = self._at == len(self._items)
        self._spent = self._state.money.spent if is_all else nanos_of(known[-1] if known else 0)

    def lines(self) -> list[str]:
        """Return what is new since this was asked for last."""
        if self._state.items is not self._items or len(self._items) < self._at:
            self.skip()  # it was read anew, after an undo: none of it is news
        told: list[str] = []
        for item, heard in [*self._open.values()]:
            if item.version != heard.version:
                told += self._of(item, heard)
        for item in self._items[self._at :]:
            told += self._of(item, None)
        self._at = len(self._items)
        return told

    def _of(self, item: ChatItem, heard: _Heard | None) -> list[str]:
        told = [*self._told[type(item)](item, heard)]
        characters = _ripe(item, heard) if isinstance(item, TextItem) else 0
        if _is_open(item):
            self._open[id(item)] = item, _Heard(item.version, characters)
        else:
            self._open.pop(id(item), None)
        return told

    def _prompt(self, item: PromptItem, heard: _Heard | None) -> Iterator[str]:
        del heard
        is_known, self.said = item.text == self.said, ""
        if not is_known:
            yield f"you said: {brief(item.text, _MOST_CELLS)}"

    def _text(self, item: TextItem, heard: _Heard | None) -> Iterator[str]:
        start = heard.characters if heard else 0
        new = item.text[start : _ripe(item, heard)]
        lines = safe(new if start else new.lstrip("\n")).split("\n")
        yield from (line.rstrip() for line in (lines if lines[-1] else lines[:-1]))
        if item.is_cut:
            yield "the answer broke off; it is said anew"

    def _tool(self, item: ToolItem, heard: _Heard | None) -> Iterator[str]:
        if item.state is not ToolState.WORKING:
            yield from call_lines(item)
        elif heard is None:
            yield f"begins: {named(item)}"

    def _approval(self, item: ApprovalItem, heard: _Heard | None) -> Iterator[str]:
        del heard
        if item.state is ApprovalState.OPEN:
            return
        action = read_action(item.text)
        what = f"{action.tool} {about(action)}" if action else item.text
        said = f", {brief(item.reason, _MOST_CELLS)}" if item.reason else ""
        yield f"{_ANSWERS[item.state]}{said}: {brief(what, _MOST_ABOUT)}"

    def _note(self, item: NoteItem, heard: _Heard | None) -> Iterator[str]:
        del heard
        if item.kind != "waiting":  # how long it is waited for is told by the clock
            word = _NOTE_WORDS.get(item.kind, "note")
            text = safe(item.text).replace("Esc stops", "Ctrl-C stops")
            yield f"{word}: {' '.join(text.split())}"

    def _quote(self, item: QuoteItem, heard: _Heard | None) -> Iterator[str]:
        del heard
        if (quote := item.quote) is not None:
            yield f"note: {quote_text(quote, partial(money, rounding=Rounding.UP))}"

    def _end(self, item: EndItem, heard: _Heard | None) -> Iterator[str]:
        del heard
        end = item.end
        if end is None:
            return
        took = f" after {duration(item.took_ms)}" if item.took_ms else ""
        yield f"{_END_WORDS[end.reason]}{took}{self._cost(end)}"
        if end.message and end.reason is not EndReason.DONE:
            yield f"  {' '.join(safe(end.message).split())}"
        yield from _after(end)

    def _cost(self, end: SageEnd) -> str:
        """Return what this turn cost, and what is left."""
        if end.spent_usd is None:
            return ""
        before, self._spent = self._spent, nanos_of(end.spent_usd)
        most, own = ("at most " if end.unbilled_usd else ""), self._state.money
        turn = money(max(0, self._spent - before), rounding=Rounding.UP)
        if own.at_most is None:
            return f": {most}{turn} for this turn, {money(self._spent)} in all"
        shown = figures(own.at_most, self._spent)
        return f": {most}{turn} for this turn, {shown.left} left of {shown.at_most}"


def _is_open(item: ChatItem) -> bool:
    """Return whether more of an item may come. A note that goes on counts its tries."""
    match item:
        case TextItem():
            return item.is_open
        case ToolItem():
            return item.state is ToolState.WORKING
        case ApprovalItem():
            return item.state is ApprovalState.OPEN
        case NoteItem():
            return item.kind == "retry"
        case _:
            return False


def _ripe(item: TextItem, heard: _Heard | None) -> int:
    """Return how many characters of a text can be told: whole lines, of a long line whole
    sentences, and all of what has ended."""
    if not item.is_open:
        return len(item.text)
    end = item.text.rfind("\n") + 1
    last = item.text[end:]
    if len(last) >= _LONG_LINE:
        end += max(last.rfind(mark) + len(mark) if mark in last else 0 for mark in _SENTENCE_ENDS)
    return max(end, heard.characters if heard else 0)


def brief(text: str, most: int) -> str:
    """Return a text in one line of bounded length."""
    return cut(" ".join(safe(text).split()), most)


def _after(end: SageEnd) -> Iterator[str]:
    """Tell what a person should know after a turn, and what to type."""
    if end.unbilled_usd:
        most = money(nanos_of(end.unbilled_usd), rounding=Rounding.UP)
        yield f"  {most} of it {UNBILLED}"
    if end.changed:
        them = "it" if end.changed == 1 else "them"
        back = "" if end.not_undoable else f"; /undo takes {them} back"
        yield f"  {count(end.changed, 'path')} changed{back}"
    if end.not_undoable:
        yield f"  this turn cannot be undone: {brief(end.not_undoable, _MOST_CELLS)}"
    for what in end.lasting:
        yield f"  cannot be undone: {brief(what, _MOST_CELLS)}"
    for note in end.notes:
        plain = note.replace("<untrusted>", "").replace("</untrusted>", "")
        yield f"  note: {' '.join(safe(plain).split())}"
    if end.reason is EndReason.BUDGET and NO_PRICE not in end.message:
        yield "  to go on, type: /budget +$1, then what to do"


# Calls.


def named(item: ToolItem) -> str:
    """Return a call in one line: the tool, and what it is about."""
    return f"{item.name} {brief(_about(item), _MOST_ABOUT)}".rstrip()


def _about(item: ToolItem) -> str:
    given = fields_of(item.arguments)
    if changes := changes_of(item.name, item.arguments, item.result):
        return ", ".join(change.path for change in changes)
    told = ABOUT.get(item.name)
    return told(given) if told else first_argument(given)


def _steps(given: Mapping[str, Any]) -> str:
    items = given.get("items")
    steps = [fields_of(one) for one in cast("list[Any]", items)] if isinstance(items, list) else []
    done = sum(bool(one.get("done")) for one in steps)
    return f"{done} of {count(len(steps), 'step')} done"


ABOUT: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "todo": _steps,
    "task": lambda given: f"{given.get('agent', '')}: {given.get('prompt', '')}",
    "git": lambda given: shlex.join(map(str, given.get("arguments") or given.values())),
}


def call_lines(item: ToolItem, result: str | None = None) -> list[str]:
    """Return how a call ended, with its diff or output. It is bounded, but for one whose whole
    `result` is given."""
    most = None if result is not None else {"rows": MOST_ROWS, "output": MOST_OUTPUT}
    text = item.result if result is None else result
    code = _EXIT.search(text) if item.name in {"shell", "job"} else None
    is_bad = item.state is ToolState.DONE and code is not None and code[1] != "0"
    word = "failed" if is_bad else _CALL_WORDS[item.state]
    took = (item.ended_ms or item.began_ms) - item.began_ms
    parts = [named(item)]
    changes = changes_of(item.name, item.arguments, item.result)
    is_done = item.state is ToolState.DONE
    if changes and is_done:
        parts.append(_counted(changes))
    if code is not None:
        parts.append(code[0])
    if took >= _LONG_MS:
        parts.append(duration(took))
    head = f"{word}: {', '.join(parts)}"
    if changes and is_done:
        return [head, *_diff(changes, most["rows"] if most else None)]
    if item.state in {ToolState.FAILED, ToolState.REFUSED}:
        reason = _output(ERROR_NAME.sub("", text))
        return [head, *_headed(reason, _MOST_REASON if most else None)]
    if item.name not in _SAY_MUCH and most:
        return [head]
    said = [line for line in _output(text) if line.strip() not in {"stdout:", "stderr:"}]
    said = said[:-1] if code is not None and said and said[-1].strip() == code[0] else said
    return [head, *_tailed(said, most["output"] if most else None)]


_SAY_MUCH = {"shell", "job"}
"""What these say is told; what others have read is for the agent."""


def _counted(changes: Sequence[FileChange]) -> str:
    added, removed = sum(one.added for one in changes), sum(one.removed for one in changes)
    return f"{count(added, 'line')} added, {removed:,} removed"


def _diff(changes: Sequence[FileChange], most: int | None) -> list[str]:
    rows: list[str] = []
    for change in changes:
        rows += [f"  in {brief(change.path, _MOST_CELLS)}:"] if len(changes) > 1 else []
        rows += [
            f"  {row.sign} {row.number}: {cut(safe(row.text), _MOST_CELLS)}"
            for row in change.rows
            if row.sign.strip() or most is None
        ]
    return _headed(rows, most)


def _output(text: str) -> list[str]:
    """Return what was said in lines, of a line that was written over what stood there last."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    return [f"  {cut(safe(line), _MOST_CELLS)}" for line in lines if line.strip()]


def last_output(item: ToolItem) -> str:
    """Return the last line that a call that goes on has said."""
    lines = _output(item.activity or item.output)
    return lines[-1].strip() if lines else ""


def _headed(lines: list[str], most: int | None) -> list[str]:
    more = len(lines) - (len(lines) if most is None else most)
    return [*lines[:most], f"  {count(more, 'more line')}; /open tells all"] if more > 0 else lines


def _tailed(lines: list[str], most: int | None) -> list[str]:
    more = len(lines) - (len(lines) if most is None else most)
    if more <= 0:
        return lines
    return [f"  {count(more, 'line')} before; /open tells all", *lines[more:]]


# Questions.


def question_lines(item: ApprovalItem, now: int, width: int, *, ascii_only: bool) -> list[str]:
    """Return a question whole: the exact action, what it reaches, and why it is asked. A line of it
    that goes on says so, and so cannot look like one of ours."""
    action = read_action(item.text)
    left = item.expires_ms - now if item.expires_ms else 0
    time = f", {duration(left, brief=True)} left" if left > 0 else ""
    room = max(20, width - 8)
    if action is None:
        text = escape_for_terminal(item.text, ascii_only=ascii_only)
        shown = [(number > 0, line) for number, line in enumerate(wrap_escaped(text, room))]
        head = "may it do this?" if item.permits else "the agent asks:"
        return [f"question{time}: {head}", *_marked(shown)]
    made = [f"question{time}: may it use {brief(action.tool, _MOST_ABOUT)}?"]
    made += _marked(action_lines(action, room, ascii_only=ascii_only))
    return [*made, _reach(action), f"Asked as {brief(action.why, _MOST_CELLS)}."]


def _marked(lines: Sequence[tuple[bool, str]]) -> list[str]:
    return [f"  ...   {line}" if goes_on else f"  | {line}" for goes_on, line in lines]


def _reach(action: ShownAction) -> str:
    found = [told for word, told in _REACHES.items() if word in action.reaches]
    return found[0] if found else "It reaches beyond the workspace."
