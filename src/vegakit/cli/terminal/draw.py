"""The items of the conversation as lines of a terminal, and the parts around it: side pane, status
and approvals. It knows widths, signs and tones, and no Textual."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, NamedTuple

from rich.segment import Segment
from rich.style import Style

from vegakit.cli.look import (
    ERROR_NAME,
    HARD_SPACE,
    RICH_STYLES,
    Look,
    Sign,
    Tone,
    bar_cells,
    cells,
    count,
    cut,
    duration,
    middle,
)
from vegakit.cli.terminal.amounts import AT_MOST, amount, shown
from vegakit.cli.terminal.approvals import MINUS, ShownAction, about, action_lines, read_action
from vegakit.cli.terminal.diffs import (
    DiffRow,
    FileChange,
    changes_of,
    fields_of,
    is_cache,
    side_by_side,
)
from vegakit.cli.terminal.markdown import Line, markdown_lines
from vegakit.cli.terminal.narrator import ABOUT, safe
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
from vegakit.cli.terminal.words import next_step, on_screen
from vegakit.money import NANOS
from vegakit.policy import escape_for_terminal, wrap_escaped
from vegakit.sage import UNBILLED, EndReason, SageEnd, quote_text

_INDENT = "   "
_TAIL, _PREVIEW, _PROMPT_LINES = 3, 8, 12
TOOL_SIGNS: Mapping[ToolState, tuple[Sign, Tone]] = {
    ToolState.WORKING: (Sign.WORKING, Tone.WORK),
    ToolState.DONE: (Sign.DONE, Tone.OK),
    ToolState.FAILED: (Sign.FAILED, Tone.BAD),
    ToolState.REFUSED: (Sign.REFUSED, Tone.ASK),
    ToolState.STOPPED: (Sign.WAITING, Tone.PLAIN),
}
_NOTE_SIGNS: Mapping[str, tuple[Sign, Tone]] = {
    "error": (Sign.FAILED, Tone.BAD),
    "retry": (Sign.RESTARTED, Tone.ASK),
    "compaction": (Sign.KEPT, Tone.OK),
}
_END_SIGNS: Mapping[EndReason, tuple[Sign, Tone]] = {
    EndReason.DONE: (Sign.DONE, Tone.OK),
    EndReason.BUDGET: (Sign.REFUSED, Tone.ASK),
    EndReason.LOOP: (Sign.HELD, Tone.ASK),
    EndReason.INTERRUPTED: (Sign.HELD, Tone.ASK),
    EndReason.LIMIT: (Sign.FAILED, Tone.BAD),
    EndReason.ERROR: (Sign.FAILED, Tone.BAD),
}


_WORDS = {
    EndReason.BUDGET: "refused before sending",
    EndReason.ERROR: "failed",
    EndReason.INTERRUPTED: "stopped",
    EndReason.LOOP: "stopped: it went in a circle",
    EndReason.LIMIT: "stopped at a limit",
}


class Canvas(NamedTuple):
    """A place that lines are made for: its width, the colours of listings, whether it carries ASCII
    only, and the time."""

    width: int
    theme: str = "ansi_dark"
    ascii_only: bool = False
    now_ms: int = 0


@lru_cache(maxsize=64)
def style_of(tone: str) -> Style:
    """Return a tone as a style."""
    return Style.parse(RICH_STYLES[Tone(tone)] or "none")


def seg(text: str, tone: str = Tone.PLAIN) -> Segment:
    """Return a piece of a line."""
    return Segment(text, style_of(tone))


def width_of(line: Iterable[Segment]) -> int:
    """Return how many cells a line takes."""
    return sum(cells(one.text) for one in line)


def spread(left: Line, right: Line, width: int) -> Line:
    """Return a line with a part at its right end, if both fit with two blanks between them."""
    room = width - width_of(left) - width_of(right) - 1
    return [*left, seg(" " * room), *right] if room >= 2 else left


def folded(text: str, width: int, tone: str = Tone.PLAIN, indent: str = _INDENT) -> list[Line]:
    """Return a text in lines that fit, each after an indent."""
    look = Look(width=max(20, width))
    return [
        [seg(line, tone)] for part in text.split("\n") for line in look.fold(part, indent, indent)
    ]


# Items.


def lines_of(item: ChatItem, canvas: Canvas) -> list[Line]:
    """Return an item as lines."""
    return _DRAWN[type(item)](item, canvas)


def has_gap(before: ChatItem | None, item: ChatItem) -> bool:
    """Whether a blank line stands before an item: calls of tools are a block."""
    together = (ToolItem, QuoteItem)
    if isinstance(item, ApprovalItem) and item.state is ApprovalState.OPEN:
        return True
    return not (
        isinstance(before, (*together, ApprovalItem))
        and isinstance(item, (*together, ApprovalItem))
    )


def _prompt(item: PromptItem, canvas: Canvas) -> list[Line]:
    wide = max(10, canvas.width - 4)
    text = safe(item.text)
    lines = [part for line in text.split("\n") for part in Look(width=wide).fold(line) or [""]]
    more = len(lines) - _PROMPT_LINES
    shown = lines[:_PROMPT_LINES] if more > 0 else lines
    made: list[Line] = [[seg(" > ", Tone.WORK), seg(shown[0], Tone.STRONG)]]
    if item.turn:
        # The number that /rewind takes.
        made[0] = spread(made[0], [seg(f"turn {item.turn} ", Tone.FAINT)], canvas.width)
    made += [[seg(_INDENT), seg(line, Tone.STRONG)] for line in shown[1:]]
    if more > 0:
        made.append([seg(f"{_INDENT}… {count(more, 'more line')}")])
    return [*made, *([seg(f"{_INDENT}image {safe(one)}")] for one in item.images)]


def _text(item: TextItem, canvas: Canvas) -> list[Line]:
    lines = markdown_lines(safe(item.text), canvas.width - 5, canvas.theme, is_open=item.is_open)
    made: list[Line] = [[seg(_INDENT), *line] if line else [] for line in lines]
    if item.is_open and made:
        made[0] = [seg(" "), seg(str(Sign.WORKING), Tone.WORK), seg(" "), *made[0][1:]]
    if item.is_cut:
        made.append([seg(f"{_INDENT}… broke off; it is said anew")])
    return made


def _tool(item: ToolItem, canvas: Canvas) -> list[Line]:
    has_failed = item.state is ToolState.DONE and _FAILED_COMMAND.search(item.result)
    sign, tone = TOOL_SIGNS[ToolState.FAILED if has_failed else item.state]
    changes = changes_of(item.name, item.arguments, item.result)
    hint, body = _tool_body(item, changes, canvas)
    name = f"{item.name:<5} "
    left = [seg(" "), seg(str(sign), tone), seg(f" {name}")]
    told = safe(_about(item, changes)).replace("\n", " ")
    room = canvas.width - width_of(left) - (cells(hint) + 3 if hint else 1)
    # Of a path its end counts as much as its beginning; of a sentence its beginning does.
    shorten = cut if item.name == "task" else middle
    left.append(seg(shorten(told, max(8, room))))
    head = spread(left, [seg(f"{hint} ")], canvas.width) if hint else left
    return [head, *body]


_FAILED_COMMAND = re.compile(r"^exit code (?!0$)\d+$\Z", re.MULTILINE)
"""The call was carried out, and what it ran has failed."""
_MOVED = "it was changed since you read it"
_READ_ONLY = re.compile(r"^\S+ was asked; in mode read-only nothing but reading runs$")
_NO_RULE = "no rule allows it, and "
"""That nobody wrote a rule is no news to who is asked."""
_IN_PLAN = "mode plan only reads; to let it ask you instead, type: /mode ask"


def _tool_body(
    item: ToolItem, changes: Sequence[FileChange], canvas: Canvas
) -> tuple[str, list[Line]]:
    """Return the hint at the right of a tool call, and what stands below it."""
    if item.is_told:
        return "", []
    if item.state in {ToolState.FAILED, ToolState.REFUSED}:
        said = _READ_ONLY.sub(_IN_PLAN, ERROR_NAME.sub("", item.result))
        lines = folded(safe(said), canvas.width - 2)
        return "", _headed(lines, 4)
    if item.state is ToolState.WORKING:
        took = canvas.now_ms - item.began_ms
        hint = duration(took) if took >= 1_000 and canvas.now_ms else ""
        is_alone = item.name == "shell" and not fields_of(item.arguments).get("background")
        hint += "  ctrl-x stops" if hint and is_alone else ""
        said = item.activity or item.output
        return hint, _tail(said, item.output_lines, canvas)
    if changes and item.state is ToolState.DONE:
        lines = change_lines(changes, canvas.width)
        if _MOVED in item.result:
            told = f"{Sign.HELD} it was changed by somebody else since the agent had read it"
            lines = [*folded(told, canvas.width - 2), *lines]
        return ("ctrl-o opens" if len(lines) > _PREVIEW else ""), lines[:_PREVIEW]
    if item.name == "shell" or item.state is ToolState.STOPPED:
        hint = "ctrl-o opens" if item.result_lines > _TAIL + 1 else ""
        return hint, _tail(item.result, item.result_lines, canvas)
    return _HINTS.get(item.name, _no_hint)(item), []


def _no_hint(item: ToolItem) -> str:
    del item
    return ""


_HINTS: Mapping[str, Callable[[ToolItem], str]] = {
    "grep": lambda item: count(item.result_lines, "line"),
    "glob": lambda item: count(item.result_lines, "path"),
    "task": lambda item: "ctrl-o opens",
}


def _headed(lines: list[Line], most: int) -> list[Line]:
    more = len(lines) - most
    return [*lines[:most], [seg(f"{_INDENT}… {count(more, 'more line')}")]] if more > 0 else lines


def settled(text: str) -> str:
    """Return what a terminal would show in the end of lines that a program wrote over, such as a
    bar of its progress."""
    lines = (line.rstrip("\r") for line in text.split("\n"))
    return "\n".join(line.rpartition("\r")[2] for line in lines)


def _tail(said: str, lines: int, canvas: Canvas) -> list[Line]:
    """Return the last lines of what a tool says."""
    every = safe(settled(said)).split("\n")
    parts = [one for one in every if one.strip() and one != "stdout:"]
    shown = parts[-_TAIL:]
    made: list[Line] = [
        [seg(f"{_INDENT}│ ", Tone.FAINT), seg(cut(one, canvas.width - 6))] for one in shown
    ]
    more = max(lines - len(every) + len(parts), len(parts)) - len(shown)
    if more > 0 and made:
        made.insert(0, [seg(f"{_INDENT}│ ", Tone.FAINT), seg(f"… {count(more, 'line')} before")])
    return made


def _about(item: ToolItem, changes: Sequence[FileChange]) -> str:
    given = fields_of(item.arguments)
    if changes:
        names = ", ".join(change.path for change in changes)
        if item.state in {ToolState.FAILED, ToolState.REFUSED}:
            return names  # nothing came and nothing went
        added, removed = sum(one.added for one in changes), sum(one.removed for one in changes)
        return f"{names}  +{added} {MINUS}{removed}"
    told = _ABOUT.get(item.name)
    return told(given) if told else next((v for v in given.values() if isinstance(v, str)), "")


def about_call(item: ToolItem) -> str:
    """Return what a call is about in one line: its command, its pattern, its path."""
    return safe(_about(item, ())).replace("\n", " ")


def _read(given: Mapping[str, Any]) -> str:
    start, lines = given.get("start"), given.get("lines")
    if not isinstance(start, int):
        return str(given.get("path", ""))
    last = f"-{start + lines - 1}" if isinstance(lines, int) else "-"
    return f"{given.get('path', '')} {start}{last}"


_ABOUT: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    **ABOUT,
    "read": _read,
    "grep": lambda given: f"{given.get('pattern', '')}  in {given.get('path', '.')}",
}


def change_lines(changes: Sequence[FileChange], width: int, *, columns: bool = False) -> list[Line]:
    """Return the diffs of a call, each below the name of its file if there are several or if more
    became of it than other lines."""
    made: list[Line] = []
    drawn = diff_columns if columns else diff_lines
    for change in changes:
        if len(changes) > 1 or change.fate:
            counts = f"+{change.added} {MINUS}{change.removed}"
            told = f"{change.fate}, {counts}" if change.fate else counts
            name = middle(safe(change.path), max(8, width - cells(told) - 8))
            made.append([seg(f"{_INDENT}  {name}", Tone.STRONG), seg(f"  {safe(told)}")])
        made += drawn(change.rows, width)
    return made


def diff_lines(rows: Sequence[DiffRow], width: int) -> list[Line]:
    """Return rows of a diff in one column."""
    tones = {"+": Tone.OK, "-": Tone.BAD, " ": Tone.PLAIN}
    wide = max([len(str(row.number)) for row in rows], default=1)
    made: list[Line] = []
    for sign, number, text, _ in rows:
        mark = {"-": MINUS}.get(sign, sign)
        body = cut(safe(text), max(4, width - wide - 8))
        made.append([seg(f"{_INDENT}  {number:>{wide}} "), seg(f"{mark} {body}", tones[sign])])
    return made


def diff_columns(rows: Sequence[DiffRow], width: int) -> list[Line]:
    """Return rows of a diff in two columns, what was on the left."""
    half = (width - 3) // 2
    made: list[Line] = []
    for old, new in side_by_side(rows):
        left, right = (_side(one, half) for one in (old, new))
        room = half - width_of(left)
        made.append([*left, seg(" " * room), seg(" │ ", Tone.FAINT), *right])
    return made


def _side(row: DiffRow | None, width: int) -> Line:
    if row is None:
        return []
    tones = {"+": Tone.OK, "-": Tone.BAD, " ": Tone.PLAIN}
    mark = {"-": MINUS}.get(row.sign, row.sign)
    body = cut(safe(row.text), max(4, width - 8))
    return [seg(f"{row.number:>5} "), seg(f"{mark} {body}", tones[row.sign])]


_ANSWERED: Mapping[ApprovalState, tuple[Sign, Tone, str]] = {
    ApprovalState.YES: (Sign.DONE, Tone.OK, "allowed once"),
    ApprovalState.ALWAYS: (Sign.DONE, Tone.OK, "allowed, this exact action for the session"),
    ApprovalState.NO: (Sign.REFUSED, Tone.ASK, "declined"),
    ApprovalState.ANSWERED: (Sign.DONE, Tone.OK, "answered"),
    ApprovalState.GONE: (Sign.WAITING, Tone.PLAIN, "no longer asked"),
}
_KEYS = ("y once", "a always this exact action", "n no", "e edit", "? why")
_GOES_ON = "╎"
_REACHES = {
    "RunCommand": "runs in the sandbox: no network, writes stay in this folder",
    "WritePath": "writes in this folder · can be undone",
    "Fetch": "leaves this machine · cannot be undone",
}
"""What an action reaches, by the kind of right that it wants."""
_WHY = (
    "The mode of this session asks before each write and command. Yes is for exactly what is "
    "shown, once; a change of a single character is another question. No is told to the agent "
    "with your reason, and it goes on without."
)


def _approval(item: ApprovalItem, canvas: Canvas) -> list[Line]:
    action = read_action(item.text)
    if item.state is not ApprovalState.OPEN:
        return _answered(item, action, canvas)
    what = f" {action.tool}" if action else ""
    head = [seg(" "), seg(str(Sign.ASKS), Tone.ASK), seg(what, Tone.STRONG)]
    left = item.expires_ms - canvas.now_ms if item.expires_ms and canvas.now_ms else 0
    time = f" · {duration(left, brief=True)} left" if left > 0 else ""
    made: list[Line] = [
        spread(head, [seg("needs you", Tone.ASK), seg(f"{time} ")], canvas.width),
    ]
    for goes_on, line in _asked_lines(item, action, canvas):
        made.append([seg(f"{_INDENT}{_GOES_ON if goes_on else '│'} ", Tone.ASK), seg(line)])
    if action:
        why = action.why.removeprefix(_NO_RULE)
        made += folded(safe(f"{_reach(action)} · {why}"), canvas.width - 1)
    if item.explains:
        told = f"The runtime has it as: {item.text}" if action else ""
        made += folded(f"{_WHY} {safe(told)}", canvas.width - 1)
    groups = _KEYS if item.permits else ("type your answer below, then Enter",)
    keys = "   ".join(one.replace(" ", HARD_SPACE) for one in groups)
    return [*made, *folded(keys, canvas.width, Tone.STRONG)]


def _asked_lines(
    item: ApprovalItem, action: ShownAction | None, canvas: Canvas
) -> list[tuple[bool, str]]:
    """Return the exact action, whole: what would steer the terminal is spelled."""
    room = max(20, canvas.width - 6)
    if action is not None:
        return action_lines(action, room, ascii_only=canvas.ascii_only)
    text = escape_for_terminal(item.text, ascii_only=canvas.ascii_only)
    return [(number > 0, line) for number, line in enumerate(wrap_escaped(text, room))]


def _reach(action: ShownAction) -> str:
    found = [told for word, told in _REACHES.items() if word in action.reaches]
    return found[0] if found else "reaches beyond the workspace"


def _answered(item: ApprovalItem, action: ShownAction | None, canvas: Canvas) -> list[Line]:
    sign, tone, told = _ANSWERED[item.state]
    what = f"{action.tool} {about(action)}" if action else item.text
    said = f"{told}: {safe(item.reason)}" if item.reason else told
    first, *more = folded(said, canvas.width - 2)
    head = [seg(" "), seg(str(sign), tone), seg(f" {first[0].text.lstrip()}")]
    room = canvas.width - width_of(head) - 3
    if room > 12 and not more:
        head.append(seg(f"  {middle(safe(what).replace(chr(10), ' '), room)}"))
    return [head, *more]


def _note(item: NoteItem, canvas: Canvas) -> list[Line]:
    sign, tone = _NOTE_SIGNS.get(item.kind, (Sign.WAITING, Tone.PLAIN))
    first, *more = folded(safe(item.text), canvas.width - 2)
    return [[seg(" "), seg(str(sign), tone), seg(f" {first[0].text.lstrip()}")], *more]


def _quote(item: QuoteItem, canvas: Canvas) -> list[Line]:
    quote = item.quote
    assert quote is not None
    return _note(NoteItem(kind="quote", text=quote_text(quote, amount)), canvas)


def _end(item: EndItem, canvas: Canvas) -> list[Line]:
    end = item.end
    assert end is not None
    sign, tone = _END_SIGNS[end.reason]
    parts = [_WORDS.get(end.reason, str(end.reason))]
    parts += [duration(item.took_ms)] if item.took_ms else []
    if end.spent_usd is not None:
        parts.append(_spent_in(item, round(end.spent_usd * NANOS), end.unbilled_usd > 0))
    if end.changed:
        caches = sum(map(is_cache, end.paths))
        beside = f" and {caches:,} in caches" if caches else ""
        parts.append(f"{count(end.changed - caches, 'path')}{beside} changed{_taken_back(end)}")
    first, *more = folded(" · ".join(parts), canvas.width - 1)
    made: list[Line] = [[seg(" "), seg(str(sign), tone), seg(f" {first[0].text.lstrip()}")], *more]
    if end.message and end.reason is not EndReason.DONE:
        made += folded(safe(on_screen(end.message)), canvas.width - 2)
    if end.unbilled_usd:
        made += folded(
            f"{amount(round(end.unbilled_usd * NANOS))} of it {UNBILLED}", canvas.width - 2
        )
    if told := next_step(end):
        made += folded(told, canvas.width - 2)
    if end.not_undoable:
        what = "this turn" if end.unrecorded >= end.changed else "all of this turn"
        said = f"/undo cannot take {what} back: {safe(end.not_undoable)}"
        first, *more = folded(said, canvas.width - 2)
        mark = [seg(" "), seg(str(Sign.HELD), Tone.ASK), seg(f" {first[0].text.lstrip()}")]
        made += [mark, *more]
    for note in (*end.notes, *(f"cannot be undone: {what}" for what in end.lasting)):
        made += folded(
            safe(note.replace("<untrusted>", "").replace("</untrusted>", "")), canvas.width
        )
    return made


def _taken_back(end: SageEnd) -> str:
    if end.changed <= end.unrecorded:
        return ""
    them = "it" if end.changed == 1 else "them"
    return f", /undo takes {'the others' if end.unrecorded else them} back"


def _spent_in(item: EndItem, in_all: int, is_at_most: bool) -> str:
    """Return what the turn cost, and the session by then if that is more."""
    own = f"{AT_MOST if is_at_most else ''}{amount(item.spent)} spent"
    if in_all == item.spent:
        return own
    return f"{own}, {AT_MOST if item.is_at_most else ''}{amount(in_all)} in all"


_DRAWN: Mapping[type[ChatItem], Callable[[Any, Canvas], list[Line]]] = {
    PromptItem: _prompt,
    TextItem: _text,
    ToolItem: _tool,
    ApprovalItem: _approval,
    NoteItem: _note,
    QuoteItem: _quote,
    EndItem: _end,
}


def greeting(state: ViewState, width: int) -> list[Line]:
    """Return what stands on the screen before anything was said."""
    if not state.run:
        return []
    where = middle(safe(state.folder), max(8, width - cells(state.name) - 14))
    told = "Type what you want done, then Enter. @ names a file, / a command; F1 helps."
    head = [seg(f"{_INDENT}session "), seg(safe(state.name), Tone.STRONG), seg(f" in {where}")]
    made = [[], head]
    if state.real_model:
        made += folded(safe(f"Vega {_version()} asks: {model_sentence(state)}"), width)
    if state.model_problem:
        first, *more = folded(safe(state.model_problem), width)
        sign = [seg(" "), seg(str(Sign.FAILED), Tone.BAD), seg(f" {first[0].text.lstrip()}")]
        made += [[], sign, *more]
    return [*made, [], *folded(told, width)]


@cache
def _version() -> str:
    """Return the version: the records of installed packages are slow to read."""
    return version("vegakit")


def model_sentence(state: ViewState) -> str:
    """Return which model is asked and what it costs."""
    real = state.real_model or state.model
    alias = "" if real == state.model else f"{state.model} is "
    price = state.model_price
    return f"{alias}{real}{f', {price} per million tokens' if price else ''}"


# The status line: mode, model, money, context, and the keys that are valid now.


def money_line(state: ViewState, *, is_wide: bool) -> Line:
    """Return the budget as a bar and in figures; where nothing limits it, what was spent."""
    own = state.money
    most = "≤ " if own.unbilled else ""
    if own.at_most is None:
        return [seg(f"{most}{amount(own.spent)} spent, no limit")]
    told = shown(own)
    solid, hatched, empty = bar_cells(own.at_most, own.spent, own.reserved, 10)
    line = [seg("█" * solid + "▒" * hatched, Tone.WORK), seg("░" * empty, Tone.FAINT)]
    line.append(seg(f" {most}{told.spent} of {told.at_most}"))
    if is_wide:
        held = f"  {told.reserved} reserved" if own.reserved else ""
        line.append(seg(f"{held}  {told.left} left"))
    return line


def status_line(state: ViewState, width: int, keys: str) -> Line:
    """Return the status. Where there is no room all keys but the first go, then most of the model,
    the context, the model, and the keys last."""
    if not state.run:
        return [seg(" opening the session …")]
    is_wide = width >= 100
    middle_part = money_line(state, is_wide=is_wide)
    context = "" if state.context_share is None else f" · context {100 * state.context_share:.0f} %"
    model, short = (middle(safe(state.model_told), most) for most in (24, 14))
    groups = keys.split("  ")
    said = ["  ".join(groups[:many]) for many in range(len(groups), 0, -1)]
    line: Line = []
    for name, share, told in (
        *((model, context, one) for one in said),
        (short, context, said[-1]),
        (short, "", said[-1]),
        ("", "", said[-1]),
        ("", "", ""),
    ):
        left = [seg(f" {state.mode}{' · ' if name else ''}{name} · "), *middle_part, seg(share)]
        line = spread(left, [seg(f"{told} ")], width) if told else left
        if width_of(line) <= width and (not told or line is not left):
            break
    return line
