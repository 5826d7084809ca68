"""A question of the program that runs here, put to whoever sits at its terminal.

The question is shown whole, in pages if it is longer than the screen, and yes counts only after the
last one. What the program prints meanwhile waits until it is answered, and what was typed before is
dropped: nothing else on the screen can take the place of the question above the prompt.
"""

import asyncio
import sys
from contextlib import suppress

from vegakit.cli.asked import only_ascii, paged, width_of
from vegakit.errors import UserError
from vegakit.runtime import Question, Runtime, rendered_question

__all__ = ["PeopleHere"]

_YES = {"y", "yes", "true"}


class PeopleHere:
    """One question after the other. Where nobody sits, it says how to answer from elsewhere."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._turn = asyncio.Lock()
        self._asking: set[asyncio.Task[None]] = set()
        self._unsaid: list[str] = []

    def say(self, text: str) -> None:
        """What the program prints."""
        self._unsaid.append(text)
        if not self._turn.locked():
            self.say_all()

    def say_all(self) -> None:
        for text in self._unsaid:
            print(text, flush=True)
        self._unsaid.clear()

    def ask(self, question: Question) -> None:
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
            except UserError as error:
                print(f"too late: {error}", file=sys.stderr)
            self.say_all()


def _lines(question: Question) -> list[str]:
    err = sys.stderr
    return rendered_question(question, width=width_of(err), ascii_only=only_ascii(err))


def _read(question: Question) -> str:
    """The answer; for leave empty, which declines, unless all of it was shown."""
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
