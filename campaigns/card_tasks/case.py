"""What a case of a task is: a world before the run, and what has to be true after it.

A task has one case or several; its program has to be right in all of them. What a task leaves to
its author (the words of a message, the order of keys, white space) is not compared.
"""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

PORT = 8931
"""Where the tasks say that the server is."""
BASE = f"http://127.0.0.1:{PORT}"

Fault: TypeAlias = str | None
"""What is wrong, or nothing."""
Look: TypeAlias = Callable[[str], Fault]


class Anything(Struct, frozen=True):
    """Stands for a result that is not compared as a whole."""


class Says(Struct, frozen=True):
    """What the model answers to a message that holds all `needles` and nothing of `without`.

    `system` is looked for in what stands before the conversation. With `tool` the model first calls
    that tool, and then answers by the first of `after` whose text stands in the tool's results.
    """

    needles: tuple[str, ...]
    answer: Any = None
    without: tuple[str, ...] = ()
    system: str = ""
    by: str = ""
    hangs: bool = False
    tool: tuple[str, dict[str, Any]] | None = None
    after: tuple[tuple[str, Any], ...] = ()


class Reply(Struct, frozen=True):
    """A response of the server: what is no text is sent as JSON."""

    body: Any = ""
    status: int = 200


Route: TypeAlias = Reply | Sequence[Reply] | Callable[[str, int], Reply]
"""A response, one after the other (the last for ever), or one by the body that came and how often
it has come by now."""


class Request(NamedTuple):
    method: str
    path: str
    body: str


class Seen(Struct):
    """What a run did, as seen from outside."""

    page: dict[str, Any]
    files: dict[str, str]
    requests: list[Request]
    questions: list[str]
    messages: list[str]
    conversations: list[str]
    seconds: float

    @property
    def posts(self) -> list[tuple[str, Any]]:
        return [
            (one.path, _json_or_text(one.body)) for one in self.requests if one.method == "POST"
        ]


class Case(Struct, frozen=True):
    """`aliases` are the models that may be asked; `person` answers a question that holds the first
    text by the second, and no other; `asked` are texts that questions must hold, one question each
    and no more questions than that; `fails` is what the error of a run that has to fail holds."""

    arguments: tuple[Any, ...] = ()
    files: Mapping[str, str] = {}
    model: tuple[Says, ...] = ()
    aliases: tuple[str, ...] = ("fast",)
    routes: Mapping[str, Route] = {}
    person: Mapping[str, str] = {}
    result: Any = Anything()
    written: Mapping[str, Look] = {}
    absent: tuple[str, ...] = ()
    posted: tuple[tuple[str, Any], ...] = ()
    posts_in_order: bool = False
    asked: tuple[tuple[str, ...], ...] = ()
    fails: str = ""
    within_s: float = 90.0
    spends_at_most: float = 5.0
    also: Callable[[Seen], Fault] = lambda _: None


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# How values and files are compared.


def difference(expected: Any, actual: Any, at: str = "it") -> Fault:
    """Return where two values differ first; numbers by their value, texts without their ends."""
    if isinstance(expected, Anything):
        return None
    if isinstance(expected, dict) and isinstance(actual, dict):
        return _difference_of_objects(expected, actual, at)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(expected, list | tuple) and isinstance(actual, list):
        return _difference_of_lists(list(expected), actual, at)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(expected, str) and isinstance(actual, str):
        same = expected.strip() == actual.strip()
    elif isinstance(expected, bool) or isinstance(actual, bool):
        same = expected is actual
    elif isinstance(expected, int | float) and isinstance(actual, int | float):
        same = abs(expected - actual) < 1e-6
    else:
        same = expected == actual
    return None if same else f"{at} is {_short(actual)}, not {_short(expected)}"


def _difference_of_objects(expected: dict[str, Any], actual: dict[str, Any], at: str) -> Fault:
    if set(expected) != set(actual):
        return f"{at} has the keys {sorted(actual)}, not {sorted(expected)}"
    found = (difference(expected[key], actual[key], f"{at}.{key}") for key in expected)
    return next(filter(None, found), None)


def _difference_of_lists(expected: list[Any], actual: list[Any], at: str) -> Fault:
    if len(expected) != len(actual):
        return f"{at} has {len(actual)} items, not {len(expected)}: {_short(actual)}"
    pairs = enumerate(zip(expected, actual, strict=True))
    found = (difference(one, other, f"{at}[{nth}]") for nth, (one, other) in pairs)
    return next(filter(None, found), None)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 120 else text[:119] + "…"


def text_of(expected: str) -> Look:
    """The lines, without empty ones and without white space at their ends."""
    return lambda text: difference(_lines(expected), _lines(text), "its lines")


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def json_of(expected: Any) -> Look:
    """The value of a JSON file."""

    def look(text: str) -> Fault:
        try:
            value = json.loads(text)
        except ValueError as error:
            return f"it is no JSON: {error}"
        return difference(expected, value)

    return look


def csv_of(*expected: Sequence[str | float]) -> Look:
    """The rows of a CSV file; a number is compared by its value."""

    def look(text: str) -> Fault:
        rows = [row for row in csv.reader(_lines(text), skipinitialspace=True) if row]
        typed = [
            [_like(field, wanted) for field, wanted in zip(row, line, strict=False)]
            + row[len(line) :]
            for row, line in zip(rows, expected, strict=False)
        ]
        return difference(
            [list(line) for line in expected], typed + rows[len(expected) :], "its rows"
        )

    return look


def _like(field: str, wanted: str | float) -> str | float:
    if isinstance(wanted, str):
        return field
    try:
        return float(field)
    except ValueError:
        return field


def says(*needles: str, answer: Any = None, **more: Any) -> Says:
    """A row of the model's table."""
    return Says(needles, answer, **more)
