"""The pure functions of the standard library, held to the table of the language."""

from typing import Any

import msgspec
import pytest

from vegakit.lang import LIBRARY
from vegakit.vm import restored
from vegakit.vm.operators import equal, holds
from vegakit.vm.stdlib import PURE, call_pure
from vegakit.vm.values import MAX_PARSED, ProgramFault, items_of, stored, weight_of


def test_the_machine_knows_every_pure_function() -> None:
    """And no other."""
    assert set(PURE) == {name for name, row in LIBRARY.items() if row.kind == "pure"}


USD = {"$": "money", "of": 1_500_000_000}
CALLS: list[tuple[str, list[Any], Any]] = [
    ("len", ["añb"], 3),
    ("len", [[1, 2]], 2),
    ("len", [{"a": 1}], 1),
    ("range", [3, None], [0, 1, 2]),
    ("range", [2, 4], [2, 3]),
    ("range", [4, 2], []),
    ("str", [USD], "$1.50"),
    ("int", [" -42 "], -42),
    ("int", [-2.9], -2),
    ("float", ["2.5e1"], 25.0),
    ("float", [2], 2.0),
    ("float", [USD], 1.5),
    ("float", [{"$": "duration", "of": 1_500}], 1.5),
    ("file", ["a.png"], {"$": "file", "of": "a.png"}),
    ("str::len", ["abc"], 3),
    ("str::trim", [" a\n"], "a"),
    ("str::lower", ["Ab"], "ab"),
    ("str::upper", ["Ab"], "AB"),
    ("str::split", ["a,b,", ","], ["a", "b", ""]),
    ("str::split", ["abc", ""], ["a", "b", "c"]),
    ("str::join", [["a", "b"], ", "], "a, b"),
    ("str::join", [[], ","], ""),
    ("str::lines", ["a\r\nb\n"], ["a", "b"]),
    ("str::lines", [""], []),
    ("str::lines", ["a\u2028b"], ["a\u2028b"]),
    ("str::words", [" a  b "], ["a", "b"]),
    ("str::starts_with", ["abc", "ab"], True),
    ("str::ends_with", ["abc", "ab"], False),
    ("str::contains", ["abc", "bc"], True),
    ("str::find", ["abc", "c"], 2),
    ("str::find", ["abc", "x"], None),
    ("str::count", ["aaa", "aa"], 1),
    ("str::replace", ["aba", "a", "xx"], "xxbxx"),
    ("str::slice", ["abcd", 1, 3], "bc"),
    ("str::slice", ["abcd", -2, None], "cd"),
    ("str::at", ["abc", -1], "c"),
    ("list::at", [[1, 2], 0], 1),
    ("list::at", [[1, 2], -2], 1),
    ("map::get_or", [{"a": None}, "a", 1], None),
    ("map::get_or", [{"a": 1}, "b", 2], 2),
    ("math::ratio", [1, 4], 0.25),
    ("math::ratio", [2**62 + 1, 2**53 + 1], (2**62 + 1) / (2**53 + 1)),
    ("math::floor_div", [-7, 2], -4),
    ("math::mod", [-7, 2], 1),
    ("math::mod", [7, -2], -1),
    ("str::repeat", ["ab", 2], "abab"),
    ("str::repeat", ["", 2**62], ""),
    ("str::pad_left", ["7", 3, "0"], "007"),
    ("str::pad_left", ["long", 3, None], "long"),
    ("str::pad_right", ["7", 4, "ab"], "7aba"),
    ("list::len", [[1]], 1),
    ("list::first", [[1, 2]], 1),
    ("list::first", [[]], None),
    ("list::last", [[1, 2]], 2),
    ("list::sort", [[3, 1, 2], None], [1, 2, 3]),
    ("list::sort", [["b", "a"], False], ["a", "b"]),
    ("list::sort", [[1, 2], True], [2, 1]),
    ("list::sort", [[USD, {"$": "money", "of": 1}], None], [{"$": "money", "of": 1}, USD]),
    ("list::sort_by", [[{"a": 2}, {"a": 1}], "a", None], [{"a": 1}, {"a": 2}]),
    ("list::sort_with", [["bb", "a", "cc"], [2, 1, 2], None], ["a", "bb", "cc"]),
    ("list::sort_with", [["bb", "a", "cc"], [2, 1, 2], True], ["bb", "cc", "a"]),
    ("list::sort_with", [[], [], None], []),
    (
        "list::sort_by",
        [[{"a": 1, "b": 1}, {"a": None, "b": 2}, {"a": 1, "b": 3}], "a", True],
        [{"a": 1, "b": 1}, {"a": 1, "b": 3}, {"a": None, "b": 2}],
    ),
    ("list::reverse", [[1, 2]], [2, 1]),
    ("list::unique", [[2, 1, 2, [1], [1], True, {"a": 1}, {"a": 1}]], [2, 1, [1], True, {"a": 1}]),
    ("list::take", [[1, 2], 1], [1]),
    ("list::take", [[1, 2], -1], []),
    ("list::drop", [[1, 2], 1], [2]),
    ("list::slice", [[1, 2, 3], -2, None], [2, 3]),
    ("list::contains", [[1, True], True], True),
    ("list::contains", [[1], True], False),
    ("list::index_of", [["a", "b"], "b"], 1),
    ("list::index_of", [[], "b"], None),
    ("list::count", [[1, 1, 2], 1], 2),
    ("list::sum", [[1, 2]], 3),
    ("list::sum", [[USD, USD]], {"$": "money", "of": 3_000_000_000}),
    ("list::min", [[2, 1]], 1),
    ("list::max", [[]], None),
    ("list::flatten", [[[1], [], [2]]], [1, 2]),
    ("list::chunks", [[1, 2, 3], 2], [[1, 2], [3]]),
    ("list::remove_at", [[1, 2], 0], [2]),
    ("list::insert", [[1, 2], 2, 3], [1, 2, 3]),
    ("list::without_nulls", [[1, None]], [1]),
    ("map::len", [{"a": 1}], 1),
    ("map::keys", [{"b": 1, "a": 2}], ["b", "a"]),
    ("map::values", [{"b": 1, "a": 2}], [1, 2]),
    ("map::get", [{"a": 1}, "a"], 1),
    ("map::get", [{"a": 1}, "b"], None),
    ("map::has", [{"a": None}, "a"], True),
    ("map::remove", [{"a": 1, "b": 2}, "a"], {"b": 2}),
    ("map::merge", [{"a": 1, "b": 1}, {"b": 2}], {"a": 1, "b": 2}),
    ("math::abs", [-5], 5),
    ("math::abs", [{"$": "money", "of": -1}], {"$": "money", "of": 1}),
    ("math::min", [1, 2], 1),
    ("math::max", ["a", "b"], "b"),
    ("math::floor", [-1.5], -2),
    ("math::ceil", [-1.5], -1),
    ("math::round", [2.5, None], 2.0),
    ("math::round", [2.345, 1], 2.3),
    ("math::round", [1234.0, -2], 1200.0),
    ("math::sqrt", [4.0], 2.0),
    ("math::pow", [2.0, 10.0], 1024.0),
    ("json::parse", ['{"a":[1,2.5,null,"x"]}'], {"a": [1, 2.5, None, "x"]}),
    ("json::parse", ['{"$":"money","of":5}'], {"$": "map", "of": [["$", "money"], ["of", 5]]}),
    ("json::text", ["a"], '"a"'),
    ("json::text", [{"a": USD}], '{"a":"$1.50"}'),
    (
        "csv::parse",
        ['\ufeffa,b\r\n"x, y",\r\n\r\nz\r\n'],
        [{"a": "x, y", "b": ""}, {"a": "z", "b": ""}],
    ),
    ("csv::parse", [""], []),
    (
        "csv::text",
        [[{"a": 'x"y', "b": USD}, {"b": None, "c": [1]}]],
        'a,b,c\n"x""y",$1.50,\n,,[1]\n',
    ),
    ("csv::text", [[]], ""),
    ("file::name", ["docs/a.md"], "a.md"),
    ("file::name", ["docs/"], "docs"),
    ("time::seconds", [{"$": "duration", "of": 1_500}], 1.5),
    ("time::of_seconds", [1.5], {"$": "duration", "of": 1_500}),
]


@pytest.mark.parametrize(("name", "args", "wanted"), CALLS)
def test_a_pure_function(name: str, args: list[Any], wanted: Any) -> None:
    """It gives exactly this."""
    got = stored(call_pure(name, [restored(arg) for arg in args]))
    assert (got, str(got)) == (wanted, str(wanted))


def test_every_pure_function_is_called_here() -> None:
    """So none is without a test."""
    assert {name for name, _, _ in CALLS} == set(PURE)


RAISES: list[tuple[str, list[Any], str]] = [
    ("int", ["4x"], "ValueError"),
    ("list::at", [[1], 1], "IndexError"),
    ("list::at", [[1], -2], "IndexError"),
    ("str::at", ["", 0], "IndexError"),
    ("math::ratio", [1, 0], "ArithmeticError"),
    ("math::floor_div", [-(2**63), -1], "ArithmeticError"),
    ("math::mod", [1, 0], "ArithmeticError"),
    ("int", [""], "ValueError"),
    ("int", ["9" * 19], "ArithmeticError"),
    ("int", ["9" * 20], "ValueError"),
    ("int", [1e300], "ArithmeticError"),
    ("int", [True], "ValueError"),
    ("float", ["nan"], "ValueError"),
    ("float", ["1e999"], "ValueError"),
    ("float", [True], "ValueError"),
    ("range", [2**62, None], "LimitReached"),
    ("str::repeat", ["ab", 2**62], "LimitReached"),
    ("str::repeat", ["ab", -1], "ValueError"),
    ("str::pad_left", ["a", 2**62, None], "LimitReached"),
    ("str::pad_left", ["a", 5, ""], "ValueError"),
    ("str::replace", ["a" * 5_000, "a", "b" * 5_000], "LimitReached"),
    ("str::replace", ["a", "", "b"], "ValueError"),
    ("str::count", ["a", ""], "ValueError"),
    ("str::split", ["," * 1_000_001, ","], "LimitReached"),
    ("str::lines", ["\n" * 1_000_001], "LimitReached"),
    ("str::words", ["a " * 1_000_001], "LimitReached"),
    ("str::join", [["a" * 5_000] * 2_001, ""], "LimitReached"),
    ("str::join", [[1], ""], "BadProgram"),
    ("list::sum", [[]], "ValueError"),
    ("list::sum", [["a", "b"]], "BadProgram"),
    ("list::sort", [[1, "a"], None], "BadProgram"),
    ("list::sort_by", [[{"a": 1}, {"a": "b"}], "a", None], "BadProgram"),
    ("list::sort_by", [[{"a": 1}], "b", None], "KeyError"),
    ("list::sort_by", [[1], "b", None], "BadProgram"),
    ("list::sort_with", [["a"], [1, 2], None], "ValueError"),
    ("list::sort_with", [["a", "b"], [1, "2"], None], "BadProgram"),
    ("csv::parse", ["a,b\n1,2,3"], "ValueError"),
    ("csv::parse", ["a,a\n"], "ValueError"),
    ("csv::parse", ['a\n"b'], "ValueError"),
    ("csv::parse", ["a\n" + "b\n" * (MAX_PARSED + 1)], "LimitReached"),
    ("csv::text", [[1]], "BadProgram"),
    ("csv::text", [[{"a": "b" * 5_000}] * 2_001], "LimitReached"),
    ("list::min", [[None]], "BadProgram"),
    ("list::flatten", [[1]], "BadProgram"),
    ("list::flatten", [[[0] * 1_001] * 1_000], "LimitReached"),
    ("list::chunks", [[1], 0], "ValueError"),
    ("list::remove_at", [[1], 1], "IndexError"),
    ("list::insert", [[1], 2, 0], "IndexError"),
    ("math::abs", [-(2**63)], "ArithmeticError"),
    ("math::abs", ["a"], "BadProgram"),
    ("math::floor", [1e300], "ArithmeticError"),
    ("math::round", [1.7e308, -308], "ArithmeticError"),
    ("math::sqrt", [-1.0], "ArithmeticError"),
    ("math::pow", [0.0, -1.0], "ArithmeticError"),
    ("math::pow", [-8.0, 0.5], "ArithmeticError"),
    ("math::pow", [10.0, 400.0], "ArithmeticError"),
    ("json::parse", ["{"], "ValueError"),
    ("json::parse", ["[" * 5_000 + "]" * 5_000], "ValueError"),
    ("json::parse", ["[" * 200 + "]" * 200], "LimitReached"),
    ("json::parse", ["9" * 30], "ArithmeticError"),
    ("time::of_seconds", [-1.0], "ValueError"),
    ("time::of_seconds", [1e300], "ArithmeticError"),
    ("len", [5], "BadProgram"),
    ("str::len", [5], "BadProgram"),
    ("str::len", ["a", "b"], "BadProgram"),
    ("nothing", [], "BadProgram"),
]


@pytest.mark.parametrize(("name", "args", "error"), RAISES, ids=range(len(RAISES)))
def test_a_pure_function_that_raises(name: str, args: list[Any], error: str) -> None:
    """By this name."""
    with pytest.raises(ProgramFault) as caught:
        call_pure(name, [restored(arg) for arg in args])
    assert caught.value.name == error


def test_one_json_text_makes_so_many_lists_and_maps() -> None:
    """In one instruction, for which everything else waits. Brackets in strings make none."""
    fits = "[" + "[]," * (MAX_PARSED - 2) + "[]]"
    assert len(call_pure("json::parse", [fits])) == MAX_PARSED - 1
    with pytest.raises(ProgramFault, match="lists and maps") as raised:
        call_pure("json::parse", [fits[:-1] + ",{}]"])
    assert raised.value.name == "LimitReached"
    text = "[{" * MAX_PARSED + '\\"'
    assert call_pure("json::parse", [msgspec.json.encode([text]).decode()]) == [text]


@pytest.mark.parametrize("item", [1, 2**63 - 1, 1.0, True, None, "x"])
@pytest.mark.parametrize("other", [1, 1.0, True, None, "x"])
def test_many_items_are_compared_as_few_are(item: Any, other: Any) -> None:
    """Lists of one kind are left to Python, to which True is 1."""
    many, others = items_of([item] * 99), items_of([other] * 99)
    assert equal(many, others) == equal(item, other)
    assert holds(other, many) == equal(item, other)
    assert (call_pure("list::index_of", [many, other]) == 0) == equal(item, other)
    assert call_pure("list::count", [many, other]) == 99 * equal(item, other)
    assert many.weight == 1 + 99 * weight_of(item)
    assert call_pure("json::parse", [call_pure("json::text", [many])]) == many


def test_a_number_that_is_too_long_is_found_among_many() -> None:
    with pytest.raises(ProgramFault, match="64 bits"):
        call_pure("json::parse", [f"[{'1,' * 99}9223372036854775808]"])
