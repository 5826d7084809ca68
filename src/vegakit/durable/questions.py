"""Questions of a program to people, held where its history is: no worker remembers them."""

from collections.abc import Sequence

from vegakit.durable.messages import Given
from vegakit.errors import UserError
from vegakit.policy import Interrupts
from vegakit.ports import Clock
from vegakit.program import Fell, Told
from vegakit.records import from_json, to_json
from vegakit.runtime import Oversight, Question

__all__ = ["HeldQuestions"]

_ANONYMOUS = "nobody is named who answers; give by= a name"


class HeldQuestions:
    """`interrupts` are those that an earlier run of the workflow left open."""

    def __init__(self, clock: Clock, interrupts: Interrupts | None) -> None:
        self._page = _Page(interrupts)
        self.oversight = Oversight(clock, self._page, None, None)

    async def load(self) -> None:
        await self.oversight.questions.load()

    def open(self) -> list[Question]:
        return self.oversight.questions.open()

    async def answer(self, given: Given) -> Told | Fell:
        if not given.by.strip():
            return Fell(UserError.__name__, _ANONYMOUS)
        try:
            await self.oversight.answer(given.question, given.answer, given.by, given.action)
        except UserError as refused:
            return Fell(UserError.__name__, str(refused))
        return Told(None)

    @property
    def interrupts(self) -> Interrupts | None:
        """For the next run."""
        return None if self._page.text is None else from_json(Interrupts, self._page.text)


class _Page:
    """Implements `ports.Store` for the one document that there is."""

    def __init__(self, interrupts: Interrupts | None) -> None:
        self.text = None if interrupts is None else to_json(interrupts)
        self._version = 0 if interrupts is None else 1

    async def get(self, kind: str, key: str) -> tuple[bytes, int] | None:
        return None if self.text is None else (self.text, self._version)

    async def put(self, kind: str, key: str, value: bytes, *, expected: int) -> bool:
        if expected != self._version:
            return False
        self.text, self._version = value, expected + 1
        return True

    async def delete(self, kind: str, key: str, *, expected: int) -> bool:
        if expected != self._version or self.text is None:
            return False
        self.text, self._version = None, 0
        return True

    async def keys(self, kind: str, *, after: str = "", limit: int = 100) -> Sequence[str]:
        return []

    async def aclose(self) -> None: ...
