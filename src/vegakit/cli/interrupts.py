"""`vega interrupts`: what people are asked, and how to answer."""

import sys
from collections.abc import Sequence

from msgspec import json

from vegakit.cli.asked import questions_at
from vegakit.cli.looking import duration, one_line, terminal_width, verb_parser
from vegakit.runtime import Question

__all__ = ["render_questions", "run"]


def run(words: Sequence[str]) -> int:
    parser = verb_parser("interrupts", "Show what people are asked and have not answered.")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    chosen = parser.parse_args(words)
    remote, questions = questions_at(chosen.at)
    if chosen.json:
        print(json.format(json.encode(questions)).decode())
        return 0
    now_ms = remote.info().now_ms
    print(render_questions(questions, now_ms, width=terminal_width(sys.stdout)))
    return 0


def render_questions(
    questions: Sequence[Question], now_ms: int, *, width: int | None = None
) -> str:
    """The whole text of each, since people are to judge by it."""
    if not questions:
        return "nothing is asked"
    return "\n\n".join(_shown(question, now_ms, width) for question in questions)


def _shown(question: Question, now_ms: int, width: int | None) -> str:
    wants = "yes|no" if question.permits else "'WORDS'"
    left = "" if question.expires_ms is None else f", {_left(question.expires_ms - now_ms)}"
    head = f"{question.id}  {question.kind}, asked by {one_line(question.process)}{left}"
    lines = [_visible(line) for line in question.text.splitlines() or [""]]
    body = [f"  {part}" for line in lines for part in _parts(line, width)]
    return "\n".join([head, *body, f"  $ vega answer {question.id} {wants}"])


def _left(left_ms: int) -> str:
    return f"{duration(left_ms)} left" if left_ms > 0 else "time is over"


def _visible(line: str) -> str:
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)


def _parts(line: str, width: int | None) -> list[str]:
    """Nothing is cut, since what is not shown is not approved."""
    size = max(20, width - 2) if width else len(line) or 1
    return [line[at : at + size] for at in range(0, len(line), size)] or [""]
