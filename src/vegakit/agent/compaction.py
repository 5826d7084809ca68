"""Plan what a summary replaces when a conversation outgrew the window, and what stays (pure).

    exchange  exchange │ prompt  calls, results  calls, results  calls, results
    ◀────────────── the summary ──────────────▶ ◀─────── these stay ──────────▶

What the agent sees afterwards begins with one message: what is pinned, word by word; what was
taken out of sight, counted; and the summary. A cut never parts a call from its results. It may
fall into the turn that is under way: then the prompt of that turn is pinned too.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from vegakit.agent.actions import CompactedHistory
from vegakit.conversation import (
    AssistantMessage,
    AssistantPart,
    Media,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
    UserPart,
)
from vegakit.records import canonical, to_json

# A conversation as plain text, for the model that summarises it.
#
# Not as messages: providers refuse tool calls in a request that offers no tools, and signatures of
# thoughts that are out of their place.


def transcript(messages: Iterable[Message], longest: int | None = None) -> str:
    """Return messages as text, for a summary. Of a line beyond `longest` its middle is left out."""
    lines = (line for message in messages for line in _lines(message))
    return "\n".join(line if longest is None else _shortened(line, longest) for line in lines)


def _lines(message: Message) -> list[str]:
    match message:
        case UserMessage(parts):
            return [f"User: {_words(part)}" for part in parts]
        case AssistantMessage(parts):
            return [f"Assistant: {words}" for part in parts if (words := _words(part))]
        case ToolMessage(results):
            return [f"Result of {result.name}: {result.content}" for result in results]


def _words(part: UserPart | AssistantPart) -> str:
    match part:
        case Text(text):
            return text
        case Media(media_type):
            return f"[{media_type}]"
        case ToolCall():
            return f"[calls {part.name} with {canonical(part.arguments).decode()}]"
        case Reasoning():
            return ""


def _shortened(line: str, longest: int) -> str:
    if len(line) <= longest:
        return line
    half = longest // 2
    return f"{line[:half]} [{len(line) - longest:,} characters left out] {line[-half:]}"


# The plan.


PROMPT_PIN = "The task of this turn"
_HEAD = (
    "[The conversation outgrew the window, and its earlier part was summed up. Pinned parts are "
    "verbatim.]"
)
_LONGEST_LINES = (None, 8_000, 2_000, 400, 100)
"""Tried in this order until a transcript fits the window itself: results of tools may be long, and
what is said of them at their beginning and end is mostly enough for a summary."""
_HALVES = tuple(0.5**power for power in range(1, 8))
NO_PATTERNS: Mapping[str, str] = {}
_MOST_PATHS, _LONGEST_PATH = 40, 120
"""Of each tool, as the agent is told them."""


class CompactionPlan(Struct, frozen=True):
    """A compaction under way: the first `cut` messages go, and `pinned` stays."""

    cut: int
    turns: int
    calls: dict[str, int]
    paths: dict[str, tuple[str, ...]]
    pinned: dict[str, str]
    bytes_before: int

    def opening(self, summary: str) -> str:
        """Return what stands in the place of all that went."""
        # In the first turn of a session its goal and the prompt are the same text.
        unlike = {text: name for name, text in reversed(self.pinned.items())}
        pins = [f"# {name} (pinned)\n\n{text}" for text, name in reversed(unlike.items())]
        gone = f"# Out of sight\n\n{self._gone()}"
        return "\n\n".join([_HEAD, *pins, gone, f"# Summary\n\n{summary}"])

    def _gone(self) -> str:
        calls = ", ".join(f"{name} {times}" for name, times in self.calls.items())
        lines = [f"Prompts: {self.turns}. Tool calls: {sum(self.calls.values())}"]
        lines[0] += f" ({calls})." if calls else "."
        for name, paths in self.paths.items():
            more = [f"and {len(paths) - _MOST_PATHS} more"] if len(paths) > _MOST_PATHS else []
            shown = [re.sub(r"\s+", " ", path)[:_LONGEST_PATH] for path in paths[:_MOST_PATHS]]
            lines.append(f"Paths given to {name}: {', '.join([*shown, *more])}.")
        return "\n".join(
            [*lines, "What was read of them is no longer seen; read it again if needed."]
        )

    def transcripts(self, line: Sequence[Message]) -> Iterator[str]:
        """Yield what there is to summarise, shorter each time."""
        text = ""
        for longest in _LONGEST_LINES:
            yield (text := transcript(line[: self.cut], longest))
        # Thousands of small calls: the first and the last of them, and how much is missing.
        for size in _HALVES:
            yield _shortened(text, int(len(text) * size))

    def facts(self, after: Sequence[Message]) -> CompactedHistory:
        """Return what is told of this compaction when it is done."""
        return CompactedHistory(
            self.turns, self.calls, self.paths, self.bytes_before, len(to_json(tuple(after)))
        )


def plan_compaction(
    line: Sequence[Message],
    prompt_at: int,
    pinned: Mapping[str, str],
    size: Callable[[tuple[Message, ...]], int],
    room: int,
    path_patterns: Mapping[str, str] = NO_PATTERNS,
    is_due: bool = False,
) -> CompactionPlan:
    """Plan the compaction of a conversation whose turn begins with the message at `prompt_at`, so
    that what stays takes at most half the room. If the last calls and their results do not fit
    there, they may take three quarters; if they are too long for that, they go too. If one `is_due`
    before the window is full, all goes that was before the turn, where the rest fits then."""

    before = len(to_json(tuple(line)))

    def planned(cut: int) -> CompactionPlan:
        pins = dict(pinned)
        if cut > prompt_at:
            # By an earlier compaction the prompt may be gone from the line already.
            pins.setdefault(PROMPT_PIN, _said_by_user(line[prompt_at]))
        return _plan(line, cut, pins, before, path_patterns)

    def needed(cut: int) -> int:
        opening = UserMessage((Text(planned(cut).opening("")),))
        return size((opening, *line[cut:]))

    if is_due and prompt_at and needed(prompt_at) <= room // 2:
        return planned(prompt_at)
    cuts = [at for at in range(1, len(line)) if not isinstance(line[at], ToolMessage)]
    at = bisect_left(cuts, True, key=lambda cut: needed(cut) <= room // 2)
    if at < len(cuts):
        return planned(cuts[at])
    if cuts and needed(cuts[-1]) <= 3 * room // 4:
        return planned(cuts[-1])
    return planned(len(line))


def _plan(
    line: Sequence[Message],
    cut: int,
    pinned: dict[str, str],
    before: int,
    path_patterns: Mapping[str, str],
) -> CompactionPlan:
    calls: Counter[str] = Counter()
    paths: dict[str, dict[str, None]] = {}
    gone = line[:cut]
    for message in gone:
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            calls[call.name] += 1
            for path in _paths_of(call, path_patterns.get(call.name)):
                paths.setdefault(call.name, {})[path] = None
    return CompactionPlan(
        cut,
        sum(isinstance(message, UserMessage) for message in gone),
        dict(sorted(calls.items())),
        {name: tuple(paths[name]) for name in sorted(paths)},
        pinned,
        before,
    )


def _paths_of(call: ToolCall, pattern: str | None) -> Iterator[str]:
    if not isinstance(call.arguments, dict):
        return
    given = cast("dict[str, Any]", call.arguments)
    if pattern is not None:
        texts = (text for text in given.values() if isinstance(text, str))
        fits = re.compile(pattern, re.MULTILINE)
        yield from (found[1] for text in texts for found in fits.finditer(text))
    elif isinstance(path := given.get("path"), str) and path:
        yield path


def _said_by_user(message: Message) -> str:
    parts = message.parts if isinstance(message, UserMessage) else ()
    return "\n".join(_words(part) for part in parts)
