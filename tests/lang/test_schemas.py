"""Types as JSON schemas, and JSON as values of types."""

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from vegakit.errors import BugError
from vegakit.lang import (
    ANY,
    BOOL,
    DURATION,
    FLOAT,
    INT,
    MONEY,
    NULL,
    STR,
    ChoiceOf,
    ListOf,
    MapOf,
    OptionalOf,
    Plain,
    Problem,
    ProcessOf,
    RecordOf,
    Type,
    answer_of,
    answer_schema,
    schema_of,
    value_of,
)
from vegakit.lang.schemas import problem_bytes
from vegakit.lang.types import FILE

SEVERITY = ChoiceOf(("low", "high"))
FINDING = RecordOf("Finding", (("file", STR), ("severity", SEVERITY), ("note", OptionalOf(STR))))
FINDINGS = RecordOf("Findings", (("items", ListOf(FINDING, 2)),))


def test_a_record_names_all_fields_and_no_others():
    """Providers want every field listed; what may be left out is null."""
    assert schema_of(FINDINGS) == {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "maxItems": 2,
                "items": {
                    "type": "object",
                    "properties": {
                        "file": {"type": "string"},
                        "severity": {"type": "string", "enum": ["low", "high"]},
                        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    },
                    "required": ["file", "severity", "note"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["items"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (INT, "integer"),
        (FLOAT, "number"),
        (MONEY, "number"),
        (DURATION, "string"),
        (FILE, "string"),
        (BOOL, "boolean"),
        (NULL, "null"),
        (MapOf(INT), "object"),
    ],
)
def test_form_of_a_type(kind: Type, form: str):
    """Money is a number of dollars, a duration a string."""
    assert schema_of(kind)["type"] == form


def test_what_is_no_object_is_asked_for_inside_one():
    """Models answer with objects."""
    assert answer_schema(BOOL)["properties"] == {"result": {"type": "boolean"}}
    assert answer_of(BOOL, {"result": True}) is True
    assert answer_schema(FINDING) == schema_of(FINDING)
    assert answer_of(BOOL, {"result": 1}) == Problem("expected true or false, got 1", "result")


def test_a_handle_has_no_schema():
    """The checker refuses it before; here it is our own mistake."""
    with pytest.raises(BugError):
        schema_of(ProcessOf("A"))


FITS = [
    (INT, 3, 3),
    (INT, 3.0, 3),
    (INT, 2**63 - 1, 2**63 - 1),
    (FLOAT, 3, 3.0),
    (STR, "a", "a"),
    (BOOL, False, False),
    (NULL, None, None),
    (MONEY, 1.5, {"$": "money", "of": 1_500_000_000}),
    (MONEY, "$0.000001", {"$": "money", "of": 1_000}),
    (DURATION, "30s", {"$": "duration", "of": 30_000}),
    (DURATION, "100ms", {"$": "duration", "of": 100}),
    (DURATION, "1d", {"$": "duration", "of": 86_400_000}),
    (FILE, "a.png", {"$": "file", "of": "a.png"}),
    (SEVERITY, "low", "low"),
    (OptionalOf(INT), None, None),
    (OptionalOf(INT), 3, 3),
    (ListOf(INT, 2), [1, 2], [1, 2]),
    (MapOf(INT), {"a": 1}, {"a": 1}),
    (MapOf(INT), {"$": 1}, {"$": "map", "of": [["$", 1]]}),
    (ANY, {"a": [1, None, {"$": "x"}]}, {"a": [1, None, {"$": "map", "of": [["$", "x"]]}]}),
    (FINDING, {"file": "a", "severity": "low"}, {"file": "a", "severity": "low", "note": None}),
    (
        FINDING,
        {"severity": "low", "note": "n", "file": "a"},
        {"file": "a", "severity": "low", "note": "n"},
    ),
]


@pytest.mark.parametrize(("kind", "given", "value"), FITS)
def test_json_that_fits(kind: Type, given: object, value: object):
    """It becomes a value of the type, fields in their order, in the spelling of the machine."""
    found = value_of(kind, given)  # pyright: ignore[reportArgumentType]
    assert found == value
    assert type(found) is type(value)
    if isinstance(found, dict):
        assert list(found) == list(value)  # pyright: ignore[reportArgumentType]


DOES_NOT = [
    (INT, 2.5, "expected a whole number, got 2.5"),
    (INT, True, "expected a whole number, got true"),
    (INT, 2**63, "expected a whole number of 64 bits, this is larger"),
    (FLOAT, "x", 'expected a number, got "x"'),
    (FLOAT, float("nan"), "expected a finite number, got nan"),
    (FLOAT, 10**400, "expected a number, this is too large"),
    (BOOL, 1, "expected true or false, got 1"),
    (STR, None, "expected a string, got null"),
    (DURATION, "30", 'expected a time such as 500ms, 30s, 5m, 2h or 1d, got "30"'),
    (DURATION, 30, "expected a time such as 500ms, 30s, 5m, 2h or 1d, got 30"),
    (FILE, "", 'expected the path of a file, got ""'),
    (SEVERITY, "hihg", 'expected one of "low", "high", got "hihg"; did you mean "high"?'),
    (ListOf(INT, 1), [1, 2], "expected at most 1 items, got 2"),
    (ListOf(INT), [1, "a"], '[1]: expected a whole number, got "a"'),
    (MapOf(INT), {"k": "a"}, 'k: expected a whole number, got "a"'),
    (FINDING, [], "expected an object with the fields of Finding, got a list of 0"),
    (FINDING, {"file": "a"}, "the field severity is missing"),
    (
        FINDING,
        {"file": "a", "severity": "low", "nots": "x"},
        '"nots" is not a field of Finding; did you mean note?',
    ),
    (
        FINDINGS,
        {"items": [{"file": "a", "severity": 3}]},
        'items[0].severity: expected one of "low", "high", got 3',
    ),
]


@pytest.mark.parametrize(("kind", "given", "message"), DOES_NOT)
def test_json_that_does_not_fit(kind: Type, given: object, message: str):
    """It says where, what was expected and what came."""
    assert str(value_of(kind, given)) == message  # pyright: ignore[reportArgumentType]


def test_money_with_a_seventh_decimal_is_refused():
    """What money is, `money` decides."""
    assert isinstance(value_of(MONEY, 0.0000001), Problem)
    assert isinstance(value_of(MONEY, -1), Problem)


def test_what_lies_very_deep_is_refused():
    """Without running out of stack."""
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    assert value_of(ANY, deep) == Problem("nested more than 100 deep")  # pyright: ignore[reportArgumentType]


PLAIN = st.sampled_from([INT, FLOAT, STR, BOOL, NULL, SEVERITY, Plain("str", 1), Plain("str", 4)])
TYPES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        inner.filter(lambda kind: not isinstance(kind, OptionalOf)).map(OptionalOf),
        st.builds(ListOf, inner, st.none() | st.integers(1, 3)),
        st.builds(MapOf, inner, st.none() | st.integers(1, 2)),
        st.builds(
            lambda kinds: RecordOf("R", tuple((f"f{at}", kind) for at, kind in enumerate(kinds))),
            st.lists(inner, min_size=1, max_size=3),
        ),
    ),
    max_leaves=5,
)


SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "integer": st.integers(-(2**63), 2**63 - 1),
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
    "string": st.text(max_size=5),
    "boolean": st.booleans(),
    "null": st.none(),
}


def filled(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """What a model that keeps to the schema may answer."""
    if "anyOf" in schema:
        return st.one_of(*map(filled, schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema["type"] == "array":
        return st.lists(filled(schema["items"]), max_size=schema.get("maxItems", 4))
    if "maxLength" in schema:
        return st.text(max_size=schema["maxLength"])
    if schema["type"] != "object":
        return SIMPLE[schema["type"]]
    if "properties" not in schema:
        return st.dictionaries(
            st.text(max_size=3),
            filled(schema["additionalProperties"]),
            max_size=schema.get("maxProperties", 3),
        )
    return st.fixed_dictionaries({key: filled(part) for key, part in schema["properties"].items()})


@given(st.data(), TYPES)
def test_what_fits_the_schema_fits_the_type(data: st.DataObject, kind: Type):
    """A model that keeps to the schema is understood."""
    answer = data.draw(filled(answer_schema(kind)))
    assert not isinstance(answer_of(kind, answer), Problem)


WORDS = st.text(max_size=60) | st.sampled_from(["a", "status", "low", "日本語" * 20, "w " * 30])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=3),
)


def nearly(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """What fits the schema down to some depth, and is anything there."""
    if schema.get("type") == "array":
        return st.lists(nearly(schema["items"]), max_size=3) | JSON
    if "properties" in schema:
        parts = {key: nearly(part) for key, part in schema["properties"].items()}
        return st.fixed_dictionaries(parts) | st.fixed_dictionaries(parts, optional={"b": JSON})
    if schema.get("type") == "object":
        return st.dictionaries(WORDS, nearly(schema["additionalProperties"]), max_size=2) | JSON
    return JSON


@given(st.data(), TYPES)
def test_what_is_said_of_a_misfit_is_no_longer_than_a_quote_counts(data: st.DataObject, kind: Type):
    answer = data.draw(nearly(answer_schema(kind)))
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    found = answer_of(kind, answer)
    if isinstance(found, Problem):
        size = len(text.encode(errors="replace"))
        assert len(str(found).encode(errors="replace")) <= problem_bytes(kind, size)


OF_60 = [
    (FINDING, f'{{"{"w" * 40}":"{"w" * 13}"}}'),
    (FINDING, f'{{"{"😀" * 13}ww":1}}'),
    (BOOL, f'{{"result":"{"😀" * 11}www"}}'),
    (ListOf(INT), f'{{"result":[0,"{"😀" * 10}www"]}}'),
    (MapOf(INT), f'{{"result":{{"{"w" * 42}":""}}}}'),
    (MapOf(RecordOf("Empty", ())), f'{{"result":{{"{"w" * 40}":1e15}}}}'),
    (MapOf(MapOf(BOOL)), f'{{"result":{{"":{{"{"w" * 35}":1e15}}}}}}'),
    (RecordOf("R", (("one", STR), ("two", OptionalOf(INT)))), f'{{"one":"","two":"{"w" * 40}"}}'),
    (RecordOf("Empty", ()), f'"{"😀" * 14}ww"'),
]
"""Answers of 60 bytes or a few less, of which about as much is said as can be."""


@pytest.mark.parametrize(("kind", "text"), OF_60)
def test_how_much_is_said_of_a_misfit(kind: Type, text: str):
    """No byte of an answer counts both in a path and in what is shown."""
    found = answer_of(kind, msgspec.json.decode(text))
    assert isinstance(found, Problem)
    said = len(str(found).encode())
    assert len(text.encode()) <= 60
    assert said <= problem_bytes(kind, 60) <= 1.5 * said


@pytest.mark.parametrize(
    "kind", [FINDING, BOOL, ListOf(MapOf(STR)), MapOf(ListOf(INT)), MapOf(MapOf(BOOL))]
)
def test_a_longer_answer_is_told_no_less(kind: Type):
    """Where a key in a path ends does not matter: each byte tells one more at most."""
    told = [problem_bytes(kind, size) for size in range(400)]
    assert all(0 <= after - before <= 1 for before, after in pairwise(told[30:]))
