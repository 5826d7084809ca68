"""`vega rollout`: start a rollout, see its evidence, and decide about it.

All but `start` work on what is kept in a store: the journal of the user, where `vega run` and
`Runtime.from_config()` record, or the place that `--store` names. A program that runs takes up what
is decided here within a second.
"""

import argparse
import asyncio
import inspect
import json
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from msgspec import Struct, structs

from vegakit.cli.compiler import check_loading
from vegakit.cli.look import (
    Cell,
    Column,
    LivePlace,
    Look,
    Sign,
    Tone,
    count,
    cut,
    look_of,
    moment,
    one_line,
    print_json,
    table,
)
from vegakit.cli.main import JSON, Argument, CommandParser, amount, declare
from vegakit.cli.rollout_page import render_status, state_of
from vegakit.cli.trust import TRUST, prepare_trust
from vegakit.concurrency import SteadyClock, gather_all
from vegakit.config import load
from vegakit.contracts import LAST, PersonAction, Rollout, RolloutMode
from vegakit.errors import UserError, VegaError
from vegakit.host import user_name
from vegakit.money import Money, format_money, in_dollars
from vegakit.sdk import Runtime, names_at, runtime_arguments
from vegakit.store import open_stores, show_place
from vegakit.vesper import (
    CallInputs,
    CheckedInput,
    FoundRollout,
    RolledOut,
    RolloutAlert,
    RolloutQuote,
    RolloutStatus,
    StoredRollouts,
    Webhook,
    detection_text,
    is_place,
    load_node,
    open_rollouts,
    render_rollout_quote,
    store_with_rollouts,
)

_NAME_HELP = "as in rollout(…), or the file of a node; may be left out if there is one only"


def rollout_command(arguments: Sequence[str]) -> int:
    """Run `vega rollout`."""
    chosen = _parser().parse_args(arguments)
    if chosen.action == "start":
        file = Path(chosen.declared.rpartition(":")[0]).resolve()
        prepare_trust(file.parent, [file], is_trusted=chosen.trust)
    return asyncio.run(_ACTIONS[chosen.action](chosen))


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega rollout",
        description="Change a model, a prompt or code with evidence: start a rollout, see what is "
        "known of its candidate, and promote, demote or stop it.",
    )
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="start | status | promote | demote | stop | list"
    )
    starting = actions.add_parser(
        "start",
        parents=[_place()],
        help="write one down, and compare both paths on inputs of a file",
    )
    _add_start(starting)
    _add_stored(actions)
    actions.add_parser("list", parents=[_place()], help="all rollouts of the store")
    return parser


def _place() -> CommandParser:
    return CommandParser(
        add_help=False,
        arguments=[
            Argument(
                "--store",
                metavar="PLACE",
                help="where the evidence is kept, a file or URL; without it, beside your own "
                "journal",
            ),
            JSON,
        ],
    )


def _add_stored(actions: Any) -> None:  # noqa: ANN401  (argparse has no public name for it)
    """Add the actions on a rollout that is kept: to see it, and to decide about it."""
    named = CommandParser(
        add_help=False,
        arguments=[
            Argument("name", nargs="?", default="", metavar="NAME", help=_NAME_HELP),
            Argument("--version", default="", metavar="V", help="an earlier one, by its beginning"),
            Argument(
                "--class", dest="input_class", metavar="WORD", help="of inputs: this one only"
            ),
        ],
    )
    parents = [named, _place()]
    actions.add_parser("status", parents=parents, help="the evidence, and what is missing")
    yes = Argument("--yes", action="store_true", help="ask nothing")
    for action in PersonAction:
        actions.add_parser(
            str(action),
            parents=parents,
            help=_DECISIONS[action],
            arguments=[
                Argument("--reason", default="", metavar="TEXT", help="kept with the decision"),
                Argument("--webhook", metavar="URL", help="is told of the decision by POST"),
                *([yes] if action is PersonAction.PROMOTE else []),
            ],
        )


_DECISIONS = {
    PersonAction.PROMOTE: "by one stage, unless its contract was broken; it is held no longer",
    PersonAction.DEMOTE: "by one stage, and hold it there",
    PersonAction.STOP: "have the reference answer all calls, and compare no more",
}


def _add_start(parser: argparse.ArgumentParser) -> None:
    declare(
        parser,
        [
            Argument(
                "declared",
                metavar="FILE.py:NAME",
                help="a function that takes a Runtime and returns rollout(…)",
            ),
            Argument(
                "--inputs",
                type=Path,
                metavar="FILE.jsonl",
                help="a call on each line: a list of arguments, an object of named ones, or one "
                "argument; "
                "nothing is performed, and they are counted apart from production",
            ),
            Argument("--budget", type=amount, metavar="'$1'", help="the most it may spend"),
            Argument("--at-once", type=int, default=4, metavar="N", help="calls in flight; 4"),
            TRUST,
        ],
    )


@asynccontextmanager
async def _opened(chosen: argparse.Namespace) -> AsyncGenerator[StoredRollouts]:
    if chosen.store and not is_place(chosen.store):
        raise UserError(
            f"there is no store at {show_place(chosen.store)}; give --store the file or URL that "
            "your program records in, or leave it out for your own journal"
        )
    place = chosen.store or load().journal_place
    async with open_rollouts(place, SteadyClock()) as stored:
        yield stored


# Looking.


_COLUMNS = (
    Column("Rollout", name=True),
    Column("Class", drop=4, name=True),
    Column("State"),
    Column("Compared", right=True, drop=1),
    Column("Differ", right=True, drop=2),
    Column("Above", right=True, drop=3),
    Column("Written", drop=5),
    Column("Candidate", drop=6, least=14),
)


async def _list(chosen: argparse.Namespace) -> int:
    async with _opened(chosen) as stored:
        every = [await stored.status(one) for one in await stored.all()]
    latest = _latest(every)
    if chosen.json:
        print_json(every)
    elif latest:
        print(table(_COLUMNS, [_row(one) for one in latest], look_of(sys.stdout)))
    else:
        print("No rollout is kept here yet; start one: vega rollout start FILE.py:NAME")
    return 0


def _latest(every: Sequence[RolloutStatus]) -> list[RolloutStatus]:
    """Return those of the version that was written last; earlier ones are in `--json`."""
    versions: dict[str, str] = {}
    return [one for one in every if versions.setdefault(one.name, one.version) == one.version]


def _row(one: RolloutStatus) -> list[Cell | str]:
    sign, tone = state_of(one)
    held = ", held" if one.is_held and one.stage else ""
    return [
        one_line(one.name),
        one_line(one.input_class),
        Cell(f"{sign} {one.stage_name}{held}", tone),
        f"{one.production.runs:,}",
        f"{one.production.failures:,}",
        "" if one.confidence is None else f"{one.confidence.lower:.4f}",
        moment(one.at_ms),
        one_line(one.subject.candidate),
    ]


async def _named(stored: StoredRollouts, chosen: argparse.Namespace) -> list[FoundRollout]:
    """Return what was chosen. A rollout of a node has the name of its id."""
    name = chosen.name
    if name.endswith(".vsp"):
        name = load_node(Path(name)).program.node_id
    return await stored.named(name, chosen.version, chosen.input_class)


async def _status(chosen: argparse.Namespace) -> int:
    async with _opened(chosen) as stored:
        rollouts = await _named(stored, chosen)
        shown = [await stored.status(one) for one in rollouts]
    _show(shown, as_json=chosen.json)
    return 0


def _show(shown: Sequence[RolloutStatus], *, as_json: bool) -> None:
    if as_json:
        print_json(shown)
    else:
        look = look_of(sys.stdout)
        print("\n\n".join("\n".join(render_status(one, look)) for one in shown))


# Deciding.


async def _decide(chosen: argparse.Namespace) -> int:
    action = PersonAction(chosen.action)
    webhook = Webhook(chosen.webhook, SteadyClock()) if chosen.webhook else None
    async with _opened(chosen) as stored:
        rollouts = await _named(stored, chosen)
        if action is not PersonAction.STOP:
            _check_one(rollouts, action)
        elif chosen.input_class is None:
            # All of it is stopped; what is stopped already need not be.
            rollouts = [one for one in rollouts if one.machine.stage] or rollouts
        if action is PersonAction.PROMOTE:
            _confirm(rollouts[0].machine, chosen)
        alerts = [await stored.decide(one, action, user_name(), chosen.reason) for one in rollouts]
        for alert in alerts:
            if webhook is not None:
                webhook.send(alert)
        if webhook is not None:
            await webhook.aclose()
    _tell(alerts, as_json=chosen.json)
    return 0


def _check_one(found: Sequence[FoundRollout], action: PersonAction) -> None:
    if len(found) > 1:
        name, classes = found[0].machine.name, [one.input_class for one in found]
        raise UserError(
            f"rollout {name} has {len(classes)} input classes, each with a stage of its own; say "
            f"which ({', '.join(classes)}), type: vega rollout {action} {name} --class "
            f"{classes[0] or repr('')}"
        )


def _confirm(machine: Rollout, chosen: argparse.Namespace) -> None:
    """Say what speaks against a promotion, and ask where somebody sits at a terminal. One that is
    refused anyway is not asked about."""
    doubts = [] if machine.breach else [*_doubts(machine)]
    look = look_of(sys.stderr)
    for doubt in doubts:
        print("\n".join(look.marked(Sign.HELD, Tone.ASK, doubt)), file=sys.stderr)
    if not doubts or chosen.yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    print("promote it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UserError("nothing was decided; to promote it without a question, add --yes")


def _doubts(machine: Rollout) -> Iterator[str]:
    """Yield what a person should know before the candidate answers more calls: where it differed,
    and before it answers all, how long its faults would stay unseen."""
    runs = machine.evidence.production
    name = machine.name
    is_stopped = machine.mode is RolloutMode.REFERENCE_ONLY
    if runs.failures and not is_stopped and not machine.is_noisy:
        yield (
            f"{name} differed from an exact reference in {runs.failures:,} of {runs.runs:,} "
            f"comparisons; to see the last of them, type: vega rollout status {name}"
        )
    if machine.stage == LAST - 1:
        yield f"{name} would answer all calls: {detection_text(machine.detection(), machine)}"


def _tell(alerts: Sequence[RolloutAlert], *, as_json: bool) -> None:
    if as_json:
        print_json(alerts)
        return
    look = look_of(sys.stdout)
    for alert in alerts:
        sign, tone = (Sign.DONE, Tone.OK) if alert.is_promotion else (Sign.HELD, Tone.ASK)
        for line in look.marked(sign, tone, one_line(alert.text)):
            print(line)


# Starting: a rollout that a file declares, and inputs that were made for it.


_MOST_SHOWN = 5
_LONGEST_ANSWER = 200


class Difference(Struct, frozen=True):
    """An input on which the paths differ, and what both say."""

    line: int
    inputs: Any
    reference: str
    candidate: str


class StartReport(Struct):
    """Says what was quoted, what became of the inputs, and shows the rollout."""

    is_new: bool
    quote: RolloutQuote
    inputs: int = 0
    spent: Money = Money(0)
    agree: int = 0
    differ: int = 0
    unknown: int = 0
    differences: list[Difference] = []
    status: list[RolloutStatus] = []

    @property
    def status_code(self) -> int:
        """Return what the command exits with: 1 if inputs differ, or none could be compared."""
        return int(bool(self.differ or (self.inputs and not self.agree)))


class InputLine(NamedTuple):
    """One call of the file."""

    number: int
    value: Any

    def arguments(self) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return what the rollout is called with."""
        if isinstance(self.value, list):
            return cast("list[Any]", self.value), {}
        if isinstance(self.value, dict):
            return (), cast("dict[str, Any]", self.value)
        return (self.value,), {}

    def call(self) -> CallInputs:
        """Return it as a call."""
        args, named = self.arguments()
        return CallInputs(tuple(args), named)


async def _start(chosen: argparse.Namespace) -> int:
    if chosen.at_once < 1:
        raise UserError("--at-once: at least one call is in flight; type: --at-once 1")
    declare = _declared(chosen.declared)
    lines = [] if chosen.inputs is None else _inputs_of(chosen.inputs)
    settings = load()
    options: dict[str, Any] = {} if chosen.budget is None else {"budget": chosen.budget}
    stores = open_stores(chosen.store) if chosen.store else ()
    try:
        if stores:
            options["store"] = await store_with_rollouts(stores)
        async with Runtime(**runtime_arguments(settings, cast("Any", options))) as rt:
            rolled = _made(declare, rt, chosen.declared)
            name, version = rolled.name, rolled.version
            rolled.only_checks()
            quote = await _quoted(rolled, lines, rt)
            if not chosen.json:
                print(look_of(sys.stdout).text(render_rollout_quote(quote)), end="\n\n", flush=True)
            # The wallet of the rollout is a part of this: what was quoted for the inputs caps it. A
            # function is quoted as free, and may ask agents of its own.
            held = quote.examples_at_most if quote.reference and quote.candidate else None
            with rt.budget(held):
                async with rolled:
                    report = StartReport(await rolled.begin(), quote, len(lines))
                    await _check_all(rolled, lines, chosen.at_once, report)
                report.spent = Money(int(await rt.spent()))
            own = StoredRollouts([rt.store], rt.clock, chosen.store or settings.journal_place)
            shown = [
                one for one in await own.all() if (one.machine.name, one.version) == (name, version)
            ]
            report.status = [await own.status(one) for one in shown]
    finally:
        for store in stores:
            await store.aclose()
    _tell_start(report, as_json=chosen.json)
    return report.status_code


async def _quoted(
    rolled: RolledOut[..., Any], lines: Sequence[InputLine], rt: Runtime
) -> RolloutQuote:
    """Return the quote before anybody is asked; no more than the budget of this command."""
    quote = await rolled.quote([line.call() for line in lines], asks=False)
    left, most = await rt.remaining(), quote.examples_at_most
    if not lines or left is None or (most is not None and most <= left):
        return quote
    return structs.replace(quote, examples_at_most=left)


def _declared(word: str) -> Callable[[Runtime], object]:
    """Return the function that a file declares a rollout by."""
    file, _, name = word.rpartition(":")
    if not file or not name.isidentifier():
        raise UserError(
            f"{word!r} names no rollout of a file; give the file and a function in it, type: "
            "vega rollout start review.py:review"
        )
    path = Path(file)
    if not path.is_file():
        raise UserError(f"there is no file {path}; give the path of a .py file")
    found = names_at(path, _admit)
    made = found.get(name)
    if not inspect.isfunction(made):
        functions = [key for key, each in found.items() if _is_of(path, each)]
        others = f"; its functions are: {', '.join(functions)}" if functions else ""
        raise UserError(
            f"{path} has no function {name!r}{others}; to declare a rollout there, write: "
            f"def {name}(rt): return rollout(rt, {name!r}, reference=…, candidate=…)"
        )
    return cast("Callable[[Runtime], object]", made)


def _admit(path: Path, content: bytes) -> None:
    """Check the trust in a file before its folder is searched: from then on a module of it stands
    in for one of the same name elsewhere, as if Python had started the file."""
    check_loading(path, content)
    sys.path.insert(0, str(path.resolve().parent))


def _is_of(path: Path, each: object) -> bool:
    """Return whether a function is written in this file, and not imported."""
    if not inspect.isfunction(each):
        return False
    return Path(each.__code__.co_filename).resolve() == path.resolve()


def _made(declare: Callable[[Runtime], object], rt: Runtime, word: str) -> RolledOut[..., Any]:
    try:
        made = declare(rt)
    except TypeError as error:
        raise UserError(
            f"{word} cannot be called with a runtime: {error}; write it as def NAME(rt): return "
            "rollout(rt, …)"
        ) from error
    if not isinstance(made, RolledOut):
        raise UserError(
            f"{word} returned {type(made).__name__} and no rollout; let it end with: return "
            "rollout(rt, …)"
        )
    return cast("RolledOut[..., Any]", made)


def _inputs_of(path: Path) -> list[InputLine]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}; give a file of lines of JSON") from error
    found: list[InputLine] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(InputLine(number, json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{path}, line {number}, is no JSON: {error}; write a call on each line, such as "
                '"Which kind of letter is this? …"'
            ) from error
    return found


async def _check_all(
    rolled: RolledOut[..., Any], lines: Sequence[InputLine], at_once: int, report: StartReport
) -> None:
    """Compare both paths on every input, some at once."""
    look, left = look_of(sys.stderr), iter(lines)
    live = LivePlace(sys.stderr) if look.moves and lines else None

    async def work() -> None:
        for line in left:
            _count(report, line, await _checked(rolled, line))
            if live is not None:
                live.draw([cut(_progress(report, look), look.width or 80)])

    try:
        await gather_all([work() for _ in range(min(at_once, len(lines)))])
    finally:
        if live is not None:
            live.close()


async def _checked(rolled: RolledOut[..., Any], line: InputLine) -> CheckedInput:
    args, named = line.arguments()
    try:
        return await rolled.check(*args, **named)
    except VegaError:
        raise
    except TypeError as error:
        raise UserError(
            f"line {line.number} of the inputs does not fit: {error}; a list gives the arguments, "
            "an object the named ones"
        ) from error


def _count(report: StartReport, line: InputLine, checked: CheckedInput) -> None:
    report.agree += checked.agrees is True
    report.differ += checked.agrees is False
    report.unknown += checked.agrees is None
    if checked.agrees is not True and len(report.differences) < _MOST_SHOWN:
        answers = (
            str(checked.reference)[:_LONGEST_ANSWER],
            str(checked.candidate)[:_LONGEST_ANSWER],
        )
        report.differences.append(Difference(line.number, line.value, *answers))


def _progress(report: StartReport, look: Look) -> str:
    done = report.agree + report.differ + report.unknown
    return look.text(
        f"{Sign.WORKING} {done:,} of {report.inputs:,} inputs, {report.differ:,} differ"
    )


def _tell_start(report: StartReport, *, as_json: bool) -> None:
    if as_json:
        print_json(in_dollars(report))
        return
    look = look_of(sys.stdout)
    if report.inputs:
        unknown = f", {report.unknown:,} could not be compared" if report.unknown else ""
        sign, tone = (
            (Sign.HELD, Tone.ASK) if report.differ or report.unknown else (Sign.DONE, Tone.OK)
        )
        said = f"{count(report.inputs, 'input')}: {report.agree:,} agree, {report.differ:,} differ"
        spent = f", for {format_money(report.spent)}" if report.spent else ""
        print("\n".join(look.marked(sign, tone, said + unknown + spent)))
        for each in report.differences:
            given = one_line(json.dumps(each.inputs, ensure_ascii=False))
            print("\n".join(look.fold(given, "     ", f"  {each.line}: ")))
            for who in ("reference", "candidate"):
                said = one_line(getattr(each, who))
                print("\n".join(look.fold(said, " " * 16, f"     {who:<9}  ")))
        print()
    for one in report.status:
        print("\n".join(render_status(one, look)))


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], Coroutine[Any, Any, int]]] = {
    "start": _start,
    "status": _status,
    "list": _list,
    **dict.fromkeys(map(str, PersonAction), _decide),
}
