"""`vega resume`: a run that was killed, failed or paused goes on where it was."""

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from vegakit.cli.looking import amount
from vegakit.cli.recorded import journal_of_user, named_run, runs_in, short_id, start_again, where
from vegakit.config import CutOffTools, Resumed, resume_variables
from vegakit.errors import InvalidMoneyError, UserError
from vegakit.money import Money, dollars
from vegakit.ports import Run
from vegakit.store import RunSummary, SqliteJournal

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    chosen = _parser().parse_args(words)
    path, wanted = where(chosen.named)
    is_shared = path == journal_of_user()
    summary = _unfinished(path, wanted, is_shared=is_shared)
    said = f"going on with run {short_id(summary.run)} of {path}: {_standing(summary)}"
    if chosen.budget:
        asyncio.run(_raise_budget(path, summary.run, chosen.budget, is_shared=is_shared))
        said += f"; its budget is raised by {amount(chosen.budget)}"
    first = summary.run.first or summary.run.program
    which = Resumed(path, first if is_shared else "", chosen.tools)
    return start_again(said, summary.run, resume_variables(which))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega resume",
        description="Go on with a run that was killed, failed or paused: its command is started "
        "again in its folder. Answers that were recorded are not bought again; what failed the run "
        "is asked again, and a model call that was cut off is sent once more.",
    )
    parser.add_argument(
        "named",
        nargs="?",
        default="",
        metavar="RUN|FILE",
        help="the beginning of a run's id, or a journal; your last unfinished run",
    )
    parser.add_argument(
        "--budget", type=_raise, metavar="'+$5'", help="raise its budget first; mind the quotes"
    )
    tools = parser.add_mutually_exclusive_group()
    for decision, help_ in (
        (CutOffTools.RESEND, "call tools again that were cut off"),
        (CutOffTools.SKIP, "do not: the program is told that they failed"),
    ):
        tools.add_argument(
            f"--{decision}", dest="tools", action="store_const", const=decision, help=help_
        )
    parser.set_defaults(tools=CutOffTools.ASK)
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


def _unfinished(path: Path, wanted: str, *, is_shared: bool) -> RunSummary:
    """The one that is named. Else the last that nobody carries on, in a journal of many; in one of
    a single program the last one, which must not have ended."""
    runs = runs_in(path)
    if wanted:
        last = named_run(runs, wanted, path)
    else:
        waiting = [one for one in runs if one.ended_ms is None and not one.is_running]
        last = waiting[-1] if waiting and is_shared else runs[-1]
    if last.ended_ms is not None:
        what = f"run {short_id(last.run)} of {path} has ended" if wanted else _nothing(path)
        raise UserError(f"{what}; to see all runs, type: vega runs {path}")
    if last.is_running:
        raise UserError(f"run {short_id(last.run)} of {path} is running; wait until it has ended")
    return last


def _nothing(path: Path) -> str:
    return f"no run in {path} is unfinished"


def _standing(summary: RunSummary) -> str:
    calls = f"{summary.recorded} calls recorded, {summary.cut_off} cut off"
    lost = f", {amount(summary.lost)} of it for calls that were cut off" if summary.lost else ""
    return f"{calls}, {amount(summary.spent)} spent{lost}"


async def _raise_budget(path: Path, run: Run, more: Money, *, is_shared: bool) -> None:
    async with aclosing(SqliteJournal(path, shared=is_shared)) as journal:
        await journal.raise_budget(run.program, more)
