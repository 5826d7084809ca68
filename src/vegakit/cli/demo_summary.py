"""What `vega demo` says at its end: figures from the ledger, the wallets and the traces."""

import textwrap
from collections.abc import Sequence

from msgspec import Struct

from vegakit.cli.demo_cast import BUDGET
from vegakit.cli.demo_paint import BOLD, DIM, Paint
from vegakit.cli.demo_scene import Seen
from vegakit.cli.demo_tree import exact
from vegakit.money import Money

__all__ = ["Books", "Member", "Summary", "page"]


_STYLES = {"restart": "1;32", "refusal": "1;33", "breaker": "1;35"}


class Member(Struct, frozen=True):
    path: str
    spent: Money
    restarts: int


class Books(Struct, frozen=True):
    """The same money, written down in three places; nano-dollars."""

    ledger: Money
    wallets: Money
    traces: Money

    @property
    def agree(self) -> bool:
        return self.ledger == self.wallets == self.traces


class Summary(Struct, frozen=True):
    """Money is in nano-dollars. `alone_s` is how long the calls take one after another."""

    seen: Seen
    members: Sequence[Member]
    books: Books
    wasted: Money
    wall_s: float
    alone_s: float
    saved_s: float
    processes_left: int
    tasks_left: int
    trace_id: str
    trace_file: str
    trace_command: str


def page(facts: Summary, paint: Paint, width: int) -> list[str]:
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


def _money(facts: Summary) -> str:
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


def _next(facts: Summary, paint: Paint) -> list[str]:
    commands = {
        facts.trace_command: "every call of this run, as a tree",
        "vega config": "where models, keys and budgets are set",
        "vega demo --json": "the same facts, for programs",
    }
    widest = max(map(len, commands))
    return [
        f"  {paint('next' if not n else '', BOLD)}{' ' * (5 if not n else 9)}"
        f"{paint(f'{command:{widest}}', '36')}  {paint(words, DIM)}"
        for n, (command, words) in enumerate(commands.items())
    ]
