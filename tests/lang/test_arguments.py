"""Words of a command line as the arguments of `main`."""

import pytest

from vegakit.lang import (
    ANY,
    BOOL,
    DURATION,
    FLOAT,
    INT,
    MONEY,
    STR,
    ChoiceOf,
    ListOf,
    MapOf,
    OptionalOf,
    RecordOf,
    Type,
    arguments_of,
)
from vegakit.lang.types import FILE

POINT = RecordOf("Point", (("x", INT), ("y", OptionalOf(INT))))


@pytest.mark.parametrize(
    ("kind", "word", "value"),
    [
        (STR, "3", "3"),
        (INT, "-3", -3),
        (FLOAT, "2.5", 2.5),
        (FLOAT, "3", 3.0),
        (BOOL, "true", True),
        (BOOL, "No", False),
        (MONEY, "$1.50", {"$": "money", "of": 1_500_000_000}),
        (MONEY, "1.50", {"$": "money", "of": 1_500_000_000}),
        (DURATION, "5m", {"$": "duration", "of": 300_000}),
        (FILE, "a.png", {"$": "file", "of": "a.png"}),
        (ChoiceOf(("low", "high")), "low", "low"),
        (OptionalOf(INT), "3", 3),
        (OptionalOf(INT), "null", None),
        (POINT, '{"x": 1}', {"x": 1, "y": None}),
        (MapOf(INT), '{"a": 1}', {"a": 1}),
        (ANY, "[1]", [1]),
        (ANY, "plain", "plain"),
    ],
)
def test_a_word_by_its_type(kind: Type, word: str, value: object):
    """The type of the parameter says how a word is read."""
    assert arguments_of([("it", kind)], [word]) == (value,)


@pytest.mark.parametrize(
    ("kind", "word", "message"),
    [
        (INT, "3.5", "it: expected a whole number such as 3, got '3.5'"),
        (INT, "٣", "it: expected a whole number such as 3, got '٣'"),
        (INT, "9223372036854775808", "it: expected a whole number of 64 bits, this is larger"),
        (FLOAT, "nan", "it: expected a number such as 2.5, got 'nan'"),
        (BOOL, "maybe", "it: expected true or false, got 'maybe'"),
        (ChoiceOf(("low", "high")), "hi", 'it: expected one of "low", "high", got "hi"'),
        (POINT, '{"x": "a"}', 'it.x: expected a whole number, got "a"'),
        (DURATION, "5", 'it: expected a time such as 500ms, 30s, 5m, 2h or 1d, got "5"'),
    ],
)
def test_a_word_that_does_not_fit(kind: Type, word: str, message: str):
    """It names the parameter, what was expected and what came."""
    assert str(arguments_of([("it", kind)], [word])) == message


def test_a_list_at_the_end_takes_the_rest():
    """`vega run review.vega 3 a.py b.py` with `main(count: int, paths: [str])`."""
    params = [("count", INT), ("paths", ListOf(STR, 2))]
    assert arguments_of(params, ["3", "a.py", "b.py"]) == (3, ["a.py", "b.py"])
    assert arguments_of(params, ["3"]) == (3, [])
    assert arguments_of(params, ["3", '["a", "b"]']) == (3, ["a", "b"])
    assert "at most 2" in str(arguments_of(params, ["3", '["a", "b", "c"]']))
    assert arguments_of(params, ["3", "[1, 2]"]) == (3, ["[1, 2]"]), "no list of texts"
    assert arguments_of(params, ["3", '["a"]', "b"]) == (3, ['["a"]', "b"])
    assert str(arguments_of(params, ["3", "a", "b", "c"])) == "paths: takes at most 2, 3 are given"


def test_an_item_that_does_not_fit_is_named():
    """By its number."""
    message = "ns[1]: expected a whole number such as 3, got 'x'"
    assert str(arguments_of([("ns", ListOf(INT))], ["1", "x"])) == message


def test_a_list_before_the_end_is_json():
    """Only the last one can take the rest."""
    assert arguments_of([("ns", ListOf(INT)), ("s", STR)], ["[1, 2]", "a"]) == ([1, 2], "a")
    assert "expected JSON" in str(arguments_of([("ns", ListOf(INT)), ("s", STR)], ["1,2", "a"]))


def test_what_may_be_null_may_be_left_out():
    """At the end only; what is needed is asked for by name."""
    assert arguments_of([("a", STR), ("b", OptionalOf(STR))], ["x"]) == ("x", None)
    assert str(arguments_of([("a", STR)], [])) == "a: is missing; write it behind the file"


def test_words_that_nothing_takes_are_refused():
    """None is dropped silently."""
    message = "the program takes 1 argument; nothing takes 'b'"
    assert str(arguments_of([("a", STR)], ["a", "b"])) == message
    assert str(arguments_of([], ["b"])) == "the program takes no arguments; nothing takes 'b'"
