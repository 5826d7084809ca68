"""`vega answer`: yes, no or words to a question; once, and to exactly what is shown."""

from collections.abc import Sequence

from msgspec.structs import replace

from vegakit.cli.asked import questions_at
from vegakit.cli.looking import verb_parser
from vegakit.errors import UserError
from vegakit.runtime import Question

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    parser = verb_parser("answer", "Answer what an agent or a program asks; an answer is final.")
    parser.add_argument(
        "id", help="a question as `vega interrupts` shows it; for no or words its beginning will do"
    )
    parser.add_argument("answer", nargs="+", help="yes, no, or words")
    chosen = parser.parse_args(words)
    remote, questions = questions_at(chosen.at)
    question = _the_one(chosen.id, questions)
    # By the id as it was typed: the runtime wants the whole one for yes.
    remote.answer(replace(question, id=chosen.id), " ".join(chosen.answer))
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
        f"there is no open question {wanted!r}: it was answered, its time is over, or it never "
        "was; to see what is asked, type: vega interrupts"
    )
