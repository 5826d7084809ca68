"""`vega code -p`: the coding agent without a screen, in the current folder.

The answer goes to stdout, what happens meanwhile to stderr; with `--json` every event is a line on
stdout and nothing else is printed there.
"""

import argparse
import asyncio
import gc
import math
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, cast

from msgspec.json import encode

from vegakit.cli.code_doors import is_open, open_session, serve_door
from vegakit.cli.look import ERROR_NAME, Sign, Tone, count, look_of, middle, one_line, tell_error
from vegakit.cli.main import Argument, CommandParser, amount, declare, silence
from vegakit.cli.sessions import add_session_options, is_shown, show_sessions
from vegakit.cli.trust import TRUST, prepare_trust
from vegakit.concurrency import cancel_on_end, cancel_on_sigint
from vegakit.config import (
    CutOffTools,
    load,
    parse_duration_ms,
    take_resume,
    trust_for_this_process,
)
from vegakit.control import Question, render_question
from vegakit.errors import AgentFailed, CircuitOpen, OutputTruncated, RateLimited, UserError
from vegakit.host import NO_PRICE
from vegakit.money import NANOS, dollars, format_money
from vegakit.policy import format_wait
from vegakit.sage import (
    UNBILLED,
    EndReason,
    SageAgent,
    SageCompacted,
    SageEnd,
    SageEvent,
    SageMode,
    SageQuote,
    SageRetry,
    SageSession,
    SageText,
    SageToolBegan,
    SageToolEnded,
    SageWaiting,
    event_line,
    open_worktree,
    prompted,
    quote_text,
)
from vegakit.sdk import Runtime

EXIT_STATUS = {
    EndReason.DONE: 0,
    EndReason.ERROR: 1,
    EndReason.BUDGET: 3,
    EndReason.LOOP: 4,
    EndReason.LIMIT: 5,
    EndReason.INTERRUPTED: 128 + signal.SIGINT,
}
"""2 is wrong usage, as everywhere; 128 and more is a signal: 143 for SIGTERM."""
_ENDED_BY = {
    signal.SIGINT: "interrupted (Ctrl-C, SIGINT)",
    signal.SIGTERM: "terminated (SIGTERM)",
    signal.SIGHUP: "terminated (the terminal was closed, SIGHUP)",
}
_STOPPED = {EndReason.BUDGET, EndReason.LOOP, EndReason.INTERRUPTED}
"""What somebody wanted, and no fault."""
_UNANSWERED = {one.__name__ for one in (AgentFailed, CircuitOpen, RateLimited)}
"""Errors after which another model may answer."""
_SHOWN = 100


def code_command(arguments: Sequence[str]) -> int:
    """Run `vega code`."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    _take_up(chosen)
    if (look := _looked_at(chosen)) is not None:
        return look
    if chosen.door is not None:
        return serve_door(chosen)
    stays = is_open(chosen)
    if not stays and chosen.prompt is None and chosen.resume is None and chosen.fork is None:
        why = "" if chosen.json else " (without it a terminal is needed, to type at)"
        parser.error(f"the following arguments are required: -p PROMPT{why}")
    _check_prompt(chosen)
    _check_budget(chosen)
    if chosen.trust:
        trust_for_this_process(Path.cwd())
    _enter_worktree(chosen)
    if stays:
        prepare_trust(Path.cwd(), is_trusted=False)
        return open_session(chosen)
    work = _Work(chosen)
    try:
        return asyncio.run(work.go())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return work.interrupted()
    finally:
        gc.enable()


def _check_prompt(chosen: argparse.Namespace) -> None:
    if chosen.prompt is not None and not chosen.prompt.strip():
        raise UserError("the prompt is empty; say what to do: vega code -p 'Fix the failing test.'")
    if chosen.prompt is None and chosen.image:
        raise UserError("an image goes with a prompt; add: -p 'What is on it?'")
    for image in chosen.image:
        if not Path(image).is_file():
            raise UserError(f"--image {image} is not a file; give the path of one that exists")
    if chosen.prompt is None and chosen.max_tokens is not None and chosen.fork is None:
        raise UserError(
            "a turn that goes on keeps the longest answer that it began with; add a prompt: "
            "-p 'Go on.'"
        )


def _enter_worktree(chosen: argparse.Namespace) -> None:
    """Go to the worktree that is asked for, made if there is none: the session is that folder's."""
    if chosen.worktree is None:
        return
    one = open_worktree(Path.cwd(), chosen.worktree, load().data_path)
    chosen.image = [str(Path(image).resolve()) for image in chosen.image]
    os.chdir(one.folder)
    text = f"worktree {one.name}: branch {one.branch}, in {one.folder}"
    print(look_of(sys.stderr).text(text), file=sys.stderr, flush=True)


def _check_budget(chosen: argparse.Namespace) -> None:
    """Tell what is added to a session that goes on from the budget of a new one."""
    if chosen.resume is None and (chosen.budget or "").startswith("+"):
        raise UserError(
            f"--budget '{chosen.budget}' adds to the budget of a session that goes on; a new one "
            f"has all of it: --budget '{chosen.budget.removeprefix('+')}', or add: --resume SESSION"
        )
    chosen.raised = None
    if chosen.resume is not None and (chosen.budget or "").startswith("+"):
        chosen.raised, chosen.budget = chosen.budget.removeprefix("+"), None


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega code",
        description="Have a coding agent work in this folder. It spends no more than its budget, "
        "writes nothing outside of the folder, and goes on after a kill.",
        arguments=[
            Argument("-p", "--prompt", metavar="PROMPT", help="what to do"),
            Argument(
                "--image",
                action="append",
                default=[],
                metavar="FILE",
                help="an image that goes with the prompt; may be given again",
            ),
            Argument("--model", default="", help="the model; smart if not given"),
            Argument(
                "--budget",
                type=_budget,
                metavar="'$1'",
                help="the most that the session may spend in all its turns, those before, too; "
                "'+$1' adds "
                "to what one that goes on has",
            ),
            Argument(
                "--mode",
                choices=[str(mode) for mode in SageMode],
                help="plan only reads, ask asks before each write and command, auto does not",
            ),
            Argument(
                "--programs",
                action="store_true",
                help="let the agent of a new session write programs and run them",
            ),
            Argument(
                "--nodes",
                type=_folder,
                metavar="FOLDER",
                help="let the agent of a new session call the nodes of this folder of the "
                "workspace",
            ),
            Argument(
                "--max-tokens",
                type=_tokens,
                metavar="N",
                help="the most tokens of one answer; 8000, or what the session has",
            ),
            Argument(
                "--timeout",
                type=_silence,
                metavar="5m",
                help="how long the model may say nothing before it is asked again; 5m",
            ),
            Argument("--session", default="", metavar="NAME", help="a name for the new session"),
            Argument(
                "--worktree",
                nargs="?",
                const="",
                metavar="NAME",
                help="work in a worktree of this repository, with a branch of its own; made if "
                "there is "
                "none, a new one without a name",
            ),
            TRUST,
        ],
    )
    again = parser.add_mutually_exclusive_group()
    declare(
        again,
        [
            Argument(
                "--resume",
                nargs="?",
                const="",
                metavar="SESSION",
                help="go on with a session by its name or run; the last of this folder",
            ),
            Argument(
                "--continue",
                dest="resume",
                action="store_const",
                const="",
                help="go on with the last",
            ),
            Argument(
                "--fork",
                nargs="?",
                const="",
                metavar="SESSION",
                help="begin a session with the conversation of another, which stays as it is",
            ),
        ],
    )
    add_session_options(again.add_argument)
    parser.add_argument("--json", action="store_true", help="every event as a line of JSON")
    doors = parser.add_mutually_exclusive_group()
    for door, told in (("acp", "an editor"), ("mcp", "an MCP client")):
        doors.add_argument(
            f"--{door}",
            dest="door",
            action="store_const",
            const=door,
            help=f"serve {told} that starts this, on stdin and stdout",
        )
    parser.add_argument(
        "--plain",
        action="store_true",
        help="lines instead of a screen, for screen readers; also where TERM is dumb",
    )
    parser.set_defaults(resend=False, taken_up=False)
    return parser


def _budget(text: str) -> str:
    amount(text.removeprefix("+"))
    return text


def _silence(text: str) -> str:
    try:
        parse_duration_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _folder(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("name a folder of the workspace, like nodes")
    return text


def _tokens(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"a number of tokens is at least 1, like 16000: {text!r}")
    return int(text)


def _take_up(chosen: argparse.Namespace) -> None:
    """Go on with a session if `vega resume` has started this command again. Its first prompt is
    kept, so that of the command line is not said a second time."""
    which = take_resume()
    if which is not None and which.run:
        chosen.resume, chosen.prompt, chosen.session = which.run, None, ""
        chosen.budget, chosen.fork, chosen.image, chosen.max_tokens = None, None, [], None
        chosen.worktree = None  # it is started again in that folder
        chosen.resend, chosen.taken_up = which.tools is CutOffTools.RESEND, True


def _looked_at(chosen: argparse.Namespace) -> int | None:
    """Carry out what only looks at sessions; None if the agent shall work."""
    if not is_shown(chosen):
        return None
    if chosen.prompt is not None:
        raise UserError("-p asks the agent, and this only shows sessions; leave one of them out")
    return show_sessions(chosen)


class _Work:
    """One call of the command: its session, and how its events are shown."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self._chosen = chosen
        self._session: SageSession | None = None
        self._max_tokens = 0
        self._budget, self._spent = "", 0.0
        self._ending: SageEnd | None = None
        self._ended_by = signal.SIGINT
        self._said: list[str] = []

    async def go(self) -> int:
        if threading.current_thread() is threading.main_thread():
            cancel_on_end(self._on_signal)
            cancel_on_sigint(self._on_second_interrupt)
        chosen = self._chosen
        at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
        # Much is loaded until a session is open, and none of it is garbage.
        gc.disable()
        async with SageAgent(
            Path.cwd(),
            model=chosen.model,
            budget=chosen.budget,
            mode=chosen.mode,
            session=chosen.session,
            resume=chosen.resume,
            fork=chosen.fork,
            raise_budget=chosen.raised,
            resend=chosen.resend,
            programs=chosen.programs,
            nodes=chosen.nodes or "",
            max_tokens=chosen.max_tokens,
            timeout=chosen.timeout,
            on_question=self._asker() if at_terminal else None,
            on_refused=self._refused,
        ) as sage:
            self._session = await sage.opened()
            self._max_tokens, self._budget = sage.record.max_tokens, sage.record.budget
            if sage.resumed:
                self._spent = (await sage.cost()).spent_usd or 0.0
            gc.enable()
            self._show(self._session)
            self._tell_unused_nodes(sage.record.nodes)
            for note in sage.notes:
                self._tell(look_of(sys.stderr).text(f"note: {note}"))
            if chosen.fork is not None and chosen.prompt is None:
                return self._forked()
            try:
                async with aclosing(prompted(sage, chosen.prompt, chosen.image)) as events:
                    async for event in events:
                        self._show(event)
                        self._ending = event if isinstance(event, SageEnd) else self._ending
            except asyncio.CancelledError:
                # Here the turn has ended its commands, and what it came to is known.
                self._ending = await sage.interrupted(self._signal)
                raise
        assert self._ending is not None
        return self._ended(self._ending)

    def _tell_unused_nodes(self, nodes: str) -> None:
        """Tell that a session keeps the nodes that it began with."""
        if (wanted := self._chosen.nodes) and wanted != nodes:
            has = f"those of {nodes}" if nodes else "none"
            self._tell(
                f"note: --nodes {wanted} is not used: a session keeps the nodes that it "
                f"began with, and this one has {has}; to use them, begin one: vega code --nodes "
                f"{shlex.quote(wanted)} -p '…'"
            )

    def _forked(self) -> int:
        if not self._chosen.json:
            self._tell(f"  to go on with it, type: {self._again(EndReason.LOOP)}")
        return EXIT_STATUS[EndReason.DONE]

    def _asker(self) -> Any:  # noqa: ANN401
        from vegakit.cli.questions import TerminalQuestions

        people: list[TerminalQuestions] = []

        def ask(runtime: Runtime, question: Question) -> None:
            if not people:
                people.append(TerminalQuestions(runtime))
            people[0].ask(question)

        return ask

    def _refused(self, question: Question) -> None:
        """Tell what was refused because nobody could be asked, whole, and what to type instead."""
        *text, _ = render_question(question, ascii_only=look_of(sys.stderr).ascii_only)
        print(*text[1:], sep="\n", file=sys.stderr)
        again = ["vega", "code", "--resume", self._session.session if self._session else ""]
        if host := re.search(r'"host":"([^"]+)","method":"GET","port":(\d+)', question.text):
            name, port = host.groups()
            rule = f"allow net::get {name}{'' if port == '443' else f':{port}'}"
            how = f"to allow this host, add to rules of [permissions] in your settings: '{rule}'"
        else:
            how = (
                "to allow writes and commands inside of this folder, type: "
                f"{shlex.join(again)} --mode auto -p '…'"
            )
        print(
            f"  refused: a person is to be asked, and there is no terminal; {how}",
            file=sys.stderr,
            flush=True,
        )

    def _show(self, event: SageEvent) -> None:
        if self._chosen.json:
            print(event_line(event), flush=True)
            return
        look = look_of(sys.stderr)
        if isinstance(event, SageToolBegan) and not event.task and self._said:
            # What is said before a call is progress; what is said last is the answer, on stdout.
            self._tell(look.text("".join(self._said).rstrip()))
            self._said.clear()
        match event:
            case SageSession():
                limit = self._limit(event.budget_usd)
                verb = "goes on" if event.resumed else "begins"
                line = f"session {event.session} {verb}: {event.model}, mode {event.mode}{limit}"
                self._tell(look.text(line))
            case SageText():
                # Of a sub-agent the last is its result, which the agent reads.
                self._said.extend([] if event.task else [event.text])
            case SageToolBegan():
                said = one_line(_brief(event.arguments))
                begun = f"{Sign.WORKING} {event.name} {middle(said, _SHOWN, '…')}"
                self._tell(look.text(f"{_of_task(event)}{begun}"))
            case SageToolEnded() if event.is_error:
                said = ERROR_NAME.sub("", event.result)
                why = middle(one_line(said), 2 * _SHOWN, "…")
                mark = look.paint(look.text(str(Sign.FAILED)), Tone.BAD)
                self._tell(f"{_of_task(event)}{mark} {event.name}: {look.text(why)}")
            case SageQuote() | SageRetry() | SageWaiting() | SageCompacted():
                self._tell(look.text(_PROGRESS[type(event)](event)))
            case _:
                pass

    def _limit(self, at_most: float | None) -> str:
        """Return what a session may spend; where its own budget is more than the settings allow,
        both, and which one holds."""
        if at_most is None:
            return ""
        wanted = self._chosen.budget
        is_lower = wanted is not None and dollars(wanted) > round(at_most * NANOS)
        why = f" (your settings allow no more; --budget is {wanted})" if is_lower else ""
        before = f", of which {_usd(self._spent)} is spent" if self._spent else ""
        return f", at most {_usd(at_most)}{why}{before}"

    def _tell(self, line: str) -> None:
        if line:
            print(line, file=sys.stderr, flush=True)

    def _ended(self, ending: SageEnd) -> int:
        if self._chosen.json:
            return EXIT_STATUS[ending.reason]
        if ending.reason is EndReason.DONE:
            print(ending.text, flush=True)
        else:
            self._tell_why(ending)
        most = "at most " if ending.unbilled_usd else ""
        spent = "" if ending.spent_usd is None else f"{most}{_usd(ending.spent_usd)} spent"
        refused = f", {count(ending.refused, 'call')} refused" if ending.refused else ""
        changed = f", {count(ending.changed, 'path')} changed" if ending.changed else ""
        self._tell(f"{spent}{refused}{changed}")
        if ending.unbilled_usd:
            self._tell(f"  {_usd(ending.unbilled_usd)} of it {UNBILLED}")
        for note in ending.notes:
            plain = re.sub(r"\s*</?untrusted>\s*", " ", note)
            told = " ".join(plain.split())
            self._tell(look_of(sys.stderr).text(f"  note: {told}"))
        if ending.overspent_usd:
            self._tell(
                f"  {_usd(ending.overspent_usd)} over the budget: the provider billed more than "
                "the request and the limit of its answer allow; no further call is made, so check "
                "what it counts"
            )
        if ending.not_undoable:
            what = "this turn" if ending.unrecorded >= ending.changed else "all of this turn"
            self._tell(f"  vega undo cannot take {what} back: {ending.not_undoable}")
        if ending.changed > ending.unrecorded:
            them = "it" if ending.changed == 1 else "them"
            them = "the others" if ending.unrecorded else them
            self._tell(f"  to take {them} back, type: vega undo")
        for what in ending.lasting:
            self._tell(f"  vega undo cannot take back: {what}")
        return EXIT_STATUS[ending.reason]

    def _tell_why(self, ending: SageEnd) -> None:
        """Tell why a turn did not come to its end, and what to type."""
        is_stopped = ending.reason in _STOPPED
        kind = "" if ending.reason in {EndReason.ERROR, EndReason.INTERRUPTED} else ending.reason
        # The words of the library, in which it is an argument and no option.
        said = ending.message.replace("lower max_tokens", "lower --max-tokens for the next turn")
        told = f"{kind}: {said}" if kind else said
        word, tone = ("stopped", Tone.ASK) if is_stopped else ("error", Tone.BAD)
        tell_error(told, word, tone)
        if self._session is None:
            return
        again = self._again(ending.reason, 1 + math.ceil(ending.overspent_usd))
        if NO_PRICE in ending.message:  # no budget is too small: nothing can be counted
            again = self._again(EndReason.ERROR)
        if ending.error == OutputTruncated.__name__:
            again += f" --max-tokens {2 * self._max_tokens} -p 'Go on.'"
        if ending.reason is EndReason.BUDGET and not self._budget and NO_PRICE not in told:
            # It has all that the settings allow, so a raise of its own would be refused.
            again = f"{self._again(EndReason.ERROR)}, once default under [budget] is higher"
        self._tell(f"  to go on, try: {again}")
        if ending.error in _UNANSWERED:
            other = f"{self._again(EndReason.ERROR)} --model PROVIDER:NAME -p 'Go on.'"
            self._tell(f"  to ask another model, try: {other}")

    def _again(self, reason: EndReason, dollars: int = 1) -> str:
        named = shlex.quote(self._session.session) if self._session else ""
        more = {EndReason.BUDGET: f" --budget '+${dollars}'", EndReason.LOOP: " -p '…'"}.get(
            reason, ""
        )
        return f"vega code --resume {named}{more}"

    def interrupted(self) -> int:
        """Tell that a signal ended it, and how to go on; for programs by the same last event as
        every other end."""
        if self._ending is None or self._ending.reason is not EndReason.INTERRUPTED:
            self._ending = SageEnd(EndReason.INTERRUPTED, message=self._signal)
        try:
            if self._chosen.json:
                print(event_line(self._ending), flush=True)
            self._ended(self._ending)
        except OSError:  # the terminal is closed
            silence()
        return 128 + self._ended_by

    @property
    def _signal(self) -> str:
        return _ENDED_BY[self._ended_by]

    def _on_signal(self, number: signal.Signals) -> None:
        self._ended_by = number

    def _on_second_interrupt(self) -> None:
        """Say how to go on. It comes between any two steps, also of a print, so that it writes past
        what is buffered."""
        again = f"; to go on, try: {self._again(EndReason.INTERRUPTED)}" if self._session else ""
        with suppress(OSError):
            os.write(2, f"\nstopped at once by a second Ctrl-C{again}\n".encode())
            if self._chosen.json:
                end = SageEnd(EndReason.INTERRUPTED, message=self._signal)
                os.write(1, f"{event_line(end)}\n".encode())


def _usd(amount: float) -> str:
    return format_money(round(amount * NANOS))


def _of_task(event: SageToolBegan | SageToolEnded | SageRetry) -> str:
    """Return the mark of what a sub-agent does: the call that started it."""
    return f"  {event.task} " if event.task else ""


def _retry(event: SageRetry) -> str:
    said, wait = one_line(event.message), format_wait(round(1000 * event.wait_s))
    return f"{_of_task(event)}{said}; try {event.attempt} of {event.attempts} in {wait}"


def _waiting(event: SageWaiting) -> str:
    waited, limit = (format_wait(round(1000 * s)) for s in (event.waited_s, event.limit_s))
    again = f" (after {limit} it is asked again)" if event.limit_s else ""
    return f"waiting for {event.what} for {waited} …{again}"


def _compaction(event: SageCompacted) -> str:
    gone = ", ".join(f"{many:,} {what.replace('_', ' ')}" for what, many in event.dropped.items())
    size = f"{event.bytes_before:,} to {event.bytes_after:,} bytes"
    return f"the conversation was summed up, {size}; out of the model's sight: {gone}"


_PROGRESS: dict[type[SageEvent], Callable[[Any], str]] = {
    SageQuote: lambda event: quote_text(event, format_money),
    SageRetry: _retry,
    SageWaiting: _waiting,
    SageCompacted: _compaction,
}


def _listed(value: Any) -> str:  # noqa: ANN401
    """Return what is no text: steps as a list of them, other things as JSON."""
    steps = cast("list[Any]", value) if isinstance(value, list) else []
    if steps and all(isinstance(one, dict) and "text" in one for one in steps):
        return ", ".join(f"[{'x' if one.get('done') else ' '}] {one['text']}" for one in steps)
    return encode(value).decode()


def _brief(arguments: Any) -> str:  # noqa: ANN401
    """Return what a call is about: its first argument, which is a path, a pattern or a command; of
    a task also its prompt."""
    if not isinstance(arguments, dict):
        return ""
    given = cast("dict[str, Any]", arguments)
    about = [one if isinstance(one, str) else _listed(one) for one in given.values()] or [""]
    return " ".join(about[: 2 if "agent" in given else 1])
