"""The screen of `vega demo` shows a line for each event, in a terminal a live tree below, and a
summary at the end."""

import asyncio
import textwrap
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TextIO

from msgspec import Struct

from vegakit.cli.demo.scenario import BUDGET, ScenarioEvent, ScenarioEventKind, ScenarioResult
from vegakit.cli.look import PIPE, SPINNER, LivePlace, Look, Paint, Sign, Tone
from vegakit.cli.main import Argument, CommandParser
from vegakit.control import ProcessView
from vegakit.money import NANOS, Money


def demo_parser(command: str, description: str, *, faster: str) -> CommandParser:
    """Return the arguments of a demo: all of them can be quick, and tell their facts alone."""
    return CommandParser(
        prog=command,
        description=description,
        arguments=[
            Argument("--fast", action="store_true", help=faster),
            Argument("--json", action="store_true", help="only the facts, as JSON"),
        ],
    )


# The signs and colours of what happens.


BOLD, DIM, WORKING = Tone.STRONG, Tone.FAINT, Tone.WORK
EVENT_STYLES: Mapping[ScenarioEventKind, tuple[str, str]] = {
    ScenarioEventKind.BEGAN: ("▶", Tone.STRONG),
    ScenarioEventKind.DONE: (str(Sign.DONE), Tone.OK),
    ScenarioEventKind.CRASHED: (str(Sign.FAILED), Tone.BAD),
    ScenarioEventKind.RESTARTED: (str(Sign.RESTARTED), Tone.OK),
    ScenarioEventKind.REFUSED: (str(Sign.REFUSED), Tone.ASK),
    ScenarioEventKind.FAILED: (str(Sign.FAILED), Tone.BAD),
    ScenarioEventKind.OPENED: (str(Sign.OPEN), Tone.ASK),
}
"""Each with its sign and its colour."""


# The team of `vega demo` as a tree: what each process does, its restarts and its money.


_BUSY = {"running", "waiting", "restarting"}


def tree(
    views: Sequence[ProcessView], last: Mapping[str, ScenarioEvent], paint: Paint, tick: int = 0
) -> list[str]:
    """Return the processes as a tree; `last` is what was last told of each."""
    return [
        f"  {paint(lead, DIM)}{paint(name_of(view.path), BOLD)}"
        f"{' ' * (20 - len(lead) - len(name_of(view.path)))}"
        f"{_doing(view, last.get(name_of(view.path)), paint, tick)}"
        f"{paint(_restarts(view), Tone.ASK)}{paint(exact(view.spent), '' if view.spent else DIM)}"
        for lead, view in _leads(views)
    ]


def name_of(path: str) -> str:
    """Return the name of a process without what stands above it."""
    return path.rpartition("/")[2]


def exact(amount: Money) -> str:
    """Return an amount with all decimals that the prices of the demo can make, so that the rows add
    up."""
    return f"${amount / NANOS:.5f}"


def _leads(
    views: Sequence[ProcessView], parent: str = "", indent: str = ""
) -> Iterator[tuple[str, ProcessView]]:
    below = [view for view in views if view.parent == parent]
    for view in below:
        is_last = view is below[-1]
        yield indent + ("└─ " if is_last else "├─ ") if parent else "", view
        deeper = indent + ("   " if is_last else "│  ") if parent else ""
        yield from _leads(views, view.path, deeper)


def _doing(view: ProcessView, last: ScenarioEvent | None, paint: Paint, tick: int) -> str:
    if view.kind == "supervisor":
        return paint(f"  {'supervisor: ' + view.strategy:30}", DIM)
    if view.state in _BUSY:
        sign, style, words = SPINNER[tick % len(SPINNER)], WORKING, view.waiting_for or view.state
    elif last is None:
        sign, style, words = "·", DIM, view.state
    else:
        sign, style, words = *EVENT_STYLES[last.mark], last.note
    return f"{paint(sign, style)} {words:30}"


def _restarts(view: ProcessView) -> str:
    return f"{f'↻ {view.restarts}' if view.restarts else '':5}"


# How `vega demo` is shown: a line for whatever happens, and in a terminal a living tree below.


_FRAME_S = 0.1
_MARGIN, _ENDLESS = 22, 10_000


class DemoScreen:
    """Shows nothing, and remembers what was last told of each."""

    def __init__(self) -> None:
        self.paint: Paint = PIPE.paint
        self.width = _ENDLESS
        self.last: dict[str, ScenarioEvent] = {}

    def tell(self, event: ScenarioEvent) -> None:
        """Remember an event."""
        self.last[event.who] = event

    def show(self, lines: Sequence[str]) -> None:
        """Print lines; here none."""

    @asynccontextmanager
    async def open(self, views: Callable[[], list[ProcessView]]) -> AsyncGenerator[None]:
        """Show the processes while the block runs; here nothing."""
        yield


class LineScreen(DemoScreen):
    """A line for each event; without a width of the look none of them is broken."""

    def __init__(self, out: TextIO, look: Look = PIPE) -> None:
        super().__init__()
        self.paint = look.paint
        self.width = look.width or self.width
        self._out = out
        self._look = look

    def tell(self, event: ScenarioEvent) -> None:
        """Print an event."""
        super().tell(event)
        self.show(_lines(event, self.paint, self.width))

    def show(self, lines: Sequence[str]) -> None:
        """Print lines. A reader that leaves early, like `head`, is no failure of who tells."""
        with suppress(BrokenPipeError):
            self._out.write("".join(f"{self._look.text(line)}\n" for line in lines))
            self._out.flush()


class LiveScreen(LineScreen):
    """A screen on which events scroll up, and the tree stays below them and is drawn anew in
    place."""

    def __init__(self, out: TextIO, look: Look) -> None:
        super().__init__(out, look)
        self._views: Callable[[], list[ProcessView]] = list
        self._place = LivePlace(out)
        self._tick = 0

    def show(self, lines: Sequence[str]) -> None:
        """Print lines above the tree."""
        text = self._look.text
        self._place.draw([text(line) for line in self._frame()], [text(line) for line in lines])

    @asynccontextmanager
    async def open(self, views: Callable[[], list[ProcessView]]) -> AsyncGenerator[None]:
        """The last frame is wiped away at the end."""
        self._views = views
        turning = asyncio.ensure_future(self._turn())
        try:
            yield
        finally:
            turning.cancel()
            await asyncio.wait([turning])
            self._views = list
            self._place.close()

    async def _turn(self) -> None:
        while True:
            self._tick += 1
            self.show([])
            await asyncio.sleep(_FRAME_S)

    def _frame(self) -> list[str]:
        views = self._views()
        return ["", *tree(views, self.last, self.paint, self._tick)] if views else []


def _lines(event: ScenarioEvent, paint: Paint, width: int) -> list[str]:
    sign, style = EVENT_STYLES[event.mark]
    at, who = f"{event.at_ms / 1000:4.1f} s", f"{event.who:12}"
    first, *more = textwrap.wrap(event.text, max(20, width - _MARGIN))
    head = f"{paint(at, DIM)}  {paint(sign, style)} {paint(who, BOLD)}"
    return [f"{head}{first}", *(" " * _MARGIN + rest for rest in more)]


# What `vega demo` says at its end: figures from the ledger, the wallets and the traces.


_STYLES = {"restart": Tone.OK, "refusal": Tone.ASK, "breaker": Tone.ASK}


class TeamMember(Struct, frozen=True):
    """A member of the team and what it spent."""

    path: str
    spent: Money
    restarts: int


class MoneyComparison(Struct, frozen=True):
    """The same money, written down in three places."""

    ledger: Money
    wallets: Money
    traces: Money

    @property
    def agree(self) -> bool:
        """Whether ledger, wallets and traces say the same."""
        return self.ledger == self.wallets == self.traces


class DemoSummary(Struct, frozen=True):
    """The figures of the demo. `alone_s` is how long the calls take one
    after another."""

    seen: ScenarioResult
    members: Sequence[TeamMember]
    books: MoneyComparison
    wasted: Money
    wall_s: float
    alone_s: float
    saved_s: float
    processes_left: int
    tasks_left: int
    trace_id: str
    trace_file: str
    trace_command: str


def page(facts: DemoSummary, paint: Paint, width: int) -> list[str]:
    """Return the last page of the demo."""
    seen = facts.seen
    rows = {
        "restart": f"reviewer: {seen.crash}, back in {seen.back_after_ms:.1f} ms, same message, "
        "same wallet",
        "refusal": f"illustrator: {seen.refusal}",
        "breaker": f"announcer: opened {seen.breaker_opened}×, then {bool(seen.not_sent):d} call "
        f"not sent, closed {seen.breaker_closed}×",
        "money": _money(facts),
        "time": f"{facts.wall_s:.1f} s; one call after another takes {facts.alone_s:.1f} s: "
        f"{facts.saved_s:.1f} s saved",
        "left": f"{facts.processes_left} processes, {facts.tasks_left} tasks",
        "trace": facts.trace_file,
    }
    told = [line for name, text in rows.items() for line in _row(name, text, paint, width)]
    return ["", *told, "", *_next(facts, paint)]


def _money(facts: DemoSummary) -> str:
    books, wasted = facts.books, exact(facts.wasted) if facts.wasted else "nothing"
    spent = f"{exact(books.ledger)} of {BUDGET}, {wasted} wasted; "
    if books.agree:
        return spent + "ledger, wallets and traces agree"
    return spent + f"but wallets say {exact(books.wallets)}, traces {exact(books.traces)}"


def _row(name: str, text: str, paint: Paint, width: int) -> list[str]:
    first, *more = textwrap.wrap(text, max(20, width - 11), break_long_words=False)
    return [
        f"  {paint(f'{name:9}', _STYLES.get(name, BOLD))}{first}",
        *(" " * 11 + rest for rest in more),
    ]


def _next(facts: DemoSummary, paint: Paint) -> list[str]:
    commands = {
        facts.trace_command: "every call of this run, as a tree",
        "vega config": "where models, keys and budgets are set",
        "vega demo --json": "the same facts, for programs",
    }
    widest = max(map(len, commands))
    return [
        f"  {paint('next' if not n else '', BOLD)}{' ' * (5 if not n else 9)}"
        f"{paint(f'{command:{widest}}', Tone.WORK)}  {paint(words, DIM)}"
        for n, (command, words) in enumerate(commands.items())
    ]
