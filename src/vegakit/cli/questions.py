"""Questions to people: `vega interrupts`, `vega answer`, and questions of a program that runs at
this terminal.

A question is shown whole, page by page if it is long, and yes counts only after the last page.
"""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TextIO

from vegakit.cli.display import AT_KERNEL, command_parser, is_kernel, limited
from vegakit.cli.look import duration, look_of, money, print_json
from vegakit.cli.main import JSON, Argument
from vegakit.cli.runs import journal_of_user, short_id
from vegakit.concurrency import SteadyClock
from vegakit.control import BlockingControlClient, Question, connect, render_question
from vegakit.errors import StoreError, UserError
from vegakit.money import Money
from vegakit.sdk import Runtime
from vegakit.store import journal_size, list_runs, show_place

# What those share that ask people: which runtime asks, and how a screen is filled.


_FILE = "run.db"
"""What programs usually call a journal of their own."""
_USUAL = (80, 24)
_FEWEST = 5


def questions_at(at: str | None) -> tuple[BlockingControlClient, list[Question]]:
    """Return a runtime and its open questions, or say which run would ask when it is resumed, or
    has ended."""
    try:
        remote = connect(at).blocking
        return remote, remote.interrupts()
    except UserError as error:
        if at is not None:
            raise
        raise UserError(_without_runtime() or str(error)) from error


def paged(lines: Sequence[str], screen: TextIO) -> list[list[str]]:
    """Return pages that fit on the screen, with a line for a prompt."""
    size = max(_FEWEST, _size(screen)[1] - 2)
    return [list(lines[at : at + size]) for at in range(0, len(lines), size)] or [[]]


def width_of(screen: TextIO) -> int | None:
    """Return the width of the screen as it is, whatever a variable says: a line that breaks
    elsewhere than we think could look like one of ours. None where nobody looks."""
    return _size(screen)[0] if screen.isatty() else None


def _size(screen: TextIO) -> tuple[int, int]:
    try:
        columns, lines = os.get_terminal_size(screen.fileno())
    except (OSError, ValueError):
        columns, lines = 0, 0
    return columns or _USUAL[0], lines or _USUAL[1]


def _without_runtime() -> str:
    """Return why nothing takes an answer: a run was stopped while it waited, or the last run has
    ended. Return "" if that is not known."""
    reason = ""
    for place in (_FILE, journal_of_user()):
        runs = list_runs(place) if journal_size(place) is not None else []
        for one in reversed(runs):
            shown = f"run {short_id(one.run)} of {show_place(place)}"
            if one.is_running:
                return ""
            if one.ended_ms is None:
                named = place if place == _FILE else short_id(one.run)
                return (
                    "no running program asks a question, and a run that has ended takes no answer; "
                    f"{shown} is unfinished, and asks its open questions again when it is resumed: "
                    f"type vega resume {named}, then this again"
                )
            reason = reason or f"nothing waits for an answer: {shown} has ended; type: vega runs"
    return reason


# `vega interrupts`: what people are asked, and how to answer.


def interrupts_command(arguments: Sequence[str]) -> int:
    """Run `vega interrupts`."""
    parser = command_parser("interrupts", at=AT_KERNEL, arguments=[JSON])
    chosen = parser.parse_args(arguments)
    if is_kernel(chosen.at):
        from vegakit.cli.kernel import open_questions, question_in

        remote, questions = None, [*map(question_in, open_questions(chosen.at))]
    else:
        remote, questions = questions_at(chosen.at)
    if chosen.json:
        print_json(questions)
    elif remote is None:
        _print_paged(questions, SteadyClock().now(), at=chosen.at)
    else:
        runtime = remote.info()
        left = {view.path: view.left for view in limited(remote.ps(), runtime)}
        _print_paged(questions, runtime.now_ms, left)
    return 0


def _print_paged(
    questions: Sequence[Question],
    now_ms: int,
    left: Mapping[str, Money | None] | None = None,
    at: str = "",
) -> None:
    out = sys.stdout
    lines = render_questions(
        questions,
        now_ms,
        width=width_of(out),
        ascii_only=look_of(out).ascii_only,
        left=left,
        at=at,
    ).splitlines()
    pages = paged(lines, out) if sys.stdin.isatty() and out.isatty() else [lines]
    for number, page in enumerate(pages, 1):
        print(*page, sep="\n")
        if number < len(pages):
            prompt = f"-- page {number} of {len(pages)}; Enter shows the next, q ends: "
            print(prompt, end="", flush=True)
            if sys.stdin.readline().strip().lower() not in ("", "y"):
                break


def render_questions(
    questions: Sequence[Question],
    now_ms: int,
    *,
    width: int | None = None,
    ascii_only: bool = False,
    left: Mapping[str, Money | None] | None = None,
    at: str = "",
) -> str:
    """Return the whole text of each question, since people are to judge by it, and what its process
    can still spend. `at` is the kernel that it is answered at."""
    where = f" --at {at}" if at else ""
    if not questions:
        return f"Nobody is asked anything. To see what runs, type: vega ps{where}"
    shown: list[str] = []
    for one in questions:
        *text, answer = render_question(
            one, left=_left(one, now_ms), width=width, ascii_only=ascii_only
        )
        most = (left or {}).get(one.process)
        cost = [] if most is None else [f"  it can spend at most {money(most)} more"]
        shown.append("\n".join([*text, *cost, answer + where]))
    return "\n\n".join(shown)


def _left(question: Question, now_ms: int) -> str:
    if question.expires_ms is None:
        return ""
    left_ms = question.expires_ms - now_ms
    return f"{duration(left_ms, brief=True)} left" if left_ms > 0 else "time is over"


# `vega answer`: yes, no or words to a question; once, and to exactly what is shown.


def answer_command(arguments: Sequence[str]) -> int:
    """Run `vega answer`."""
    parser = command_parser(
        "answer",
        at=AT_KERNEL,
        arguments=[
            Argument(
                "id",
                help="a question as `vega interrupts` shows it; for no or words its beginning "
                "will do",
            ),
            Argument("answer", nargs="+", help="yes, no, or words"),
        ],
    )
    chosen = parser.parse_args(arguments)
    if is_kernel(chosen.at):
        from vegakit.cli.kernel import answer_question

        print(f"answered {answer_question(chosen.at, chosen.id, ' '.join(chosen.answer))}")
        return 0
    remote, questions = questions_at(chosen.at)
    question = _the_one(chosen.id, questions)
    # By the id as it was typed: the runtime wants the whole one for yes.
    remote.answer(chosen.id, " ".join(chosen.answer), action=question.action)
    print(f"answered {question.id}")
    return 0


def _the_one(wanted: str, questions: list[Question]) -> Question:
    found = [question for question in questions if question.id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(question.id for question in found)
        raise UserError(f"{wanted!r} begins {len(found)} ids; type more of one: {ids}")
    raise UserError(
        f"there is no open question {wanted!r}: it was answered, its time is over, its run has "
        "ended, or it never was; to see the open questions, type: vega interrupts"
    )


# A question of the program that runs here, put to whoever sits at its terminal.
#
# The question is shown whole, in pages if it is longer than the screen, and yes counts only after
# the last one. What the program prints meanwhile waits until it is answered, and what was typed
# before is dropped: nothing else on the screen can take the place of the question above the
# prompt.


_YES = {"y", "yes", "true"}


def confirmed(told: str) -> bool:
    """Ask who sits at the terminal whether to go on."""
    _drop_typed()
    return _asked([told], "go on? [y/N] ").lower() in _YES


class TerminalQuestions:
    """The questions of a program that runs at this terminal, one after the other. Where nobody
    sits, it says how to answer from elsewhere."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._turn = asyncio.Lock()
        self._asking: set[asyncio.Task[None]] = set()
        self._unsaid: list[str] = []

    def say(self, text: str) -> None:
        """Print what the program prints, when no question is on the screen."""
        self._unsaid.append(text)
        if not self._turn.locked():
            self.say_all()

    def say_all(self) -> None:
        """Print what has waited for a question to be answered."""
        for text in self._unsaid:
            print(text, flush=True)
        self._unsaid.clear()

    def ask(self, question: Question) -> None:
        """Ask who sits at the terminal."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            print(*_lines(question), sep="\n", file=sys.stderr, flush=True)
            return
        task = asyncio.ensure_future(self._ask(question))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, question: Question) -> None:
        async with self._turn:
            if question not in self._runtime.interrupts():
                return  # answered elsewhere, or withdrawn, while another one was answered here
            said = await asyncio.to_thread(_read, question)
            answer = said.lower() in _YES if question.permits else said
            try:
                await self._runtime.answer(question.id, answer)
            except (UserError, StoreError) as error:
                print(f"too late: {error}", file=sys.stderr)
            self.say_all()


def _lines(question: Question) -> list[str]:
    err = sys.stderr
    return render_question(question, width=width_of(err), ascii_only=look_of(err).ascii_only)


def _read(question: Question) -> str:
    """Return the answer. For an approval it is empty, which declines, unless all of it was
    shown."""
    pages = paged(_lines(question)[:-1], sys.stderr)
    if question.permits:
        _drop_typed()
    stops = ", n declines" if question.permits else ""
    for number, page in enumerate(pages[:-1], 1):
        said = _asked(page, f"-- page {number} of {len(pages)}; Enter shows the next{stops}: ")
        if said and question.permits:
            return ""
    hint = f"approve {question.id}? [y/N] " if question.permits else "> "
    return _asked(pages[-1], hint)


def _asked(page: list[str], prompt: str) -> str:
    print(*page, sep="\n", file=sys.stderr)
    print(prompt, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def _drop_typed() -> None:
    with suppress(ImportError, OSError):  # there is no such terminal
        from termios import TCIFLUSH, error, tcflush

        with suppress(error):
            tcflush(sys.stdin, TCIFLUSH)
