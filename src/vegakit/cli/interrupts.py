"""`vega interrupts`: what people are asked, and how to answer."""

import sys
from collections.abc import Sequence

from msgspec import json

from vegakit.cli.asked import only_ascii, paged, questions_at, width_of
from vegakit.cli.looking import duration, verb_parser
from vegakit.runtime import Question, rendered_question

__all__ = ["render_questions", "run"]


def run(words: Sequence[str]) -> int:
    parser = verb_parser("interrupts", "Show what people are asked and have not answered.")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    chosen = parser.parse_args(words)
    remote, questions = questions_at(chosen.at)
    if chosen.json:
        print(json.format(json.encode(questions)).decode())
        return 0
    now_ms, out = remote.info().now_ms, sys.stdout
    lines = render_questions(
        questions, now_ms, width=width_of(out), ascii_only=only_ascii(out)
    ).splitlines()
    pages = paged(lines, out) if sys.stdin.isatty() and out.isatty() else [lines]
    for number, page in enumerate(pages, 1):
        print(*page, sep="\n")
        if number < len(pages):
            prompt = f"-- page {number} of {len(pages)}; Enter shows the next, q ends: "
            print(prompt, end="", flush=True)
            if sys.stdin.readline().strip().lower() not in ("", "y"):
                break
    return 0


def render_questions(
    questions: Sequence[Question],
    now_ms: int,
    *,
    width: int | None = None,
    ascii_only: bool = False,
) -> str:
    """The whole text of each, since people are to judge by it."""
    if not questions:
        return "nothing is asked"
    shown = (
        rendered_question(one, left=_left(one, now_ms), width=width, ascii_only=ascii_only)
        for one in questions
    )
    return "\n\n".join(map("\n".join, shown))


def _left(question: Question, now_ms: int) -> str:
    if question.expires_ms is None:
        return ""
    left_ms = question.expires_ms - now_ms
    return f"{duration(left_ms)} left" if left_ms > 0 else "time is over"
