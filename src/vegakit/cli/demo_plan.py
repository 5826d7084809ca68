"""`vega demo plan`: a model plans 355 agents, is told what that may cost before a cent is spent,
mends its plan, and runs it. No key and no network: only the models are scripted."""

import argparse
import asyncio
import json
import shutil
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TextIO

import msgspec

from vegakit.cli.demo_paint import BOLD, DIM, Paint, painter
from vegakit.cli.demo_plan_cast import AGENTS, MAX_COST, MENDED, PLAN, TOLD, Pace, planner
from vegakit.config import wants_colour
from vegakit.errors import BugError
from vegakit.money import Money, show
from vegakit.program import ProcessSpawned, Wallet
from vegakit.runtime import Runtime

__all__ = ["Facts", "Screen", "play", "run"]

_FAST = 0.05
_TITLE = "No key, no network, scripted models: a planner writes programs, Vega holds their purse."
_FRAME_S, _BAR = 0.08, 30
_RED, _GREEN, _YELLOW, _CYAN = "1;31", "1;32", "1;33", "36"
_WIPE, _HIDE, _SHOW = "\r\x1b[K", "\x1b[?25l", "\x1b[?25h"


class Facts(msgspec.Struct, frozen=True):
    """Money is in nano-dollars. `alone_s` is how long the calls take one after another; `asked`
    are the calls of programs before the first was accepted, which are none."""

    refusal: str
    asked: int
    account: dict[str, Any]
    calls: int
    spent: Money
    ledger: Money
    wall_s: float
    alone_s: float
    answer: str
    processes_left: int

    @property
    def holds(self) -> bool:
        return self.spent == self.ledger and not self.asked and not self.processes_left


def run(words: Sequence[str]) -> int:
    chosen = _parser().parse_args(words)
    out = None if chosen.json else sys.stdout
    screen = Screen(out, colour=out is not None and wants_colour(out))
    try:
        facts = asyncio.run(play(screen, _FAST if chosen.fast else 1.0))
    except KeyboardInterrupt:
        return 130
    if chosen.json:
        print(json.dumps(msgspec.to_builtins(facts), indent=2, ensure_ascii=False))
    return 0 if facts.holds else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega demo plan",
        description="Watch a model plan 355 agents, be refused with the price, and mend its plan.",
    )
    parser.add_argument("--fast", action="store_true", help="twenty times faster")
    parser.add_argument("--json", action="store_true", help="only the facts, as JSON")
    return parser


class Screen:
    """Lines for whoever reads, and in a terminal one that moves; None shows nothing."""

    def __init__(self, out: TextIO | None, *, colour: bool) -> None:
        self._out = out
        self.paint: Paint = painter(colour=colour)
        self._moves = colour
        self.width = shutil.get_terminal_size().columns if colour else 100

    def show(self, *lines: str) -> None:
        self._write("".join(f"{_WIPE if self._moves else ''}{line}\n" for line in lines))

    def source(self, text: str, dear: int = 0) -> None:
        """With line numbers; the line that makes it dear is marked."""
        rows = enumerate(text.rstrip().splitlines(), 1)
        for number, line in rows:
            shown = f"    {number:2} │ {line}"
            mark = f"{self.paint(shown, _RED)}  {self.paint('◂ dear', _RED)}"
            self.show(mark if number == dear else self.paint(shown, _CYAN))

    @asynccontextmanager
    async def watch(self, skims: Pace, reads: Pace) -> AsyncGenerator[None]:
        if not self._moves:
            yield
            return
        self._write(_HIDE)
        turning = asyncio.ensure_future(self._turn(skims, reads))
        try:
            yield
        finally:
            turning.cancel()
            await asyncio.wait([turning])
            self._write(f"{_WIPE}{_SHOW}")

    async def _turn(self, skims: Pace, reads: Pace) -> None:
        while True:
            if skims.done:
                count = f"{skims.done:3} of {AGENTS} skimmed, {reads.done} read"
                wide = max(0, min(_BAR, self.width - len(count) - 6))
                full = wide * skims.done // AGENTS
                bar = self.paint("█" * full, _GREEN) + self.paint("░" * (wide - full), DIM)
                self._write(f"{_WIPE}    {bar} {count}")
            await asyncio.sleep(_FRAME_S)

    def _write(self, text: str) -> None:
        """A reader that leaves early, like `head`, is no failure of the demo."""
        with suppress(BrokenPipeError):
            if self._out is not None:
                self._out.write(text)
                self._out.flush()


async def play(screen: Screen, pace: float) -> Facts:
    paint, told, asked = screen.paint, list[str](), list[int]()
    screen.show(f"  {paint(_TITLE, DIM)}", "", f"  {paint('task', BOLD)}     {TOLD}")
    may = f"programs of at most {MAX_COST}, for a cheap skimmer and a dear analyst"
    screen.show(f"  {paint('leave', BOLD)}    {may}", "")

    def hear(results: list[str]) -> None:
        told[:] = results
        asked.append(len(skims.requests) + len(reads.requests))
        _tell(screen, results)

    agent, skims, reads = planner(hear, pace)
    async with Runtime("$10", name="demo-plan", window=0) as rt:
        began, wallets = rt.clock.now(), rt.program.machine.state.wallets
        rt.on(ProcessSpawned, lambda news: _tell_accepted(screen, wallets.get(news.path)))
        async with screen.watch(skims, reads):
            reply = await rt.ask(agent, TOLD)
        wall_ms = rt.clock.now() - began
        left = len(rt.program.machine.state.processes)
        spent = Money(10_000_000_000 - (await rt.remaining() or 0))
    facts = Facts(
        told[0],
        asked[1],
        _account(told[1]),
        len(skims.requests) + len(reads.requests),
        reply.cost,
        spent,
        wall_ms / 1000,
        (skims.busy_ms + reads.busy_ms) / 1000,
        reply.text,
        left,
    )
    _show_end(screen, facts)
    return facts


def _account(told: str) -> dict[str, Any]:
    """Of a program that has run; its planner knows no third one."""
    try:
        return json.loads(told)["account"]
    except ValueError:
        raise BugError(f"the mended program of the demo was refused: {told}") from None


def _tell(screen: Screen, results: list[str]) -> None:
    paint = screen.paint
    if not results:
        screen.show(f"  {paint('planner', BOLD)}  writes a program for {AGENTS} agents")
    elif len(results) == 1:
        price = results[0].partition("nothing was run: ")[2].partition(". ")[0]
        screen.source(PLAN, dear=_line_in(results[0]))
        screen.show(f"  {paint('vega', _YELLOW)}     {paint('refused', _YELLOW)}, {price}")
        screen.show(f"           {paint('nothing was called, nothing spent', DIM)}", "")
        screen.show(f"  {paint('planner', BOLD)}  mends it: skim all, read the best five")
        screen.source(MENDED)


def _tell_accepted(screen: Screen, wallet: Wallet | None) -> None:
    """Of a process that has a wallet of its own: here only a program that was accepted has one."""
    if wallet is not None and wallet.cap is not None:
        most, paint = show(wallet.cap), screen.paint
        screen.show(
            f"  {paint('vega', _GREEN)}     {paint('accepted', _GREEN)}, at most {most}", ""
        )


def _line_in(refusal: str) -> int:
    number = refusal.partition("Dearest is line ")[2].partition(":")[0]
    return int(number) if number.isdecimal() else 0


def _show_end(screen: Screen, facts: Facts) -> None:
    paint, account = screen.paint, facts.account
    rows = {
        "quote": f"{account['quote']} at most, known before the first call",
        "spent": f"{account['spent']} by the program in {account['calls']} calls; "
        f"{show(facts.spent)} with the planner",
        "time": f"{facts.wall_s:.1f} s; one call after another takes {facts.alone_s:.1f} s",
        "books": "ledger and account agree" if facts.spent == facts.ledger else "they differ",
        "left": f"{facts.processes_left} processes",
    }
    screen.show(*(f"  {paint(f'{name:9}', BOLD)}{text}" for name, text in rows.items()))
    screen.show("", f"  {paint('answer', BOLD)}   {facts.answer}", "")
    screen.show(f"  {paint('next', BOLD)}     {paint('vega demo', _CYAN)}  a team that crashes")
