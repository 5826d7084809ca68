"""`vega run`: run a program, its output, and one line about time, calls, tokens and money."""

import argparse
import asyncio
import shlex
import signal
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from vegakit.cli.compiler import check_loading, compiled_at, nodes_at
from vegakit.cli.look import (
    Sign,
    Tone,
    look_of,
    print_json,
    tell_error,
)
from vegakit.cli.main import CommandParser, amount, declare, silence
from vegakit.cli.progress import RunProgress, RunTotals
from vegakit.cli.questions import TerminalQuestions, confirmed
from vegakit.cli.run_quote import (
    SpendingLimit,
    add_options,
    admitted_quote,
    keep_and_tell,
    least,
    limit_on_guesses,
    main_cap,
    opening,
    pipeline_quote,
    quote_page,
    spending_limit,
    tell_alert,
)
from vegakit.cli.runs import RESUME, Advice, advice_on, command_to_resume, run_to_reuse, short_id
from vegakit.cli.trust import TRUST, admit_rights, prepare_trust
from vegakit.concurrency import cancel_on_end, run_interruptibly
from vegakit.config import OnCutOff, Settings, load, replay_target, take_resume
from vegakit.control import Question
from vegakit.errors import (
    BudgetExceeded,
    CatchableError,
    NeedsConsent,
    SettingsError,
    UserError,
    VegaError,
    did_you_mean,
    error_name,
)
from vegakit.host import PastAnswers, cut_off_message, python_value
from vegakit.lang import LIBRARY, Checked, KnownRun, Module, Problem, arguments_of, sends_of
from vegakit.money import Money, dollars, to_usd
from vegakit.ports import Model, ReusedRun, RunQuote, RunRecord
from vegakit.program import CostAlert, OverlapReport, Printed, WastedCost
from vegakit.providers import needs_key, provider_of
from vegakit.sdk import (
    PIPELINE_SUFFIXES,
    ModelFinder,
    ProjectWorld,
    Runtime,
    VegaProgram,
    interop_at,
    load as load_program,
    runtime_arguments,
    tools_at,
)
from vegakit.vm import restored, text_of

_TONES = {
    Sign.DONE: Tone.OK,
    Sign.FAILED: Tone.BAD,
    Sign.HELD: Tone.ASK,
    Sign.REFUSED: Tone.ASK,
}


_ENDED_BY = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "terminated: the terminal was closed",
    signal.SIGPIPE: "stopped: the reader of the output has gone",
}
NEEDS_CONSENT = 3
"""The status of a run that does not go on before a person accepts what that costs."""

_NOTHING = ("load null", "return")
"""The instructions of a program that is empty."""


def run_command(arguments: Sequence[str]) -> int:
    """Run `vega run`."""
    chosen = run_options(arguments)
    chosen.resume = take_resume()
    files = [chosen.file, *(chosen.tools or ())]
    prepare_trust(files[-1].resolve().parent, files, is_trusted=chosen.trust)
    if chosen.file.suffix in PIPELINE_SUFFIXES:
        return _pipeline_run(chosen).play()
    _refuse_options_of_pipelines(chosen)
    made = compiled_at(chosen.file)
    if made is None:
        return 1
    module, root, checked = made
    main = module.functions[module.main]
    if not main.params and len(main.code) <= len(_NOTHING):
        raise UserError(
            f"{chosen.file} does nothing: it has no statement, and no main that does something; "
            'write for example: fn main() { print("hello"); }'
        )
    given = _given(module, chosen)
    _check_allowed(chosen.allow or ())
    admit_rights(chosen.file, module, chosen.allow)
    interop = interop_at(chosen.file, check_loading, nodes_at(chosen.file))
    return ProgramCommand(VegaProgram(module, root, interop=interop), given, chosen, checked).play()


def _check_allowed(names: Sequence[str]) -> None:
    """Refuse a misspelt capability of the library; those of tools may have names of their own."""
    known = {function.capability for function in LIBRARY.values()} - {""}
    families = {name.partition("::")[0] for name in known}
    for name in names:
        if name not in known and name.partition("::")[0] in families:
            near = did_you_mean(name, sorted(known))
            raise UserError(f"--allow {name} names no capability; {near}")


def _pipeline_run(chosen: argparse.Namespace) -> "ProgramCommand":
    if chosen.arguments:
        raise UserError(
            f"a pipeline takes no arguments, but its input; type: vega run {chosen.file} --input "
            f"{shlex.quote(chosen.arguments[0])}"
        )
    tools = [tool for file in chosen.tools or () for tool in tools_at(file, check_loading)]
    return ProgramCommand(load_program(chosen.file, tools=tools), [chosen.input or ""], chosen)


def _refuse_options_of_pipelines(chosen: argparse.Namespace) -> None:
    for option in ("input", "tools"):
        if getattr(chosen, option) is not None:
            raise UserError(
                f"--{option} is for pipelines ({', '.join(PIPELINE_SUFFIXES)}); {chosen.file} is a "
                f"program: leave it out, and write arguments of main behind the file"
            )


def run_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the words behind `vega run`; options may stand between the file and its arguments."""
    return _parser().parse_intermixed_args(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega run",
        description="Run a program, or a pipeline; what follows the file of a program are the "
        "arguments of its main.",
    )
    parser.set_defaults(resume=None)
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
    add_options(parser)
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
        "--reuse",
        metavar="RUN",
        help="keep the answers of this run, the beginning of its id, whose requests are unchanged",
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
    declare(parser, [TRUST])
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


def _live(rt: Runtime, quoted: RunQuote, spent: int) -> int | None:
    state, reused = rt.program.machine.state, rt.journaled and rt.journaled.run.reused
    live = quoted.live(spent, state.saved, state.bounds.raised, state.beyond)
    if live is None or reused is None or reused.at_most is None:
        return live
    cap = reused.at_most + quoted.cut + state.bounds.raised
    return max(spent, min(live, cap))


async def _left(rt: Runtime, cap: Money | None) -> int | None:
    """Return what is left of the budget of the settings and of `--budget`, whichever is less."""
    limits = [await rt.remaining(), None if cap is None else cap - await rt.spent()]
    return min((max(0, limit) for limit in limits if limit is not None), default=None)


class _ResultNotWrittenError(Exception):
    """The program came to its end, and its result found no place."""


class _SingleModel:
    """A model for all agents, whatever they name: a script goes on from one to the other."""

    def __init__(self, find: ModelFinder, model: str, replaced: Collection[str]) -> None:
        self._find = find
        self._name = model
        self._replaced = replaced
        self._models: dict[str, tuple[Model, ...]] = {}

    def names_of(self, _: str) -> tuple[str, ...]:
        return self._find.names_of(self._name)

    def __call__(self, name: str) -> tuple[Model, ...]:
        """Return the one model for what agents name; any other name is that of a model."""
        model_name = self._name if name in self._replaced else name
        if model_name not in self._models:
            self._models[model_name] = self._find(model_name)
        return self._models[model_name]


class ProgramCommand:
    """A program that a command runs, and what it says of it. With `returned` its result is given
    there, and not printed."""

    def __init__(
        self,
        program: VegaProgram,
        given: list[Any],
        chosen: argparse.Namespace,
        checked: Checked | None = None,
        returned: Callable[[Any], object] | None = None,
    ) -> None:
        self._program = program
        self._returned = returned
        self._checked = checked
        self._given = given
        self._chosen = chosen
        self._account = RunTotals()
        self._printed: list[str] = []
        self._seen = 0
        self._began = time.monotonic()
        self._runtime: Runtime | None = None
        self._limit: SpendingLimit | None = None
        self._live: int | None = None
        self._quote: RunQuote | None = None
        self._ended_by = signal.SIGINT
        self._task: asyncio.Task[Any] | None = None
        self._progress: RunProgress | None = None
        self._people: TerminalQuestions
        self._rest: PastAnswers | None = None
        self._resume = RESUME
        self._raised = 0
        self._main_cap: Money | None = None
        self._reused: ReusedRun | None = None
        self._aliases = {name for spec in program.module.agents for name in spec.models}

    @property
    def spent(self) -> int:
        """Return what its calls have cost."""
        return self._account.spent

    def play(self) -> int:
        """Run the program to its end, or until somebody interrupts it; return the status."""
        try:
            return run_interruptibly(self._go())
        except (KeyboardInterrupt, asyncio.CancelledError):
            return self._interrupted()
        except _ResultNotWrittenError as error:
            tell_error(error)
            return 1

    async def _go(self) -> int:
        """Run the program. What an earlier process recorded as the end of this run, and could not
        say any more, is asked again at once: nobody has to type `vega resume` for that a second
        time."""
        self._task = asyncio.current_task()
        if threading.current_thread() is threading.main_thread():
            cancel_on_end(self._on_signal)
        try:
            await self._once()
        except NeedsConsent as error:
            self._failed(error)
            return NEEDS_CONSENT
        except VegaError as error:
            journaled = None if self._runtime is None else self._runtime.journaled
            if journaled is None or not journaled.failed_of_old:
                return self._failed(error)
            self._seen, self._printed = len(self._printed), []
            try:
                await self._once()
            except VegaError as again:
                return self._failed(again)
        return 0

    async def _once(self) -> None:
        wallet = None if self._chosen.budget is None else dollars(self._chosen.budget)
        settings = load(_flags(self._chosen))
        if self._chosen.resume is None:
            named = {self._chosen.model} if self._chosen.model and self._aliases else self._aliases
            await self._check_keys(settings, named, settings.models_of)
        earlier = await run_to_reuse(self._chosen, settings)
        self._runtime = Runtime(**self._parts(settings))
        self._make_quote(self._runtime, settings, wallet)
        # Before a lease is taken: loading the libraries of a provider may take longer than one.
        await self._runtime.model_registry.prepare(self._aliases)
        async with self._runtime as rt:
            await self._tell_unfinished(rt)
            await self._note_resume(rt)
            quoted = rt.quote or self._quote
            self._main_cap = _raised(rt, main_cap(self._checked, quoted))
            caps = wallet, None if quoted is None else quoted.cap
            cap = least(self._main_cap, *(_raised(rt, one) for one in caps))
            # Calls of others in flight may cost less than they hold: what they free may be spent.
            self._limit = await spending_limit(rt, cap)
            if earlier is not None or (rt.journaled and rt.journaled.run.reused):
                cap = await self._keep_answers(rt, earlier)
                self._limit = None if cap is None else SpendingLimit(cap, name="quote")
            else:
                self._tell_quote(rt)
            self._progress = self._open_progress(rt)
            self._people = people = TerminalQuestions(rt)
            rt.on(Printed, self._told(self._on_printed))
            rt.on(Question | CostAlert, self._progress.clear)
            rt.on(CostAlert, self._told(tell_alert))
            rt.on(WastedCost, self._account.on_wasted)
            rt.on(OverlapReport, self._account.on_overlapped)
            rt.on(Question, self._told(people.ask))
            for question in rt.interrupts():  # asked before the run was cut off
                people.ask(question)
            name = self._program.module.functions[self._program.module.main].name
            try:
                result = await rt.program.run(
                    self._program, name, self._given, wallet, self._chosen.allow, rt.quote
                )
            except VegaError:
                await self._note_resume(rt)
                self._account.left = await _left(rt, cap)
                self._live = rt.quote and _live(rt, rt.quote, await rt.spent())
                raise
            finally:
                self._note_rest(rt)
                await self._progress.aclose()
                people.say_all()

            async def tell() -> None:
                # Only now: calls that were begun early and given up have given back the rest.
                self._account.left, self._live = await _left(rt, cap), await rt.spent()
                self._tell_result(result)

            rt.before_end(tell)

    def _make_quote(self, rt: Runtime, settings: Settings, wallet: Money | None) -> None:
        if self._checked is not None:
            planned = self._checked, self._program, self._given, settings
            self._quote = rt.quote = admitted_quote(*planned, self._chosen)
        elif self._program.pipeline is not None:
            self._quote = pipeline_quote(self._program, settings, self._chosen)
        caps = wallet, main_cap(self._checked, self._quote)
        rt.takeover_terms.caps = [cap for cap in caps if cap is not None]
        rt.takeover_terms.ask = self._asks_to_go_on
        rt.takeover_terms.check = partial(self._check_resumed, rt, settings)

    async def _check_resumed(self, rt: Runtime, settings: Settings) -> None:
        """Check the keys of a resumed run. Whatever stops it names the command to resume it."""
        await self._note_resume(rt)
        await self._check_keys(settings, self._aliases, rt.model_registry.names_of)

    async def _asks_to_go_on(self, why: NeedsConsent) -> bool:
        """Ask at the terminal. Without one the error has the command to type."""
        if self._chosen.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        return await asyncio.to_thread(confirmed, str(why).rpartition("; ")[0])

    async def _note_resume(self, rt: Runtime) -> None:
        if rt.journaled is not None:
            self._resume = await command_to_resume(rt.journaled, self._chosen.journal)
            self._raised = rt.journaled.run.raised

    def _note_rest(self, rt: Runtime) -> None:
        """Note answers that were kept and the limit on guesses, for the account."""
        self._account.kept += 0 if self._rest is None else self._rest.given
        state = rt.program.machine.state
        if state.guesses.peak:
            self._account.guesses = limit_on_guesses(state.bounds, self._program.module)

    def _tell_cut_off(self, rt: Runtime) -> None:
        message = (
            "" if rt.journaled is None or self._seen else cut_off_message(rt.journaled, rt.quote)
        )
        if message and not (self._chosen.quiet or self._chosen.json):
            lines = look_of(sys.stderr).marked(Sign.HELD, Tone.ASK, message)
            print(*lines, sep="\n", file=sys.stderr)

    def _tell_quote(self, rt: Runtime) -> None:
        quoted = rt.quote or self._quote
        if quoted is not None and not (self._chosen.quiet or self._chosen.json or self._seen):
            look, name = look_of(sys.stderr), self._chosen.file.name
            resume = None if rt.journaled is None else self._resume
            now = self._quote or quoted
            guesses = limit_on_guesses(rt.program.machine.state.bounds, self._program.module)
            if quoted.program not in ("", now.program):
                warning = f"{name} was changed after this run began; only new calls may differ"
                print(*look.marked(Sign.HELD, Tone.ASK, warning), sep="\n", file=sys.stderr)
            figures = self._limit, self._raised, resume
            lines = opening(quoted, name, look, *figures, kill=now.kill, guesses=guesses)
            print(*lines, sep="\n", file=sys.stderr)

    async def _keep_answers(self, rt: Runtime, earlier: RunRecord | None) -> Money | None:
        """Keep the answers of an earlier run, and return what that leaves to spend at most."""
        planned = self._program, self._given, earlier, self._limit and self._limit.amount
        kept, self._rest = await keep_and_tell(rt, *planned, self._chosen)
        self._account.kept, self._reused = kept.kept, kept
        extension = 0 if rt.journaled is None else rt.journaled.extension
        return None if kept.at_most is None else _raised(rt, Money(kept.at_most + extension))

    def _open_progress(self, rt: Runtime) -> RunProgress:
        """Return the progress of the run, which is drawn where somebody looks."""
        most = None if self._limit is None else self._limit.amount
        progress = RunProgress(rt, self._chosen.file.name, most)
        self._account.progress = progress
        if rt.quote is not None:
            progress.live = partial(_live, rt, rt.quote)
        look = look_of(sys.stderr)
        if look.moves and not (self._chosen.quiet or self._chosen.json):
            progress.open(sys.stderr, look)
        return progress

    async def _tell_unfinished(self, rt: Runtime) -> None:
        self._tell_cut_off(rt)
        before = None if rt.journaled is None else await rt.journaled.unfinished_before()
        if before is not None and not self._chosen.quiet:
            look = look_of(sys.stderr)
            told = "this is a new run; an earlier one of the same command is unfinished, and has "
            print(
                *look.marked(Sign.HELD, Tone.ASK, f"{told}its answers"), sep="\n", file=sys.stderr
            )
            print(f"  to go on with it, try: vega resume {short_id(before)}", file=sys.stderr)

    async def _check_keys(
        self,
        settings: Settings,
        aliases: Collection[str],
        names_of: Callable[[str], tuple[str, ...]],
    ) -> None:
        """Check the keys before anything runs, rather than at the first call. A replay, which calls
        no model, needs none."""
        if replay_target() is not None:
            return
        providers = set[str]()
        for alias in aliases:
            try:
                providers |= {provider_of(name) for name in names_of(alias)}
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
        parts["resume"] = chosen.resume
        parts["trace"] = self._account.around(parts["trace"])
        if chosen.model:
            parts["models"] = _SingleModel(parts["models"], chosen.model, self._aliases)
        if chosen.sequential:
            parts["bounds"] = structs.replace(parts["bounds"], window=0)
        if chosen.journal:
            parts["journal"] = chosen.journal
            parts["ledger"] = None
        if parts["journal"] is None and parts["ledger"] is None:
            self._check_periods()
        if parts["on_cut_off"] is None and chosen.max is not None:
            parts["on_cut_off"] = OnCutOff.ASK  # what was accepted is the quote
        if self._checked is not None:
            known = KnownRun(tuple(self._given), ProjectWorld(self._program.root))
            sends = sends_of(self._checked, known)
            parts["bounds"] = structs.replace(parts["bounds"], sends=sends)
        return parts

    def _check_periods(self) -> None:
        """Refuse what would hold for this run alone."""
        for spec in self._program.module.agents:
            if spec.period:
                raise UserError(
                    f"agent {spec.name} may spend {spec.allowance} in all runs together, which is "
                    "counted in the ledger, and a run without a journal has none; leave out "
                    "--no-journal, or name a ledger: --set ledger.path=ledger.db"
                )

    def _on_printed(self, news: Printed) -> None:
        """Print a line, unless it was printed before the run went on in this process."""
        self._printed.append(news.text)
        if not self._chosen.json and len(self._printed) > self._seen:
            if self._progress is not None:
                self._progress.clear()
            self._people.say(news.text)

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
        if self._returned is not None:
            self._returned(result)
        elif self._chosen.json:
            self._page(result=python_value(result))
            return
        # Of a pipeline all outputs were printed as they came.
        elif result is not None and self._program.pipeline is None:
            print(text_of(restored(result)), flush=True)
        self._tell_account()

    def _failed(self, error: VegaError) -> int:
        name, reason = error_name(error), str(error).replace(f"{RESUME} -", f"{self._resume} -")
        # The marks around what others wrote are for models.
        reason = reason.replace("<untrusted>\n", "").replace("\n</untrusted>", "")
        if self._chosen.json:
            more = {"resume": advice.command} if (advice := self._advice(error)) else {}
            self._page(error={"name": name, "reason": reason}, **more)
            return 1
        look = look_of(sys.stderr)
        # A name helps where a program could catch it by that name.
        told = f"{name}: {reason}" if isinstance(error, CatchableError) else reason
        is_refusal = isinstance(error, BudgetExceeded)  # the contract at work, so it is not red
        sign = Sign.REFUSED if is_refusal else Sign.FAILED
        tell_error(told, "refused" if is_refusal else "error", _TONES[sign])
        if advice := self._advice(error):
            print(advice.told(look), file=sys.stderr)
        self._tell_account(sign)
        return 1

    def _told(self, tell: Callable[[Any], object]) -> Callable[[Any], object]:
        """Return a listener that stops the run, as a signal does, when the reader has gone."""

        def told(news: Any) -> None:  # noqa: ANN401
            try:
                tell(news)
            except BrokenPipeError:
                silence()
                self._on_signal(signal.SIGPIPE)
                assert self._task is not None
                self._task.cancel()

        return told

    def _on_signal(self, number: signal.Signals) -> None:
        self._ended_by = number

    def _interrupted(self) -> int:
        try:
            look = look_of(sys.stderr)
            tell_error(_ENDED_BY[self._ended_by])
            if advice := self._advice(None):
                print(advice.told(look), file=sys.stderr)
            self._tell_account(Sign.HELD)
        except OSError:  # the terminal is closed
            silence()
        return 128 + self._ended_by

    def _advice(self, error: VegaError | None) -> Advice | None:
        """Return advice, or None where there is nothing to go on with."""
        journaled = None if self._runtime is None else self._runtime.journaled
        if journaled is None:
            return None
        return advice_on(journaled, error, self._resume)

    def _tell_account(self, sign: Sign = Sign.DONE) -> None:
        """Tell what the run came to, on one line. One that never began came to nothing."""
        if self._chosen.quiet or self._progress is None:
            return
        look = look_of(sys.stderr)
        line = self._account.line(time.monotonic() - self._began, self._limit)
        told = look.marked(sign, _TONES[sign], f"{self._chosen.file.name}  {line}")
        print(*told, sep="\n", file=sys.stderr)

    def _cut_off_page(self) -> dict[str, Any]:
        """Return the calls that the end of the last life cut off, as in `_tell_cut_off`."""
        journaled = None if self._runtime is None else self._runtime.journaled
        if journaled is None or not (cut := journaled.recovered.cut).unsent:
            return {}
        return {"cut_off": {"calls": cut.unsent, "charged_usd": to_usd(cut.due)}}

    def _page(self, **more: Any) -> None:  # noqa: ANN401
        quoted = (self._runtime and self._runtime.quote) or self._quote
        figures = quote_page(quoted, self._live, self._raised, self._reused, self._main_cap)
        page = {"output": self._printed, **more, **figures, **self._cut_off_page()}
        print_json(page | {"account": self._account.as_json(time.monotonic() - self._began)})
        sys.stdout.flush()
