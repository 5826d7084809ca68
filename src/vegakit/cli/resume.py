"""`vega resume`: a run that was cut off or paused goes on where it was."""

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from vegakit.cli.looking import amount
from vegakit.cli.recorded import FILE, runs_in, short_id, start_again
from vegakit.errors import InvalidMoneyError, UserError
from vegakit.money import Money, dollars
from vegakit.store import RunSummary, SqliteJournal

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    chosen = _parser().parse_args(words)
    summary = _unfinished(chosen.file)
    said = f"going on with run {short_id(summary.run)} of {chosen.file}: {_standing(summary)}"
    if chosen.budget:
        asyncio.run(_raise_budget(chosen.file, chosen.budget))
        said += f"; its budget is raised by {amount(chosen.budget)}"
    return start_again(said, summary.run, {})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega resume",
        description="Go on with a run that was cut off or paused: its command is started again in "
        "its folder, and answers that were recorded are not bought again.",
    )
    parser.add_argument("file", nargs="?", type=Path, default=FILE, help=f"the journal; {FILE}")
    parser.add_argument(
        "--budget", type=_raise, metavar="'+$5'", help="raise its budget first; mind the quotes"
    )
    return parser


def _raise(text: str) -> Money:
    try:
        more = dollars(text.removeprefix("+"))
    except InvalidMoneyError:
        more = Money(0)
    if more <= 0:
        raise argparse.ArgumentTypeError(
            f"expected an amount to add, in quotes, since a shell reads $5 as its own: '+$5'; "
            f"got {text!r}"
        )
    return more


def _unfinished(path: Path) -> RunSummary:
    last = runs_in(path)[-1]
    if last.ended_ms is not None:
        raise UserError(f"no run in {path} is unfinished; to see them, type: vega runs {path}")
    if last.is_running:
        raise UserError(f"run {short_id(last.run)} of {path} is running; wait until it has ended")
    return last


def _standing(summary: RunSummary) -> str:
    calls = f"{summary.recorded} calls recorded, {summary.cut_off} cut off"
    return f"{calls}, {amount(summary.spent)} spent"


async def _raise_budget(path: Path, more: Money) -> None:
    async with aclosing(SqliteJournal(path)) as journal:
        await journal.raise_budget(more)
