"""Answers of a declared type: the schema that a model is given, and the check of what came back."""

import msgspec

from vegakit.conversation import OutputSpec
from vegakit.lang import Problem, RecordOf, Type, answer_of, answer_schema
from vegakit.records import Json

__all__ = ["output_of", "problem_of", "value_in"]


def output_of(answer: Type) -> OutputSpec:
    name = answer.name.rpartition("::")[2] if isinstance(answer, RecordOf) else "Answer"
    return OutputSpec(name, answer_schema(answer))


def problem_of(answer: Type, text: str) -> str | None:
    """What is wrong with it, in words the model can act on."""
    read = _read(answer, text)
    return str(read) if isinstance(read, Problem) else None


def value_in(answer: Type, text: str) -> Json:
    """Of an answer that was checked."""
    read = _read(answer, text)
    return None if isinstance(read, Problem) else read


def _read(answer: Type, text: str) -> Json | Problem:
    try:
        return answer_of(answer, msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return Problem("it is not JSON")
