"""`vega run` and `vega test`: run a program, or test programs that say beside their lines what they
shall do.

After a run one line tells about time, calls, tokens and money. Only `vega test` imports the
testing kit, when it is called.
"""

import argparse
import asyncio
import shlex
import signal
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from vegakit.cli.compiler import check_loading, compiled_at, nodes_at
from vegakit.cli.look import (
    Look,
    Sign,
    Tone,
    duration,
    look_of,
    print_json,
    tell_error,
)
from vegakit.cli.main import CommandParser, amount, silence
from vegakit.cli.progress import RunProgress, RunTotals
from vegakit.cli.questions import TerminalQuestions
from vegakit.cli.runs import short_id
from vegakit.concurrency import cancel_on_sigterm
from vegakit.config import Settings, load
from vegakit.control import Question
from vegakit.errors import (
    BudgetExceeded,
    CatchableError,
    ProgramChanged,
    SettingsError,
    ToolCutOff,
    UserError,
    VegaError,
    error_name,
)
from vegakit.host import NO_PRICE, JournaledRun, python_value
from vegakit.lang import Module, Problem, arguments_of
from vegakit.money import Money, dollars
from vegakit.policy import sanitise
from vegakit.ports import Model
from vegakit.program import OverlapReport, Printed, WastedCost
from vegakit.providers import needs_key, provider_of
from vegakit.sdk import (
    PIPELINE_SUFFIXES,
    Runtime,
    VegaProgram,
    interop_at,
    load as load_program,
    runtime_arguments,
    tools_at,
)
from vegakit.store import show_place
from vegakit.vm import restored, text_of

# `vega run`: a program, its output, and one line of account.


_TONES = {
    Sign.DONE: Tone.OK,
    Sign.FAILED: Tone.BAD,
    Sign.HELD: Tone.ASK,
    Sign.REFUSED: Tone.ASK,
}


_NOTHING = ("load null", "return")
"""The instructions of a program that is empty."""


def run_command(arguments: Sequence[str]) -> int:
    """Run `vega run`."""
    # Options may stand between the file and its arguments.
    chosen = _parser().parse_intermixed_args(arguments)
    if chosen.file.suffix in PIPELINE_SUFFIXES:
        return _played(_pipeline_run(chosen))
    _refuse_options_of_pipelines(chosen)
    made = compiled_at(chosen.file)
    if made is None:
        return 1
    module, root = made
    main = module.functions[module.main]
    if not main.params and len(main.code) <= len(_NOTHING):
        raise UserError(
            f"{chosen.file} does nothing: it has no statement, and no main that does something; "
            'write for example: fn main() { print("hello"); }'
        )
    given = _given(module, chosen)
    interop = interop_at(chosen.file, check_loading, nodes_at(chosen.file))
    return _played(_Run(VegaProgram(module, root, interop=interop), given, chosen))


def _pipeline_run(chosen: argparse.Namespace) -> "_Run":
    if chosen.arguments:
        raise UserError(
            f"a pipeline takes no arguments, but its input; type: vega run {chosen.file} --input "
            f"{shlex.quote(chosen.arguments[0])}"
        )
    tools = [tool for file in chosen.tools or () for tool in tools_at(file, check_loading)]
    return _Run(load_program(chosen.file, tools=tools), [chosen.input or ""], chosen)


def _refuse_options_of_pipelines(chosen: argparse.Namespace) -> None:
    for option in ("input", "tools"):
        if getattr(chosen, option) is not None:
            raise UserError(
                f"--{option} is for pipelines ({', '.join(PIPELINE_SUFFIXES)}); {chosen.file} is a "
                f"program: leave it out, and write arguments of main behind the file"
            )


def _played(made_run: "_Run") -> int:
    try:
        return asyncio.run(made_run.go())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return made_run.interrupted()
    except _ResultNotWrittenError as error:
        tell_error(error)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega run",
        description="Run a program, or a pipeline; what follows the file of a program are the "
        "arguments of its main.",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT")
    parser.add_argument("--input", metavar="TEXT", help="the input of a pipeline")
    parser.add_argument(
        "--tools",
        action="append",
        type=Path,
        metavar="FILE.py",
        help="functions with @tool that agents of a pipeline name",
    )
    parser.add_argument("--budget", type=amount, metavar="'$5'", help="the most it may spend")
    parser.add_argument("--model", help="for all its agents; scripted:FILE needs no key")
    parser.add_argument(
        "--allow", action="append", metavar="CAPABILITY", help="only these of what it declares"
    )
    journal = parser.add_mutually_exclusive_group()
    journal.add_argument(
        "--journal", metavar="FILE", help="record it in this file or URL, not among your runs"
    )
    journal.add_argument(
        "--no-journal", action="store_true", help="record nothing: it cannot go on after a crash"
    )
    parser.add_argument(
        "--sequential", action="store_true", help="begin no call before the program comes to it"
    )
    parser.add_argument(
        "--set",
        action="append",
        metavar="NAME=VALUE",
        help="a setting for this run, such as bounds.width=200",
    )
    parser.add_argument("--quiet", action="store_true", help="no account at the end")
    parser.add_argument("--json", action="store_true", help="output, result and account as JSON")
    return parser


def _given(module: Module, chosen: argparse.Namespace) -> list[Any]:
    main = module.functions[module.main]
    called = main.names or [f"argument {at + 1}" for at in range(len(main.params))]
    names = list(zip(called, main.params, strict=True))
    given = arguments_of(names, chosen.arguments)
    if isinstance(given, Problem):
        usage = "".join(f" <{name}>" for name, _ in names)
        raise UserError(f"{given}; type: vega run {chosen.file}{usage}")
    return list(given)


def _shown(text: str) -> str:
    """Return the whole result, however long: it is what was paid for. What would steer a terminal
    is spelled."""
    return sanitise(text, sys.maxsize)


def _flags(chosen: argparse.Namespace) -> dict[str, object]:
    """Return the settings of this run alone. A value is written as in `vega.toml`; what is no TOML
    is a text, so that nobody has to quote twice."""
    flags: dict[str, object] = {}
    for one in chosen.set or ():
        name, equals, value = one.partition("=")
        if not equals:
            raise UserError(f"--set {one} has no value; type: --set bounds.width=200")
        try:
            flags[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            flags[name] = value
    return flags | ({"journal.enabled": False} if chosen.no_journal else {})


def _raised(rt: Runtime, wallet: Money | None) -> Money | None:
    """Return a budget with what a person added to it when the run went on."""
    more = 0 if rt.journaled is None else rt.journaled.run.raised
    return None if wallet is None else Money(wallet + more)


async def _left(rt: Runtime, cap: Money | None) -> int | None:
    """Return what is left of the budget of the settings and of `--budget`, whichever is less."""
    limits = [await rt.remaining(), None if cap is None else cap - await rt.spent()]
    return min((max(0, limit) for limit in limits if limit is not None), default=None)


class _ResultNotWrittenError(Exception):
    """The program came to its end, and its result found no place."""


class _SingleModel:
    """A model for all agents, whatever they name: a script goes on from one to the other."""

    def __init__(self, find: Callable[[str], tuple[Model, ...]], model: str) -> None:
        self._find = find
        self._name = model
        self._models: tuple[Model, ...] = ()

    def __call__(self, _: str) -> tuple[Model, ...]:
        self._models = self._models or self._find(self._name)
        return self._models


class _Advice(NamedTuple):
    """Advice on what to type after a run that did not come to its end."""

    said: str
    command: str

    def __str__(self) -> str:
        return f"{self.said}: {self.command}"

    def told(self, look: Look) -> str:
        """Return the advice as the last lines of an error."""
        return "\n".join([*look.fold(self.said, "  ", "  "), f"  try: {self.command}"])


def _advice_on(
    journaled: JournaledRun, error: VegaError | None, journal: str | None
) -> _Advice | None:
    """Return advice on a failure. What failed the run is asked again. Where nothing of the world
    failed it, the same answers lead to the same end, so something has to be changed first."""
    file = "" if journal is None else f" {shlex.quote(show_place(journal))}"
    command = f"vega resume{file}"
    if isinstance(error, ToolCutOff | ProgramChanged):
        return None  # they say themselves what to do
    if isinstance(error, BudgetExceeded) and NO_PRICE in str(error):
        # A recorded error is its name and its words: no more is known of one that is read again.
        return _Advice("to go on when it has a price", command)
    if isinstance(error, BudgetExceeded):
        return _Advice("to go on with a higher budget", f"{command} --budget '+$1'")
    if error is None or journaled.failed:
        return _Advice("to go on", command)
    return _Advice("to go on after the program or a setting is changed", command)


class _Run:
    def __init__(self, program: VegaProgram, given: list[Any], chosen: argparse.Namespace) -> None:
        self._program = program
        self._given = given
        self._chosen = chosen
        self._account = RunTotals()
        self._printed: list[str] = []
        self._seen = 0
        self._began = time.monotonic()
        self._runtime: Runtime | None = None
        self._at_most: int | None = None
        self._is_terminated = False
        self._progress: RunProgress | None = None
        self._people: TerminalQuestions

    async def go(self) -> int:
        """Run the program. What an earlier process recorded as the end of this run, and could not
        say any more, is asked again at once: nobody has to type `vega resume` for that a second
        time."""
        if threading.current_thread() is threading.main_thread():
            cancel_on_sigterm(self._on_sigterm)
        try:
            await self._once()
        except VegaError as error:
            journaled = None if self._runtime is None else self._runtime.journaled
            if journaled is None or not journaled.failed_of_old:
                return self._failed(error)
            journaled.again()
            self._seen, self._printed = len(self._printed), []
            try:
                await self._once()
            except VegaError as again:
                return self._failed(again)
        return 0

    async def _once(self) -> None:
        wallet = None if self._chosen.budget is None else dollars(self._chosen.budget)
        settings = load(_flags(self._chosen))
        await self._check_keys(settings)
        self._runtime = Runtime(**self._parts(settings))
        # Before a lease is taken: loading the libraries of a provider may take longer than one.
        models = (name for agent in self._program.module.agents for name in agent.models)
        await self._runtime.model_registry.prepare(models)
        async with self._runtime as rt:
            await self._tell_unfinished(rt)
            left, cap = await rt.remaining(), _raised(rt, wallet)
            rooms = [room for room in (cap, left) if room is not None]
            self._at_most = min(rooms, default=None)
            self._progress = self._open_progress(rt)
            self._people = people = TerminalQuestions(rt)
            rt.on(Printed, self._on_printed)
            rt.on(Question, self._progress.clear)
            rt.on(WastedCost, self._account.on_wasted)
            rt.on(OverlapReport, self._account.on_overlapped)
            rt.on(Question, people.ask)
            for question in rt.interrupts():  # asked before the run was cut off
                people.ask(question)
            name = self._program.module.functions[self._program.module.main].name
            try:
                result = await rt.program.run(
                    self._program, name, self._given, wallet, self._chosen.allow
                )
            except VegaError:
                self._account.left = await _left(rt, cap)
                raise
            finally:
                await self._progress.aclose()
                people.say_all()

            async def tell() -> None:
                # Only now: calls that were begun early and given up have given back the rest.
                self._account.left = await _left(rt, cap)
                self._tell_result(result)

            rt.before_end(tell)

    def _open_progress(self, rt: Runtime) -> RunProgress:
        """Return the progress of the run, which is drawn where somebody looks."""
        progress = RunProgress(rt, self._chosen.file.name, self._at_most)
        self._account.progress = progress
        look = look_of(sys.stderr)
        if look.moves and not (self._chosen.quiet or self._chosen.json):
            progress.open(sys.stderr, look)
        return progress

    async def _tell_unfinished(self, rt: Runtime) -> None:
        before = None if rt.journaled is None else await rt.journaled.unfinished_before()
        if before is not None and not self._chosen.quiet:
            look = look_of(sys.stderr)
            told = "this is a new run; an earlier one of the same command is unfinished, and has "
            print(
                *look.marked(Sign.HELD, Tone.ASK, f"{told}its answers"), sep="\n", file=sys.stderr
            )
            print(f"  to go on with it, try: vega resume {short_id(before)}", file=sys.stderr)

    async def _check_keys(self, settings: Settings) -> None:
        """Check the keys before anything runs, rather than at the first call."""
        aliases = {name for spec in self._program.module.agents for name in spec.models}
        if self._chosen.model:
            aliases = {self._chosen.model} if aliases else set[str]()
        providers = set[str]()
        for alias in aliases:
            try:
                providers |= {provider_of(name) for name in settings.models_of(alias)}
            except SettingsError as error:
                raise settings.unknown_model(alias, error) from None
        for provider in filter(needs_key, sorted(providers - {"scripted"})):
            try:
                await settings.key(provider).read()
            except SettingsError as error:
                given = shlex.join(["vega", "run", str(self._chosen.file), *self._chosen.arguments])
                scripted = f"{given} --model scripted:FILE"
                raise SettingsError(f"{error}, or let a script answer: {scripted}") from error

    def _parts(self, settings: Settings) -> dict[str, Any]:
        parts, chosen = runtime_arguments(settings), self._chosen
        parts["trace"] = self._account.around(parts["trace"])
        if chosen.model:
            parts["models"] = _SingleModel(parts["models"], chosen.model)
        if chosen.sequential:
            parts["bounds"] = structs.replace(parts["bounds"], window=0)
        if chosen.journal:
            parts["journal"] = chosen.journal
            parts["ledger"] = None
        return parts

    def _on_printed(self, news: Printed) -> None:
        """Print a line, unless it was printed before the run went on in this process."""
        self._printed.append(news.text)
        if not self._chosen.json and len(self._printed) > self._seen:
            if self._progress is not None:
                self._progress.clear()
            self._people.say(_shown(news.text))

    def _tell_result(self, result: Any) -> None:  # noqa: ANN401
        try:
            self._finished(result)
        except BrokenPipeError:  # who reads us has seen enough, like `head`
            silence()
        except OSError as error:
            silence()
            advice = self._advice(None)
            raise _ResultNotWrittenError(
                f"the result cannot be written: {error.strerror}; make room, or name another place"
                + (f"; it is recorded; to see it again, type: {advice.command}" if advice else "")
            ) from error

    def _finished(self, result: Any) -> None:  # noqa: ANN401
        if self._chosen.json:
            self._page(result=python_value(result))
            return
        # Of a pipeline all outputs were printed as they came.
        if result is not None and self._program.pipeline is None:
            print(_shown(text_of(restored(result))), flush=True)
        self._tell_account()

    def _failed(self, error: VegaError) -> int:
        name = error_name(error)
        if self._chosen.json:
            more = {"resume": advice.command} if (advice := self._advice(error)) else {}
            self._page(error={"name": name, "reason": str(error)}, **more)
            return 1
        look = look_of(sys.stderr)
        # A name helps where a program could catch it by that name.
        told = _shown(f"{name}: {error}" if isinstance(error, CatchableError) else str(error))
        is_refusal = isinstance(error, BudgetExceeded)  # the contract at work, so it is not red
        sign = Sign.REFUSED if is_refusal else Sign.FAILED
        tell_error(told, "refused" if is_refusal else "error", _TONES[sign])
        if advice := self._advice(error):
            print(advice.told(look), file=sys.stderr)
        self._tell_account(sign)
        return 1

    def _on_sigterm(self) -> None:
        self._is_terminated = True

    def interrupted(self) -> int:
        look = look_of(sys.stderr)
        tell_error("terminated" if self._is_terminated else "interrupted")
        if advice := self._advice(None):
            print(advice.told(look), file=sys.stderr)
        self._tell_account(Sign.HELD)
        return 128 + (signal.SIGTERM if self._is_terminated else signal.SIGINT)

    def _advice(self, error: VegaError | None) -> _Advice | None:
        """Return advice, or None where there is nothing to go on with."""
        journaled = None if self._runtime is None else self._runtime.journaled
        if journaled is None:
            return None
        return _advice_on(journaled, error, self._chosen.journal)

    def _tell_account(self, sign: Sign = Sign.DONE) -> None:
        """Tell what the run came to, on one line. One that never began came to nothing."""
        if self._chosen.quiet or self._progress is None:
            return
        look = look_of(sys.stderr)
        line = self._account.line(time.monotonic() - self._began, self._at_most)
        told = look.marked(sign, _TONES[sign], f"{self._chosen.file.name}  {line}")
        print(*told, sep="\n", file=sys.stderr)

    def _page(self, **more: Any) -> None:  # noqa: ANN401
        account = self._account.as_json(time.monotonic() - self._began)
        page = {"output": self._printed, **more, "account": account}
        print_json(page)
        sys.stdout.flush()


# `vega test`: programs that say beside their lines what they shall do.


def test_command(arguments: Sequence[str]) -> int:
    """Run `vega test`."""
    chosen = _test_parser().parse_args(arguments)
    from vegakit.testing import find_tests, run_test

    began, failed = time.monotonic(), 0
    if missing := [path for path in chosen.paths if not path.exists()]:
        raise UserError(f"there is no file or folder {missing[0]}; correct its path")
    paths = list(find_tests(chosen.paths))
    if not paths:
        raise UserError(
            "no program here says what it shall do; add a line: print(1);  // expect: 1"
        )
    look = look_of(sys.stdout)
    good, bad = (
        look.paint(look.text(str(sign)), _TONES[sign]) for sign in (Sign.DONE, Sign.FAILED)
    )
    pages: list[dict[str, Any]] = []
    for path in paths:
        ran = run_test(path, loading=check_loading, nodes=nodes_at(path))
        failed += bool(ran.problems)
        pages.append({"file": str(path), "passed": not ran.problems, "problems": ran.problems})
        if chosen.json:
            continue
        if ran.problems:
            told = [line for one in ran.problems for line in look.fold(one, "    ", "  ")]
            print("\n".join([f"{bad} failed {path}", *told]))
        elif chosen.verbose:
            print(f"{good} passed {path}")
    if chosen.json:
        print_json(pages)
    took = duration((time.monotonic() - began) * 1000)
    print(f"{len(paths) - failed} of {len(paths)} passed in {took}", file=sys.stderr)
    return 1 if failed else 0


def _test_parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega test",
        description="Run test programs: scripted answers in their comments, virtual time, no key.",
    )
    parser.add_argument("paths", nargs="*", type=Path, default=[Path()], metavar="FILE|FOLDER")
    parser.add_argument("-v", "--verbose", action="store_true", help="name those that passed too")
    parser.add_argument("--json", action="store_true", help="for machines")
    return parser
