"""The progress of `vega run` while it runs: who works, who waits, what is spent and what is left.

It stands on stderr, only on a terminal, in at most ten rows that are drawn in place and gone at the
end. What the program prints goes above it, and a question to a person takes its place. What a run
came to is counted from its trace, and told in one line at its end.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TextIO

from vegakit.cli.display import doing, name_of, needs_person, state_of
from vegakit.cli.look import (
    HARD_SPACE,
    SPINNER,
    Cell,
    Column,
    LivePlace,
    Look,
    Rounding,
    Sign,
    bar,
    cells,
    count,
    duration,
    figures,
    middle,
    money,
    moneys,
    narrower,
    one_line,
    table,
)
from vegakit.control import ProcessKind, ProcessStatus, ProcessView, Question
from vegakit.events import CallKind, CallTraced
from vegakit.money import Money, to_usd
from vegakit.ports import Sink, share_of, traits_of
from vegakit.program import OverlapReport, WastedCost

_FIRST_S, _FRAME_S = 0.3, 0.1
_SHARE = 20
"""A frame may take one part in so many of the time: with many processes it is drawn less often."""
_MOST_ROWS = 5
_BAR, _LEAST_BAR = 20, 4
_COLUMNS = (
    Column("", name=True),
    Column(""),
    Column("", drop=2, least=8),
    Column("", right=True, drop=1),
    Column("", right=True),
)
_WORKING = {ProcessStatus.RUNNING, ProcessStatus.WAITING}


class WatchedRuntime(Protocol):
    """A runtime as the progress of a run needs it."""

    def ps(self) -> list[ProcessView]:
        """Return a view of each process."""
        ...

    def interrupts(self) -> list[Question]:
        """Return the questions that people have not answered."""
        ...


class RunProgress:
    """The rows of a run that goes on. Nothing is drawn while a question is open: what a person is
    asked must be the last thing on the screen."""

    def __init__(self, rt: WatchedRuntime, name: str, at_most: int | None) -> None:
        self._rt = rt
        self._name = name
        self.live: Callable[[int], int | None] = lambda _: at_most
        """What it may come to at most by now, when so much is spent."""
        self._began = time.monotonic()
        self._calls = self._spent = 0
        self._place: LivePlace | None = None
        self._look = Look()
        self._turning: asyncio.Task[None] | None = None

    def open(self, out: TextIO, look: Look) -> None:
        """Begin to draw."""
        self._place, self._look = LivePlace(out), look
        self._turning = asyncio.ensure_future(self._turn())

    def clear(self, _: object = None) -> None:
        """Wipe the rows away, since something else is printed; the next frame brings them back."""
        if self._place is not None:
            self._place.close()

    async def aclose(self) -> None:
        """End, and leave nothing behind."""
        if self._turning is not None:
            self._turning.cancel()
            with suppress(asyncio.CancelledError):
                await self._turning
            self._turning = None
        self.clear()

    def count_call(self, cost: int) -> None:
        """Count an answer, and what it cost."""
        self._calls += 1
        self._spent += cost

    async def _turn(self) -> None:
        await asyncio.sleep(_FIRST_S)  # a quick run shows nothing
        tick = 0
        while True:
            began = time.monotonic()
            if self._rt.interrupts():
                self.clear()
            elif self._place is not None:
                took_s = began - self._began
                self._place.draw(self.frame(self._look, took_s, SPINNER[tick % len(SPINNER)]))
            tick += 1
            await asyncio.sleep(max(_FRAME_S, _SHARE * (time.monotonic() - began)))

    def frame(self, look: Look, took_s: float, spin: str = str(Sign.WORKING)) -> list[str]:
        """Return the rows as they are now, none of them wider than the look."""
        now_ms = time.time_ns() // 1_000_000
        views = [view for view in self._rt.ps() if view.kind is not ProcessKind.SUPERVISOR]
        rows = sorted(views, key=_urgency)
        shown = rows[:_MOST_ROWS]
        rate = sum(view.tokens_per_s for view in views)
        facts = [
            f"{sum(view.state in _WORKING and not needs_person(view) for view in views)} running",
            f"{sum(view.state not in _WORKING for view in views)} waiting",
            f"{count(self._calls, 'call')} done",
            f"{rate:,.1f} tok/s",
            duration(took_s * 1000),
        ]
        lines = [self._head(look, facts), *_table(shown, now_ms, narrower(look, 1), spin)]
        if len(rows) > len(shown):
            lines.append(f"  and {len(rows) - len(shown):,} more")
        lines.append(self._money(look, Money(sum(view.reserved for view in views))))
        return lines

    def _head(self, look: Look, facts: Sequence[str]) -> str:
        """Return the name and as many of the facts as fit, the first of them first."""
        width = look.width or 80
        name = middle(one_line(self._name), width // 2, look.text("…"))
        for kept in range(len(facts), 0, -1):
            head = look.text(f"{name}  {' · '.join(facts[:kept])}")
            if cells(head) <= width:
                return head
        return name

    def _money(self, look: Look, reserved: Money) -> str:
        """Return the budget: as many of its figures as fit, spent and left in any case, and a bar
        in the room that is left."""
        spent, at_most = self._spent, self.live(self._spent)
        if at_most is None:
            return f"{money(spent)} spent, {money(reserved)} reserved"
        shown = figures(at_most, spent, reserved)
        told = f"{shown.spent} spent  {shown.left} left"
        width = look.width or 80
        for more in (f"{shown.reserved} reserved  ", f"at most {shown.at_most}  "):
            told = more + told if cells(more + told) <= width else told
        room = min(_BAR, width - cells(told) - 2)
        if room < _LEAST_BAR:
            return told
        return f"{bar(look, at_most, spent, reserved, room)}  {told}"


def _urgency(view: ProcessView) -> tuple[int, int]:
    """Sort what needs a person first, then who works, those that began first on top; then the
    rest."""
    if needs_person(view):
        return 0, view.since_ms
    return (1, view.since_ms) if view.state in _WORKING else (2, -view.since_ms)


def _table(views: Sequence[ProcessView], now_ms: int, look: Look, spin: str) -> list[str]:
    amounts = moneys([view.spent + view.reserved for view in views])
    rows: list[tuple[Cell | str, ...]] = []
    for view, amount in zip(views, amounts, strict=True):
        state = state_of(view)
        text = state.text.replace(str(Sign.WORKING), spin)
        took = duration(now_ms - view.since_ms) if view.since_ms else ""
        note = f"{amount} reserved" if view.reserved and amount else amount
        name, does = one_line(name_of(view)).rstrip("~"), doing(view, now_ms)
        rows.append((name, Cell(text, state.tone), does, took, note))
    told = table(_COLUMNS, rows, look, head=False)
    return [f" {line}" for line in told.splitlines()]


# What a run came to: counted from its trace, told in one line.


_WORTH_TELLING_S = 0.1


class RunTotals:
    """A sink around another one."""

    def __init__(self) -> None:
        self._next: Sink | None = None
        self.traits, self.share = traits_of(), share_of()
        self.progress: RunProgress | None = None
        self.calls = self.kept = self.input_tokens = self.output_tokens = self.spent = 0
        self.reserved = self.wasted = self.sequential_ms = self.critical_ms = 0
        self.guesses = ""
        """The limit on what calls behind guards cost in vain, if such calls were begun."""
        self.left: int | None = None
        """What is left of the budget, if there is one and the run came so far."""

    def around(self, sink: Sink | None) -> "RunTotals":
        """Pass calls on to this sink, too."""
        self._next, self.traits, self.share = sink, traits_of(sink), share_of(sink)
        return self

    def record(self, call: CallTraced) -> None:
        """Count a call."""
        if call.kind is CallKind.MODEL and call.was_made:
            self.calls += 1
            if self.progress is not None:
                self.progress.count_call(call.cost or 0)
            self.input_tokens += call.input_tokens or 0
            self.output_tokens += call.output_tokens or 0
            self.spent += call.cost or 0
            self.reserved += call.reserved or 0
        if self._next is not None:
            self._next.record(call)

    def on_wasted(self, news: WastedCost) -> None:
        """Count what a speculative call cost that was not used."""
        self.wasted += news.amount

    def on_overlapped(self, news: OverlapReport) -> None:
        """The program itself is the last to say it; tools written in Vega are inside its calls."""
        self.sequential_ms, self.critical_ms = news.sequential_ms, news.critical_ms

    async def aclose(self) -> None:
        """Close the sink behind."""
        if self._next is not None:
            await self._next.aclose()

    def line(self, took_s: float, limit: object = None) -> str:
        """Return the totals in a line, the money with the limit of what may be spent."""
        given = f"{self.input_tokens:,} → {self.output_tokens:,} tokens"
        took = f"{duration(took_s * 1000)}{self._saved(took_s)}"
        calls = count(self.calls, "call") + (f", {self.kept:,} kept" if self.kept else "")
        parts = [took, calls, given, self._money(limit)]
        return " · ".join(part.replace(" ", HARD_SPACE) for part in parts)

    def _saved(self, took_s: float) -> str:
        """Return the time saved, only where calls overlapped."""
        sequential_s = self.sequential_ms / 1000
        if sequential_s - took_s < _WORTH_TELLING_S:
            return ""
        chain = f"longest chain {duration(self.critical_ms)}"
        return f" (one after another {duration(self.sequential_ms)}, {chain})"

    def _money(self, limit: object) -> str:
        share = " spent" if limit is None else f" of the {limit}"
        # A run that goes on wastes again, without paying, what an earlier process paid for.
        unused = min(self.wasted, self.spent)
        wasted = f", {money(unused)} of it wasted" if unused else ""
        guesses = f", speculation {self.guesses}" if self.guesses else ""
        left = "" if self.left is None else f", {money(self.left, rounding=Rounding.DOWN)} left"
        return f"{money(self.spent)}{share}{wasted}{guesses}{left}"

    def as_json(self, took_s: float) -> dict[str, Any]:
        """Return the totals for programs."""
        return {
            "seconds": round(took_s, 3),
            "calls": self.calls,
            **({"kept": self.kept} if self.kept else {}),
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "sequential_seconds": round(self.sequential_ms / 1000, 3),
            "critical_path_seconds": round(self.critical_ms / 1000, 3),
            "reserved_usd": to_usd(self.reserved),
            "spent_usd": to_usd(self.spent),
            "wasted_usd": to_usd(self.wasted),
            "left_usd": to_usd(self.left),
        }
