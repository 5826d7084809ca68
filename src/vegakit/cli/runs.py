"""`vega runs`, `resume`, `replay` and `gc`: the runs that are recorded in a journal.

`resume` and `replay` start the recorded command again in the place of this process.
"""

import argparse
import asyncio
import os
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from vegakit.cli.look import (
    PIPE,
    Cell,
    Column,
    Look,
    Sign,
    Tone,
    count,
    duration,
    look_of,
    moment,
    money,
    moneys,
    one_line,
    print_json,
    table,
)
from vegakit.cli.main import CommandParser
from vegakit.config import (
    BudgetChange,
    CutOffTools,
    ReplayTarget,
    ResumeTarget,
    Settings,
    environment_with,
    load,
    replay_variables,
    resume_variables,
)
from vegakit.errors import (
    BudgetExceeded,
    InvalidMoneyError,
    NeedsConsent,
    ProgramChanged,
    StoreError,
    ToolCutOff,
    UserError,
    VegaError,
)
from vegakit.money import Money, dollars, format_money, in_dollars
from vegakit.ports import RunRecord
from vegakit.store import (
    RunSummary,
    forget_runs,
    journal_size,
    list_runs,
    open_journal,
    open_ledger,
    show_place,
)

if TYPE_CHECKING:
    from vegakit.host import JournaledRun

# What `runs`, `resume`, `replay` and `gc` share: which journal, which run of it, and its command
# started again.


SHOWN = 12


def journal_of_user() -> str:
    """Return where `vega run` records, also while the settings say that it does not."""
    return load().journal_place


def where(named: str) -> tuple[str, str]:
    """Return the journal that is named, a file or a URL, or the user's own and the beginning of the
    id of a run in it."""
    path = Path(named)
    is_place = bool(named) and (path.exists() or path.suffix != "" or len(path.parts) > 1)
    return (named, "") if is_place else (journal_of_user(), named)


def runs_in(place: str) -> Sequence[RunSummary]:
    """Return the runs of a journal that holds some."""
    shown = show_place(place)
    if place == journal_of_user() and journal_size(place) is None:
        raise UserError(
            f"no run is recorded in {shown} yet; start one with vega run FILE, or name the journal "
            "of your program"
        )
    runs = list_runs(place)
    if not runs:
        raise UserError(f"{shown} holds no run yet; start your program first")
    return runs


def named_run(runs: Sequence[RunSummary], wanted: str, place: str) -> RunSummary:
    """Return the only run whose id begins so; if any will do, the last."""
    found = [summary for summary in runs if summary.run.program.startswith(wanted)]
    path = show_place(place)
    if not found:
        raise UserError(f"no run in {path} begins with {wanted!r}; type: {_listing(place)}")
    if wanted and len(found) > 1:
        ids = ", ".join(summary.run.program[: len(wanted) + 8] for summary in found[-5:])
        raise UserError(f"{len(found)} runs begin with {wanted!r}; type more of one of: {ids}")
    return found[-1]


def _listing(place: str) -> str:
    """Return the command that lists the runs of a journal. What is hidden in the name of another
    place has to be filled in."""
    return "vega runs" if place == journal_of_user() else f"vega runs {show_place(place)}"


def short_id(run: RunRecord) -> str:
    """Return the id of a run as people see it."""
    return run.program[:SHOWN]


def _shown(command: Sequence[str]) -> str:
    """Return a command as people may see it: a journal's URL in it may hold a password."""
    return shlex.join(map(show_place, command))


_OURS = {"vega", "vegakit"}


def _brief(command: Sequence[str]) -> str:
    """Return a command as a person would type it: without the folder of its program, and without
    the Python that an installed command is started by."""
    first, second = ([Path(word).name for word in command[:2]] + ["", ""])[:2]
    if first.startswith("python"):
        if second in _OURS:
            return _shown([second, *command[2:]])
        if list(command[1:3]) == ["-m", "vegakit"]:
            return _shown(["vega", *command[3:]])
    return _shown([first, *command[1:]] if command else [])


def _without_secrets(summary: RunSummary) -> RunSummary:
    """Return a run whose command has no password: what is printed may go to a log."""
    command = tuple(map(show_place, summary.run.command))
    run = structs.replace(summary.run, command=command, ended_ms=summary.ended_ms)
    return structs.replace(summary, run=run)


def start_again(said: str, run: RunRecord, variables: Mapping[str, str]) -> int:
    """Start the command of a run in the place of this process. What it prints is its own, so we
    speak on stderr."""
    if not run.command:
        raise UserError(f"run {short_id(run)} has no command recorded; start it as you did then")
    if not Path(run.folder).is_dir():
        raise UserError(
            f"run {short_id(run)} was started in {run.folder}, which is gone; bring that folder "
            f"back, or type in another: {_shown(run.command)}"
        )
    print(f"{said}\n$ cd {shlex.quote(run.folder)} && {_shown(run.command)}", file=sys.stderr)
    sys.stderr.flush()
    os.chdir(run.folder)
    try:
        os.execvpe(run.command[0], run.command, environment_with(variables))  # noqa: S606
    except OSError as error:
        raise UserError(
            f"{run.command[0]} cannot be started in {run.folder}: {error.strerror}; "
            "install it again where it was, or start the program by hand"
        ) from error


# `vega runs`: the runs of a user, or of one journal.


_COLUMNS = (
    Column("Run"),
    Column("Started", drop=2),
    Column("State", drop=1),
    Column("Took", right=True, drop=6),
    Column("Calls", right=True, drop=4),
    Column("Kept", right=True, drop=7),
    Column("Cut off", right=True, drop=7),
    Column("Spent", right=True),
    Column("Lost", right=True, drop=5),
    Column("Command", drop=3, least=14),
)
_STATES = {
    "running": (Sign.WORKING, Tone.WORK),
    "unfinished": (Sign.HELD, Tone.ASK),
    "done": (Sign.DONE, Tone.OK),
    "given up": (Sign.WAITING, Tone.PLAIN),
    "refused": (Sign.REFUSED, Tone.PLAIN),
    "denied": (Sign.REFUSED, Tone.PLAIN),
    "not set up": (Sign.REFUSED, Tone.PLAIN),
}


def runs_command(arguments: Sequence[str]) -> int:
    """Run `vega runs`."""
    parser = CommandParser(
        prog="vega runs", description="Show the runs that are recorded, the last one last."
    )
    parser.add_argument("file", nargs="?", help="a journal, file or URL; without it, your own")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    chosen = parser.parse_args(arguments)
    runs = runs_in(chosen.file or journal_of_user())
    if chosen.json:
        print_json(in_dollars([*map(_without_secrets, runs)]))
        return 0
    print(render_runs(runs, look_of(sys.stdout)))
    return 0


def render_runs(runs: Sequence[RunSummary], look: Look = PIPE) -> str:
    """Return the runs as a table. The command is cut, or left out, where there is no room."""
    spent = moneys([summary.spent for summary in runs])
    lost = moneys([summary.lost for summary in runs])
    rows = [
        (
            short_id(summary.run),
            moment(summary.run.started_ms),
            _state(summary),
            _took(summary),
            f"{summary.recorded:,}" if summary.recorded else "",
            f"{summary.run.reused.kept:,}" if summary.run.reused else "",
            f"{summary.cut_off:,}" if summary.cut_off and not summary.is_running else "",
            spent[number],
            lost[number],
            one_line(_brief(summary.run.command)),
        )
        for number, summary in enumerate(runs)
    ]
    return table(_COLUMNS, rows, look)


def _state(summary: RunSummary) -> Cell:
    state = "running" if summary.is_running else "unfinished"
    if summary.ended_ms is not None:
        state = "given up" if summary.run.is_given_up else "done"
        state = summary.run.refusal.partition(":")[0] or state
    sign, tone = _STATES[state]
    return Cell(f"{sign} {state}", tone)


def _took(summary: RunSummary) -> str:
    if summary.ended_ms is None:
        return ""
    return duration(summary.ended_ms - summary.run.started_ms)


# `vega resume`: a run that was killed, failed or paused goes on where it was.


def resume_command(arguments: Sequence[str]) -> int:
    """Run `vega resume`."""
    chosen = _resume_parser().parse_args(arguments)
    place, wanted = where(chosen.named)
    is_shared = place == journal_of_user()
    summary = _unfinished(place, wanted, is_shared=is_shared)
    said = f"resuming run {short_id(summary.run)} of {show_place(place)}: {_standing(summary)}"
    if (change := chosen.budget) is not None:
        amount = format_money(change.amount)
        said += f"; with {amount} more" if change.is_more else f"; with a budget of {amount}"
    first = summary.run.first or summary.run.program
    which = ResumeTarget(
        first if is_shared else "",
        chosen.tools,
        decided=summary.run.program,
        budget=chosen.budget,
        accept=chosen.yes,
        current_settings=chosen.use_current_settings,
    )
    return start_again(said, summary.run, resume_variables(which))


def _resume_parser() -> argparse.ArgumentParser:
    parser = CommandParser(
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
        help="the beginning of a run's id, or a journal; the last unfinished run of this folder",
    )
    parser.add_argument(
        "--budget",
        type=_budget,
        metavar="'$15'",
        help="its cap from now on, or '+$5' to add so much; mind the quotes. It counts only if the "
        "run goes on",
    )
    parser.add_argument(
        "--yes", action="store_true", help="accept what calls may cost that a kill cut off"
    )
    parser.add_argument(
        "--use-current-settings",
        action="store_true",
        help="ask the models that aliases stand for by now, and not those that it began with",
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


def _budget(text: str) -> BudgetChange:
    try:
        change = BudgetChange(dollars(text.removeprefix("+")), is_more=text.startswith("+"))
    except InvalidMoneyError:
        change = BudgetChange(Money(0), is_more=True)
    if change.amount <= 0:
        raise argparse.ArgumentTypeError(
            "expected the cap, '$15', or an amount to add, '+$5', in quotes, since a shell reads "
            f"$5 as its own; got {text!r}"
        )
    return change


def _unfinished(place: str, wanted: str, *, is_shared: bool) -> RunSummary:
    """Return the run that is named. Without a name it is the last of this folder that nobody
    carries on, in a journal of many; in one of a single program the last one, which must not have
    ended."""
    runs, path = runs_in(place), show_place(place)
    if wanted:
        last = named_run(runs, wanted, place)
    else:
        waiting = [one for one in runs if one.ended_ms is None and not one.is_running]
        last = _last_here(waiting) if waiting and is_shared else runs[-1]
    if last.ended_ms is not None:
        what = (
            f"run {short_id(last.run)} of {path} has ended"
            if wanted
            else f"no run in {path} is unfinished"
        )
        raise UserError(f"{what}; to see all runs, type: {_listing(place)}")
    if last.is_running:
        raise UserError(f"run {short_id(last.run)} of {path} is running; wait until it has ended")
    return last


def _last_here(waiting: Sequence[RunSummary]) -> RunSummary:
    """Return the last run that was started in this folder: to go on with one of another program
    would cost money that nobody meant to spend."""
    folder = str(Path.cwd())
    here = [one for one in waiting if one.run.folder == folder]
    if not here:
        last = waiting[-1].run
        raise UserError(
            f"no run of this folder is unfinished; the last that is was started in {last.folder}; "
            f"to go on with that one, type: vega resume {short_id(last)}"
        )
    return here[-1]


def _standing(summary: RunSummary) -> str:
    calls = f"{count(summary.recorded, 'call')} recorded"
    calls += f", {summary.cut_off:,} cut off" if summary.cut_off else ""
    lost = f", {money(summary.lost)} of it for calls without an answer" if summary.lost else ""
    return f"{calls}, {money(summary.spent)} spent{lost}"


# What to type after a run that did not come to its end.


RESUME = "vega resume"
_MISSING = re.compile(r"'\+\$[\d.,]+'")
"""How much to add, as an error says it."""
_MORE = "'+$1'"


class Advice(NamedTuple):
    """Advice on what to type after a run that did not come to its end."""

    said: str
    command: str

    def __str__(self) -> str:
        return f"{self.said}: {self.command}"

    def told(self, look: Look) -> str:
        """Return the advice as the last lines of an error."""
        return "\n".join([*look.fold(self.said, "  ", "  "), f"  try: {self.command}"])


async def command_to_resume(journaled: "JournaledRun", journal: str | None) -> str:
    """Return the command that resumes a run. It names the run where without a name another one
    would be resumed: the last that is unfinished in this folder."""
    named = "" if await journaled.is_last() else short_id(journaled.run)
    named = named if journal is None else shlex.quote(show_place(journal))
    flag = "--use-current-settings" if journaled.which.current_settings else ""
    return " ".join(filter(None, [RESUME, named, flag]))


def advice_on(journaled: "JournaledRun", error: VegaError | None, command: str) -> Advice | None:
    """Return advice on a failure of a run that goes on by this command. What failed the run is
    asked again. Where nothing of the world failed it, the same answers lead to the same end, so
    something has to be changed first."""
    from vegakit.host import NO_PRICE  # whoever only lists runs has no host

    if isinstance(error, ProgramChanged):
        kept = "to start a new run that keeps the answers whose requests are unchanged"
        return Advice(kept, command_to_reuse(journaled.run))
    if journaled.run.refusal:
        return _advice_to_start(journaled.run)
    if isinstance(error, ToolCutOff | NeedsConsent) or journaled.run.is_given_up:
        return None  # it says itself what to do
    is_refused = isinstance(error, BudgetExceeded)
    if is_refused and NO_PRICE in str(error):
        # A recorded error is its name and its words: no more is known of one that is read again.
        return Advice("to go on when it has a price", command)
    if is_refused and _OF_USER in str(error):
        return Advice("to go on when budget.default in your own settings is higher", command)
    missing = _MISSING.search(str(error))
    if is_refused or missing:
        more = missing.group() if missing else _MORE
        return Advice("to go on with a higher budget", f"{command} --budget {more}")
    if error is None or journaled.failed or isinstance(error, StoreError):
        return Advice("to go on", command)
    return Advice("to go on after the program or a setting is changed", command)


def _advice_to_start(run: RunRecord) -> Advice:
    """Return advice on a run that could not begin: with a dollar more if its command has a cap."""
    command = list(run.command)
    is_own_cap = run.refusal.startswith("refused") and _OF_USER not in run.refusal
    if is_own_cap and _BUDGET in command[:-1]:
        cap = command.index(_BUDGET) + 1
        command[cap] = format_money(dollars(command[cap]) + dollars("$1"))
        return Advice(f"{_NO_CALL} with a higher budget", _brief(command))
    return Advice(f"{_NO_CALL} after a change", _brief(command))


_BUDGET = "--budget"
_OF_USER = "budget 'user'"
_NO_CALL = "it made no call, so it has ended; to start it again"


# `vega run --reuse`: an edited program keeps the answers of a run.


async def run_to_reuse(chosen: argparse.Namespace, settings: Settings) -> RunRecord | None:
    """Return the run whose answers another one is to keep; whoever carries it on may still change
    them. In a journal of one program one that is unfinished is given up: the new run takes its
    place there. A run that goes on has its answers, and may do without the earlier one."""
    wanted: str | None = chosen.reuse
    if wanted is None:
        return None
    if not wanted:
        raise UserError("--reuse needs the beginning of the id of a run; type: vega runs")
    if not settings.journal.enabled:
        raise UserError(
            "--reuse keeps answers from the journal, and nothing is recorded here; leave out "
            "--no-journal, or name a journal: --journal run.db"
        )
    place: str = chosen.journal or settings.journal_place
    if chosen.resume is None:
        _check_is_there(place, wanted)
    try:
        summary = named_run(runs_in(place), wanted, place)
    except (UserError, StoreError):
        if chosen.resume is None:
            raise
        return None
    if summary.is_running:
        shown = f"run {short_id(summary.run)} of {show_place(place)}"
        raise UserError(f"{shown} is running; wait until it has ended, then keep its answers")
    if summary.ended_ms is None and place != journal_of_user():
        await _give_up(place, summary.run, place, is_shared=False)
    return summary.run


def _check_is_there(place: str, wanted: str) -> None:
    """Refuse a journal that is begun by this run: the earlier run is not in it."""
    if "://" not in place and not Path(place).exists():
        raise UserError(
            f"--reuse looks for run {one_line(wanted)} in {show_place(place)}, where the new run "
            "is recorded too, and there is no such file; name the journal that has it: "
            "--journal run.db"
        )


def command_to_reuse(run: RunRecord) -> str:
    """Return the command of a run as one that keeps its answers."""
    words = list(run.command)
    if "--reuse" in words[:-1]:
        at = words.index("--reuse")
        words[at : at + 2] = []
    return _brief([*words, "--reuse", short_id(run)])


# `vega replay`: a recorded program runs again, offline, on the answers in its journal.


def replay_command(arguments: Sequence[str]) -> int:
    """Run `vega replay`."""
    chosen = _replay_parser().parse_args(arguments)
    place, wanted = where(chosen.named)
    summary = named_run(runs_in(place), chosen.run or wanted, place)
    shown = show_place(place)
    said = f"replaying run {short_id(summary.run)} of {shown}: no model or tool is called"
    variables = replay_variables(ReplayTarget(place, summary.run.program))
    return start_again(said, summary.run, variables)


def _replay_parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega replay",
        description="Run a recorded program again, offline: every answer comes from the journal, "
        "which is not changed. It stops at the first call that differs.",
    )
    parser.add_argument(
        "named", metavar="RUN|FILE", help="the beginning of a run's id, or a journal"
    )
    parser.add_argument("run", nargs="?", default="", help="a run of that journal; the last")
    return parser


# `vega gc`: forget runs that ended long ago, and give their space back.


def gc_command(arguments: Sequence[str]) -> int:
    """Run `vega gc`."""
    chosen = _gc_parser().parse_args(arguments)
    settings, place = load(), journal_of_user()
    if chosen.runs:
        given_up = [_unfinished(place, one, is_shared=True) for one in chosen.runs]
        for summary in given_up:
            if not chosen.dry_run:
                asyncio.run(_give_up(place, summary.run, settings.ledger_place))
            verb = "would give up" if chosen.dry_run else "gave up"
            print(f"{verb} run {short_id(summary.run)}: {_standing(summary)}")
        return 0
    before, now = journal_size(place), time.time_ns() // 1_000_000
    _forget_traces(settings, now, dry_run=chosen.dry_run)
    if before is None:
        print(f"nothing is recorded in {show_place(place)}")
        return 0
    forgotten = forget_runs(
        place,
        now - settings.journal_keep_ms,
        settings.journal_bytes,
        dry_run=chosen.dry_run,
        shrink=True,
    )
    freed = max(0, before - (journal_size(place) or 0)) or forgotten.bytes
    verb = "would forget" if chosen.dry_run else "forgot"
    ended = count(len(forgotten.runs), "ended run")
    print(f"{verb} {ended}, {_size(freed)}, of {show_place(place)}")
    old = [
        one
        for one in list_runs(place)
        if one.ended_ms is None and one.run.started_ms < now - settings.journal_keep_ms
    ]
    if old:
        age = duration(settings.journal_keep_ms, brief=True)
        print(
            f"{count(len(old), 'unfinished run')} older than {age} kept, since each can go on; "
            "to see them, type: vega runs; to give one up: vega gc RUN"
        )
    return 0


def _forget_traces(settings: Settings, now: int, *, dry_run: bool) -> None:
    """Forget the file of traces that was set aside, if nothing was written to it for as long as
    traces are kept. A SQLite file forgets by itself, and so does the ledger."""
    from vegakit.telemetry import aside_of  # commands that only look need no telemetry

    if not settings.telemetry.jsonl:
        return
    aside = aside_of(Path(settings.telemetry.jsonl))
    try:
        found = aside.stat()
    except OSError:
        return
    if found.st_mtime_ns // 1_000_000 >= now - settings.traces_keep_ms:
        return
    if not dry_run:
        aside.unlink(missing_ok=True)
    verb = "would forget" if dry_run else "forgot"
    print(f"{verb} old traces, {_size(found.st_size)}: {show_place(str(aside))}")


async def _give_up(
    place: str, run: RunRecord, ledger_place: str, *, is_shared: bool = True
) -> None:
    """Record the end of a run that nobody goes on with. It is taken up for that, so that nobody
    else carries it on, and calls that were cut off are charged in its account."""
    from vegakit.host import recover  # the runtime is not part of the commands that only look

    now = time.time_ns() // 1_000_000
    async with aclosing(open_journal(place, shared=is_shared)) as journal:
        ledger = journal.ledger() if ledger_place == place else None
        async with aclosing(ledger or open_ledger(ledger_place)) as money:
            await journal.begin(run, run.program)
            await recover(journal, money, now, tools=CutOffTools.SKIP)
            await journal.end(now, is_given_up=True)


def _gc_parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega gc",
        description="Forget ended runs that are older, or make the journal larger, than [journal] "
        "in vega.toml says (30d and 1GB), and give the space back; with them traces that were set "
        "aside and are older than [telemetry] keeps them. Unfinished runs are kept; those that are "
        "named are given up: they count as ended, and do not go on.",
    )
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help="the beginning of the id of a run to give up"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be forgotten")
    return parser


def _size(count: int) -> str:
    for unit, size in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
