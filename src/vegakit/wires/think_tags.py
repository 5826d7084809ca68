"""Thoughts that a model writes between tags at the beginning of its answer (pure).

Servers that have no field for thoughts send them so. A tag may be cut anywhere, so what may be the
beginning of one is held back.
"""

from vegakit.conversation import ModelChunk, ReasoningDelta, TextDelta

_OPEN, _CLOSE = "<think>", "</think>"
_MOST_SPACE = 1_000
"""So long an answer may be empty before it is taken for one."""


def tagged(thought: str) -> str:
    """Return a thought as its model wrote it."""
    return f"{_OPEN}\n{thought}\n{_CLOSE}"


class TagSplitter:
    """Tells the thoughts of one answer from the rest of it."""

    __slots__ = ("_answers", "_held", "_texts", "_thinks", "_thoughts")

    def __init__(self) -> None:
        self._answers = False
        self._thinks = False
        self._held = ""
        self._texts: list[str] = []
        self._thoughts: list[str] = []

    def feed(self, text: str, chunks: list[ModelChunk]) -> None:
        """Take a piece of content."""
        if self._answers:
            self._texts.append(text)
            chunks.append(TextDelta(text))
            return
        self._held += text
        if not self._thinks:
            self._begin(chunks)
        if self._thinks:
            self._think(chunks)

    def whole(self) -> tuple[str, str]:
        """Return thoughts and answer. What is still held back at the end was no tag."""
        thoughts, texts = "".join(self._thoughts), "".join(self._texts)
        return (thoughts + self._held, texts) if self._thinks else (thoughts, texts + self._held)

    def _begin(self, chunks: list[ModelChunk]) -> None:
        start = self._held.lstrip()
        if start.startswith(_OPEN):
            self._thinks, self._held = True, start.removeprefix(_OPEN)
        elif not _OPEN.startswith(start) or len(self._held) > _MOST_SPACE:
            self._answer(self._held, chunks)

    def _think(self, chunks: list[ModelChunk]) -> None:
        thought, tag, rest = self._held.partition(_CLOSE)
        kept = 0 if tag else _beginning_of_tag(thought)
        thought, self._held = thought[: len(thought) - kept], thought[len(thought) - kept :]
        if thought:
            self._thoughts.append(thought)
            chunks.append(ReasoningDelta(thought))
        if tag:
            self._thinks = False
            self._answer(rest, chunks)

    def _answer(self, text: str, chunks: list[ModelChunk]) -> None:
        self._answers, self._held = True, ""
        if text:
            self._texts.append(text)
            chunks.append(TextDelta(text))


def _beginning_of_tag(text: str) -> int:
    """Return how many characters at the end of a text may begin the closing tag."""
    lengths = range(min(len(text), len(_CLOSE) - 1), 0, -1)
    return next((n for n in lengths if text.endswith(_CLOSE[:n])), 0)
