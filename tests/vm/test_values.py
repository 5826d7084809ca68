"""Values: through JSON and back, as text, equal or ordered, fitting a type or not."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from vegakit.lang import (
    ANY,
    BOOL,
    DURATION,
    FLOAT,
    INT,
    MONEY,
    NOTHING,
    NULL,
    STR,
    ChoiceOf,
    FutureOf,
    ListOf,
    MapOf,
    OptionalOf,
    ProcessOf,
    RecordOf,
    StreamOf,
    Type,
)
from vegakit.lang.types import FILE
from vegakit.vm import json_text, restored, text_of
from vegakit.vm.conversion import fit
from vegakit.vm.operators import at_most, equal, holds, less
from vegakit.vm.values import (
    Duration,
    ListValue,
    MapValue,
    Money,
    ProgramFault,
    items_of,
    plain_value,
    stored,
    weight_of,
)

MARKED: list[Any] = [
    {"$": "money", "of": 5},
    {"$": "duration", "of": -5},
    {"$": "agent", "of": "A"},
    {"$": "process", "of": "/a"},
    {"$": "future", "of": "t"},
    {"$": "stream", "of": "t"},
    {"$": "file", "of": "a.png"},
    {"$": "map", "of": [["$", 1], ["b", [{"$": "money", "of": 1}]]]},
]
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(MARKED),
)
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=4).filter(lambda k: k != "$")
forms = st.recursive(
    atoms, lambda f: st.lists(f, max_size=4) | st.dictionaries(keys, f, max_size=4), max_leaves=20
)


@given(forms)
def test_a_value_comes_back_as_it_was(form: Any) -> None:
    """JSON to value to JSON, also of maps that have a key `$` themselves."""
    assert stored(restored(form)) == form


@given(st.recursive(st.integers() | st.text(max_size=3), lambda f: st.lists(f, max_size=4)))
def test_weight_counts_every_item_and_character(form: Any) -> None:
    """As a walk over the value would."""

    def walked(value: Any) -> int:
        if isinstance(value, list):
            return 1 + sum(map(walked, value))
        return 1 + len(value) if isinstance(value, str) else 1

    assert weight_of(plain_value(_small(form))) == walked(_small(form))


def _small(form: Any) -> Any:
    if isinstance(form, list):
        return [_small(each) for each in form]
    return form % 100 if isinstance(form, int) else form.encode("utf-8", "ignore").decode()


@pytest.mark.parametrize(
    "form",
    [
        2**63,
        float("inf"),
        b"x",
        {1: 2},
        {"$": "nonsense", "of": 1},
        {"$": "money", "of": "5"},
        {"$": "money", "of": True},
        {"$": "money", "of": 5, "more": 1},
        {"$": "map", "of": [["a"]]},
        {"$": "map", "of": 5},
        {"$": {}},
    ],
)
def test_what_is_no_value_raises(form: Any) -> None:
    """As a fault of the program that got it."""
    with pytest.raises(ProgramFault):
        restored(form)


def test_half_a_surrogate_pair_is_replaced() -> None:
    """It could not be stored."""
    assert restored("a\ud800") == "a?"


def test_nesting_is_bounded() -> None:
    """At a hundred."""
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert type(restored(deep)) is ListValue
    with pytest.raises(ProgramFault, match="LimitReached"):
        restored([deep])


TEXTS: list[tuple[Any, str]] = [
    ("a", "a"),
    (1, "1"),
    (1.0, "1.0"),
    (0.1, "0.1"),
    (1e16, "1e+16"),
    (True, "true"),
    (None, "null"),
    ({"$": "money", "of": 1_500_000_000}, "$1.50"),
    ({"$": "duration", "of": 30_000}, "30s"),
    ({"$": "duration", "of": 90_000}, "90s"),
    ({"$": "duration", "of": 1_500}, "1500ms"),
    ({"$": "duration", "of": 172_800_000}, "2d"),
    ({"$": "duration", "of": 7_200_000}, "2h"),
    ({"$": "duration", "of": -300_000}, "-5m"),
    ({"$": "duration", "of": 0}, "0ms"),
    ({"$": "agent", "of": "A"}, "A"),
    ({"$": "process", "of": "/a"}, "/a"),
    ({"$": "file", "of": "a.png"}, "a.png"),
    ({"$": "future", "of": "t"}, "a future"),
    ({"$": "stream", "of": "t"}, "a stream"),
    ([1, "a", {"k": {"$": "money", "of": 10**9}}], '[1,"a",{"k":"$1.00"}]'),
]


@pytest.mark.parametrize(("form", "text"), TEXTS)
def test_the_text_of_a_value(form: Any, text: str) -> None:
    """As `print` and `"{x}"` show it."""
    assert text_of(restored(form)) == text


def test_json_text_quotes_strings() -> None:
    """Unlike the text."""
    assert json_text("a") == '"a"'


def test_kinds_are_not_equal_to_each_other() -> None:
    """A truth is no number, money no time; a float may be as large as an int."""
    assert not equal(True, 1)
    assert not equal(Money(1), Duration(1))
    assert not equal(items_of([True]), items_of([1]))
    assert equal(1, 1.0)
    assert equal(restored({"a": [1], "b": 2}), restored({"b": 2, "a": [1]}))


def test_order_is_of_one_kind() -> None:
    """Numbers, money, times and strings have one."""
    assert less(1, 1.5)
    assert at_most(Money(1), Money(1))
    assert less("a", "b")
    for one, other in ((True, False), (None, None), (Money(1), Duration(2)), ("a", 1)):
        with pytest.raises(ProgramFault, match="BadProgram"):
            less(one, other)


def test_a_part_is_found() -> None:
    """In lists by equality, in maps by key, in strings as a part."""
    assert holds(restored([1]), restored([[1]]))
    assert not holds(True, items_of([1]))
    assert holds("b", restored({"b": None}))


RECORD = RecordOf("R", (("a", INT), ("b", OptionalOf(STR))))
FITS: list[tuple[Any, Type, Any]] = [
    (1, INT, 1),
    (3.0, INT, 3),
    (1, FLOAT, 1.0),
    ("x", STR, "x"),
    (True, BOOL, True),
    (None, NULL, None),
    (None, NOTHING, None),
    ([1], ANY, [1]),
    ({"$": "money", "of": 5}, MONEY, {"$": "money", "of": 5}),
    ("$1.50", MONEY, {"$": "money", "of": 1_500_000_000}),
    ("30s", DURATION, {"$": "duration", "of": 30_000}),
    ({"$": "file", "of": "a"}, FILE, {"$": "file", "of": "a"}),
    (None, OptionalOf(INT), None),
    ([1, 2], ListOf(FLOAT, 2), [1.0, 2.0]),
    ({"k": 1}, MapOf(FLOAT), {"k": 1.0}),
    ("a", ChoiceOf(("a", "b")), "a"),
    ({"b": "x", "a": 1, "more": 2}, RECORD, {"a": 1, "b": "x"}),
    ({"a": 1}, RECORD, {"a": 1, "b": None}),
    ({"$": "process", "of": "/a"}, ProcessOf("A"), {"$": "process", "of": "/a"}),
    ({"$": "future", "of": "t"}, FutureOf(INT), {"$": "future", "of": "t"}),
    ({"$": "stream", "of": "t"}, StreamOf(), {"$": "stream", "of": "t"}),
]


@pytest.mark.parametrize(("form", "kind", "wanted"), FITS)
def test_a_value_that_fits(form: Any, kind: Type, wanted: Any) -> None:
    """Comes back as the type has it, its fields in order."""
    got = stored(fit(restored(form), kind))
    assert (got, str(got)) == (wanted, str(wanted))


MISFITS: list[tuple[Any, Type, str]] = [
    (True, INT, "the value is bool, expected int"),
    (3.5, INT, "the value is float, expected int"),
    (1, STR, "the value is int, expected str"),
    ("5 dollars", MONEY, "the value is str, expected money"),
    ([1], BOOL, "the value is list, expected bool"),
    ([1, 2, 3], ListOf(INT, 2), "the value has 3 items, at most 2 may be"),
    ([1, "x"], ListOf(INT), "item 1 of the value is str, expected int"),
    ({"k": "x"}, MapOf(INT), "entry k of the value is str, expected int"),
    ("c", ChoiceOf(("a", "b")), "the value is str, expected one of a | b"),
    ({"b": "x"}, RECORD, "the value lacks the field a of R"),
    ({"a": 1, "b": 2}, RECORD, "b of the value is int, expected str"),
    (5, RECORD, "the value is int, expected R"),
    (5, MapOf(INT), "the value is int, expected map"),
    (5, ListOf(INT), "the value is int, expected list"),
    ("x", ProcessOf(), "the value is str, expected process"),
]


@pytest.mark.parametrize(("form", "kind", "reason"), MISFITS)
def test_a_value_that_does_not_fit(form: Any, kind: Type, reason: str) -> None:
    """The reason says where, what came and what was expected."""
    with pytest.raises(ProgramFault) as caught:
        fit(restored(form), kind)
    assert (caught.value.name, caught.value.reason) == ("ContractViolated", reason)


def test_what_fits_is_not_copied() -> None:
    """A large list that fits stays the same object."""
    value = restored({"a": [1, 2]})
    assert type(value) is MapValue
    assert fit(value, MapOf(ListOf(INT))) is value
