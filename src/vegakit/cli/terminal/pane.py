"""The right pane: the steps of the agent, its sub-agents with their money, files and jobs; and the
page that asks before turns are taken back."""

from collections.abc import Collection, Sequence

from vegakit.cli.look import Sign, Tone, bar_cells, cells, count, cut, duration, middle, money
from vegakit.cli.terminal.diffs import FATE_DELETED, changes_of
from vegakit.cli.terminal.draw import MINUS, TOOL_SIGNS, Line, folded, safe, seg, spread
from vegakit.cli.terminal.state import (
    AgentView,
    ChangedFile,
    ChatItem,
    PromptItem,
    ToolItem,
    ToolState,
    ViewState,
)
from vegakit.sage import UndoTurn

_METER = 6
_MOST_FILES, _MOST_AGENTS = 12, 10


def pane_lines(state: ViewState, width: int, now: int) -> list[Line]:
    """Return the pane as lines. A part that has nothing to say is left out."""
    parts = (
        ("Todo", _todo(state, width)),
        ("Agents", _agents(state, width)),
        ("Changed files", _files(state, width)),
        ("Jobs", _jobs(state, width, now)),
        ("Waiting prompts", _queue(state, width)),
    )
    made: list[Line] = []
    for title, lines in parts:
        if lines:
            made += [[], [seg(f" {title}", Tone.STRONG)], *lines]
    empty = [[], [seg(" Steps, agents, files and jobs")], [seg(" of this session stand here.")]]
    return made or [cut_line(line, width) for line in empty]


def cut_line(line: Line, width: int) -> Line:
    """Return a line of one piece that fits."""
    return [seg(cut(one.text, width)) for one in line]


def _todo(state: ViewState, width: int) -> list[Line]:
    made: list[Line] = []
    is_next = True
    for step in state.todo:
        sign, tone = (Sign.DONE, Tone.OK) if step.done else (Sign.WAITING, Tone.PLAIN)
        if not step.done and is_next and state.is_working:
            sign, tone = Sign.WORKING, Tone.WORK
        is_next = is_next and step.done
        text = cut(safe(step.text), width - 4)
        made.append([seg(" "), seg(str(sign), tone), seg(f" {text}")])
    return made


def _agents(state: ViewState, width: int) -> list[Line]:
    if not state.agents:
        return []
    own = state.money
    root = [seg(" "), *_meter(own.at_most or 0, own.spent, own.reserved), seg(" main")]
    made = [spread(root, [seg(f"{money(own.spent)} ")], width)]
    shown = [*state.agents.values()][-_MOST_AGENTS:]
    for number, agent in enumerate(shown):
        lead = "└" if number == len(shown) - 1 else "├"
        made += _agent(agent, lead, width)
    return made


def _agent(agent: AgentView, lead: str, width: int) -> list[Line]:
    sign, tone = TOOL_SIGNS[agent.state]
    left = [seg(f" {lead} ", Tone.FAINT), seg(str(sign), tone), seg(f" {agent.kind} ")]
    most = f"≤ {money(agent.at_most)} " if agent.at_most else ""
    about = agent.activity or agent.prompt
    room = width - 6 - cells(agent.kind) - cells(most) - 2
    left.append(seg(cut(safe(about).replace("\n", " "), max(4, room))))
    return [spread(left, [seg(most)], width)]


def _meter(at_most: int, spent: int, reserved: int) -> Line:
    solid, hatched, empty = bar_cells(at_most, spent, reserved, _METER)
    return [seg("█" * solid + "▒" * hatched, Tone.WORK), seg("░" * empty, Tone.FAINT)]


def _files(state: ViewState, width: int) -> list[Line]:
    files = [*state.changed.values()]
    figures = [
        ("", "command")
        if one.by_command
        else ("deleted" if one.is_deleted else f"+{one.added}", f"{MINUS}{one.removed}")
        for one in files
    ]
    wide = [max((len(pair[at]) for pair in figures), default=0) for at in (0, 1)]
    made: list[Line] = []
    for one, (added, removed) in [*zip(files, figures, strict=True)][-_MOST_FILES:]:
        counts = [
            seg(f"{added:>{wide[0]}}", Tone.OK),
            seg(f" {removed:>{wide[1]}} ", Tone.PLAIN if one.by_command else Tone.BAD),
        ]
        name = middle(safe(one.path), width - sum(wide) - 5)
        made.append(spread([seg(f" {name}")], counts, width))
    more = len(files) - len(made)
    return [[seg(f" {more} more")], *made] if more else made


def _jobs(state: ViewState, width: int, now: int) -> list[Line]:
    made: list[Line] = []
    for job in state.jobs.values():
        sign, tone = (Sign.WORKING, Tone.WORK) if job.is_running else (Sign.DONE, Tone.OK)
        took = duration(now - job.began_ms, brief=True) if job.is_running else ""
        name = cut(safe(job.command).replace("\n", " "), width - len(took) - 6)
        left = [seg(" "), seg(str(sign), tone), seg(f" {name}")]
        made.append(spread(left, [seg(f"{took} ")], width) if took else left)
    return made


def _queue(state: ViewState, width: int) -> list[Line]:
    return [
        [seg(f" {Sign.WAITING} {cut(safe(one.text).replace(chr(10), ' '), width - 4)}")]
        for one in state.queue
    ]


def help_page(rows: Sequence[tuple[str, str]], width: int) -> list[Line]:
    """Return keys and commands in two columns."""
    wide = max(cells(name) for name, _ in rows) + 3
    return [
        [seg(f" {name:<{wide}}", Tone.STRONG), seg(cut(told, max(8, width - wide - 2)))]
        for name, told in rows
    ]


# What an undo takes back.

_BY = "by a command"


def turn_of(recorded: UndoTurn) -> int:
    """Return the number of a turn in its session."""
    number = recorded.key.rpartition("/")[2]
    return int(number) if number.isdecimal() else 0


def undo_page(
    recorded: Sequence[UndoTurn],
    changed: Sequence[ChangedFile],
    width: int,
    stays: Sequence[PromptItem] = (),
) -> list[Line]:
    """Return what an undo takes back: the turns with their prompts and files, those that commands
    changed, too, and what nobody can take back. `stays` are later turns of which no file was
    recorded: they go out of the conversation, too."""
    counted = {
        f"/{one.path}": f"{'deleted, ' if one.is_deleted else ''}+{one.added} {MINUS}{one.removed}"
        for one in changed
    }

    def by_whom(path: str) -> str:
        # A tool may have been called with a longer name of the path.
        return next((told for name, told in counted.items() if name.endswith(f"/{path}")), _BY)

    made: list[Line] = []
    for one in recorded:
        made += _heading(turn_of(one), f"{count(one.paths, 'path')}  ", one.label, width)
        names = [middle(safe(name), width - 24) for name in one.names]
        wide = max(map(cells, names), default=0)
        for path, name in zip(one.names, names, strict=True):
            room = " " * (wide - cells(name) + 2)
            made.append([seg(f"     {name}{room}{by_whom(path)}")])
        if (more := one.paths - len(one.names)) > 0:
            made.append([seg(f"     and {more:,} more, of which some may be of others")])
        for what in one.lasting:
            made += folded(f"cannot be undone: {safe(what)}", width, indent="     ")
    for prompt in stays:
        told = "goes out of the conversation; what it wrote was not recorded, and STAYS"
        made += _heading(prompt.turn, "", prompt.text, width)
        made += folded(told, width, indent="     ")
    return made


def _heading(turn: int, paths: str, label: str, width: int) -> list[Line]:
    head = f"   turn {turn}  {paths}"
    return [
        [],
        [
            seg(head, Tone.STRONG),
            seg(cut(safe(label).replace("\n", " "), max(8, width - cells(head) - 2))),
        ],
    ]


def changed_since(items: Sequence[ChatItem], turn: int) -> list[ChangedFile]:
    """Return the files that tools changed from a turn on."""
    found: dict[str, ChangedFile] = {}
    is_since = False
    for item in items:
        if isinstance(item, PromptItem):
            is_since = item.turn >= turn
        if is_since and isinstance(item, ToolItem) and item.state is ToolState.DONE:
            for change in changes_of(item.name, item.arguments, item.result):
                known = found.setdefault(change.path, ChangedFile(change.path))
                known.added += change.added
                known.removed += change.removed
                known.is_deleted = change.fate == FATE_DELETED
    return [*found.values()]


def later_prompts(items: Sequence[ChatItem], taken: Collection[int]) -> list[PromptItem]:
    """Return the prompts after the first of these turns that are of none of them."""
    said = [one for one in items if isinstance(one, PromptItem)]
    return [one for one in said if one.turn > min(taken) and one.turn not in taken]
