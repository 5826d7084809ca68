"""A question of the program that runs here, put to whoever sits at its terminal."""

import asyncio
import sys

from vegakit.errors import UserError
from vegakit.policy import sanitise
from vegakit.runtime import Question, Runtime

__all__ = ["PeopleHere"]

_YES = {"y", "yes", "true"}


class PeopleHere:
    """One question after the other. Where nobody sits, it says how to answer from elsewhere."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._turn = asyncio.Lock()
        self._asking: set[asyncio.Task[None]] = set()

    def ask(self, question: Question) -> None:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            way = "yes" if question.permits else "'your words'"
            print(f"asks: {sanitise(question.text)}", file=sys.stderr)
            print(f"  answer with: vega answer {question.id} {way}", file=sys.stderr)
            return
        task = asyncio.ensure_future(self._ask(question))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, question: Question) -> None:
        async with self._turn:
            hint = " [y/N] " if question.permits else "\n> "
            prompt = f"{sanitise(question.text)}{hint}"
            said = await asyncio.to_thread(_read, prompt)
            answer = said.strip().lower() in _YES if question.permits else said
            try:
                await self._runtime.answer(question.id, answer)
            except UserError as error:
                print(f"too late: {error}", file=sys.stderr)


def _read(prompt: str) -> str:
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return sys.stdin.readline()
