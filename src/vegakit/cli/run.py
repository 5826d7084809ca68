"""`vega run` and `vega test`: run a program, or test programs that say beside their lines what they
shall do.

After a run one line tells about time, calls, tokens and money. Only `vega test` imports the
testing kit, when it is called.
"""

import argparse
import asyncio
import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vegakit.cli.compiler import check_loading, compiled_at
from vegakit.cli.main import silence
from vegakit.cli.questions import TerminalQuestions
from vegakit.cli.runs import short_id
from vegakit.config import Settings, load
from vegakit.control import Question
from vegakit.errors import (
    BudgetExceeded,
    ProgramChanged,
    SettingsError,
    ToolCutOff,
    UserError,
    VegaError,
    error_name,
)
from vegakit.events import CallKind, CallTraced
from vegakit.host import JournaledRun, python_value
from vegakit.lang import Module, Problem, arguments_of
from vegakit.money import Money, dollars, format_money
from vegakit.policy import sanitise
from vegakit.ports import Model, Sink
from vegakit.program import OverlapReport, Printed, WastedCost
from vegakit.providers import needs_key, provider_of
from vegakit.sdk import Runtime, VegaProgram, interop_at, runtime_arguments
from vegakit.store import show_place
from vegakit.vm import restored, text_of

# What a run came to: counted from its trace, told in one line.


_WORTH_TELLING_S = 0.1


class RunTotals:
    """A sink around another one."""

    def __init__(self) -> None:
        self._next: Sink | None = None
        self.calls = self.input_tokens = self.output_tokens = self.spent = 0
        self.reserved = self.wasted = self.sequential_ms = self.critical_ms = 0

    def around(self, sink: Sink | None) -> "RunTotals":
        """Pass calls on to this sink, too."""
        self._next = sink
        return self

    def record(self, call: CallTraced) -> None:
        """Count a call."""
        if call.kind is CallKind.MODEL:
            self.calls += 1
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

    def line(self, took_s: float) -> str:
        """Return the totals in a line."""
        calls = f"{self.calls} call{'' if self.calls == 1 else 's'}"
        tokens = f"{self.input_tokens:,} + {self.output_tokens:,} tokens"
        parts = [f"{took_s:.1f} s{self._saved(took_s)}", calls, tokens, self._money()]
        return " · ".join(parts)

    def _saved(self, took_s: float) -> str:
        """Return the time saved, only where calls overlapped."""
        sequential_s = self.sequential_ms / 1000
        if sequential_s - took_s < _WORTH_TELLING_S:
            return ""
        chain = f"longest chain {self.critical_ms / 1000:.1f} s"
        return f" (one after another {sequential_s:.1f} s, {chain})"

    def _money(self) -> str:
        reserved, spent = (format_money(Money(amount)) for amount in (self.reserved, self.spent))
        wasted = f", {format_money(Money(self.wasted))} of it wasted" if self.wasted else ""
        return f"{reserved} reserved, {spent} spent{wasted}"

    def as_json(self, took_s: float) -> dict[str, Any]:
        """Return the totals for programs."""
        return {
            "seconds": round(took_s, 3),
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "sequential_seconds": round(self.sequential_ms / 1000, 3),
            "critical_path_seconds": round(self.critical_ms / 1000, 3),
            "reserved_usd": self.reserved / 1_000_000_000,
            "spent_usd": self.spent / 1_000_000_000,
            "wasted_usd": self.wasted / 1_000_000_000,
        }


# `vega run`: a program, its output, and one line of account.


_NO_KEY = "to try it without a key, type: vega run {file} --model scripted:FILE"


def run_command(arguments: Sequence[str]) -> int:
    """Run `vega run`."""
    chosen = _parser().parse_args(arguments)
    made = compiled_at(chosen.file)
    if made is None:
        return 1
    module, root = made
    given = _given(module, chosen)
    interop = interop_at(chosen.file, check_loading)
    made_run = _Run(VegaProgram(module, root, interop=interop), given, chosen)
    try:
        return asyncio.run(made_run.go())
    except KeyboardInterrupt:
        return made_run.interrupted()
    except _ResultNotWrittenError as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega run",
        description="Run a program; what follows its file are the arguments of its main.",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT")
    parser.add_argument("--budget", metavar="'$5'", help="what it may spend at most")
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


class _ResultNotWrittenError(Exception):
    """The program came to its end, and its result found no place."""


class _SingleModel:
    """A model for all agents, whatever they name: a script goes on from one to the other."""

    def __init__(self, find: Callable[[str], Model], model: str) -> None:
        self._find = find
        self._name = model
        self._model: Model | None = None

    def __call__(self, _: str) -> Model:
        if self._model is None:
            self._model = self._find(self._name)
        return self._model


class _Advice(NamedTuple):
    """Advice on what to type after a run that did not come to its end."""

    said: str
    command: str

    def __str__(self) -> str:
        return f"{self.said}: {self.command}"


def _advice_on(
    journaled: JournaledRun, error: VegaError | None, journal: str | None
) -> _Advice | None:
    """Return advice on a failure. What failed the run is asked again. Where nothing of the world
    failed it, the same answers lead to the same end, so something has to be changed first."""
    file = "" if journal is None else f" {shlex.quote(show_place(journal))}"
    command = f"vega resume{file}"
    if isinstance(error, ToolCutOff | ProgramChanged):
        return None  # they say themselves what to do
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
        self._people: TerminalQuestions

    async def go(self) -> int:
        """Run the program. What an earlier process recorded as the end of this run, and could not
        say any more, is asked again at once: nobody has to type `vega resume` for that a second
        time."""
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
        settings = load({"journal.enabled": False} if self._chosen.no_journal else {})
        await self._check_keys(settings)
        self._runtime = Runtime(**self._parts(settings))
        # Before a lease is taken: loading the libraries of a provider may take longer than one.
        models = (agent.model for agent in self._program.module.agents)
        await self._runtime.model_registry.prepare(models)
        async with self._runtime as rt:
            await self._tell_unfinished(rt)
            self._people = people = TerminalQuestions(rt)
            rt.on(Printed, self._on_printed)
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
            finally:
                people.say_all()
            rt.before_end(lambda: self._tell_result(result))

    async def _tell_unfinished(self, rt: Runtime) -> None:
        before = None if rt.journaled is None else await rt.journaled.unfinished_before()
        if before is not None and not self._chosen.quiet:
            print(
                "this is a new run; an earlier one of the same command is unfinished, and has its "
                f"answers. To go on with that one instead, type: vega resume {short_id(before)}",
                file=sys.stderr,
            )

    async def _check_keys(self, settings: Settings) -> None:
        """Check the keys before anything runs, rather than at the first call."""
        aliases = {spec.model for spec in self._program.module.agents}
        if self._chosen.model:
            aliases = {self._chosen.model} if aliases else set[str]()
        providers = {provider_of(settings.model(alias)) for alias in aliases}
        for provider in filter(needs_key, sorted(providers - {"scripted"})):
            await settings.key(provider).read()

    def _parts(self, settings: Settings) -> dict[str, Any]:
        parts, chosen = runtime_arguments(settings), self._chosen
        parts["trace"] = self._account.around(parts["trace"])
        if chosen.model:
            parts["models"] = _SingleModel(parts["models"], chosen.model)
        if chosen.sequential:
            parts["window"] = 0
        if chosen.journal:
            parts["journal"] = chosen.journal
            parts["ledger"] = None
        return parts

    def _on_printed(self, news: Printed) -> None:
        """Print a line, unless it was printed before the run went on in this process."""
        self._printed.append(news.text)
        if not self._chosen.json and len(self._printed) > self._seen:
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
                + (f". It is recorded; {advice}" if advice else "")
            ) from error

    def _finished(self, result: Any) -> None:  # noqa: ANN401
        if self._chosen.json:
            self._page(result=python_value(result))
            return
        if result is not None:
            print(_shown(text_of(restored(result))), flush=True)
        self._tell_account()

    def _failed(self, error: VegaError) -> int:
        name = error_name(error)
        if self._chosen.json:
            more = {"resume": advice.command} if (advice := self._advice(error)) else {}
            self._page(error={"name": name, "reason": str(error)}, **more)
            return 1
        print(f"{name}: {_shown(str(error))}", file=sys.stderr)
        if isinstance(error, SettingsError):
            print(_NO_KEY.format(file=self._chosen.file), file=sys.stderr)
        self._tell_account()
        if advice := self._advice(error):
            print(advice, file=sys.stderr)
        return 1

    def interrupted(self) -> int:
        print("interrupted", file=sys.stderr)
        self._tell_account()
        if advice := self._advice(None):
            print(advice, file=sys.stderr)
        return 130

    def _advice(self, error: VegaError | None) -> _Advice | None:
        """Return advice, or None where there is nothing to go on with."""
        journaled = None if self._runtime is None else self._runtime.journaled
        if journaled is None:
            return None
        return _advice_on(journaled, error, self._chosen.journal)

    def _tell_account(self) -> None:
        if not self._chosen.quiet:
            print(self._account.line(time.monotonic() - self._began), file=sys.stderr)

    def _page(self, **more: Any) -> None:  # noqa: ANN401
        account = self._account.as_json(time.monotonic() - self._began)
        page = {"output": self._printed, **more, "account": account}
        print(json.dumps(page, indent=2, default=str), flush=True)


# `vega test`: programs that say beside their lines what they shall do.


def test_command(arguments: Sequence[str]) -> int:
    """Run `vega test`."""
    chosen = _test_parser().parse_args(arguments)
    from vegakit.testing import find_tests, run_test

    began, failed = time.monotonic(), 0
    paths = list(find_tests(chosen.paths))
    if not paths:
        raise UserError(
            "no program here says what it shall do; add a line: print(1);  // expect: 1"
        )
    for path in paths:
        ran = run_test(path, loading=check_loading)
        failed += bool(ran.problems)
        if ran.problems:
            print("\n".join([f"FAILED {path}", *(f"  {problem}" for problem in ran.problems)]))
        elif chosen.verbose:
            print(f"passed {path}")
    took_s = time.monotonic() - began
    print(f"{len(paths) - failed} of {len(paths)} passed in {took_s:.1f} s", file=sys.stderr)
    return 1 if failed else 0


def _test_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega test",
        description="Run test programs: scripted answers in their comments, virtual time, no key.",
    )
    parser.add_argument("paths", nargs="*", type=Path, default=[Path()], metavar="FILE|FOLDER")
    parser.add_argument("-v", "--verbose", action="store_true", help="name those that passed too")
    return parser
