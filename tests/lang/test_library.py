"""The table of the standard library."""

import pytest

from vegakit.errors import BugError
from vegakit.lang import (
    INT,
    LIBRARY,
    NOTHING,
    ListOf,
    MapOf,
    OptionalOf,
    Parameter,
    Plain,
    Signature,
)
from vegakit.lang.types import TYPE_PARAMETERS, read_signature

SPACES = "budget csv exec file http human json list map math process str time trace".split()


def test_a_signature_is_read_as_written():
    """Name, parameters with their types, those that may be left out, and the result."""
    read = read_signature("a::b(x: [T], y: {str: int}, z: int = null) -> T?")
    letter = Plain("T")
    params = (
        Parameter("x", ListOf(letter)),
        Parameter("y", MapOf(INT)),
        Parameter("z", INT, optional=True),
    )
    assert read == Signature("a::b", params, OptionalOf(letter))
    assert read_signature("f()") == Signature("f", (), NOTHING)


def test_a_broken_signature_is_our_mistake():
    """The table is ours."""
    with pytest.raises(BugError):
        read_signature("no brackets")


def test_every_row_is_whole():
    """A kind, a line of documentation, and parameters that may be left out at the end only."""
    for name, row in LIBRARY.items():
        assert row.name == name
        assert row.kind in {"pure", "host", "special"}, name
        assert row.doc.endswith("."), name
        optional = [param.optional for param in row.params]
        assert optional == sorted(optional), name


def test_all_parts_of_the_library_are_there():
    """The parts that the language names, and the functions without a part."""
    assert sorted({name.partition("::")[0] for name in LIBRARY if "::" in name}) == SPACES
    plain = {name for name in LIBRARY if "::" not in name}
    assert plain == {*"print len range str int float file exec fail link".split()}


def test_what_touches_the_world_has_a_capability():
    """Files, the net and commands; people, time and traces need none."""
    needs = {name: row.capability for name, row in LIBRARY.items() if row.capability}
    assert needs == {
        "file": "fs::read",
        "file::read": "fs::read",
        "file::exists": "fs::read",
        "file::attach": "fs::read",
        "file::list": "fs::read",
        "file::write": "fs::write",
        "http::get": "net::get",
        "http::post": "net::post",
        "exec": "process::exec",
        "exec::run": "process::exec",
        "exec::look": "process::exec",
    }


def test_what_cannot_be_repeated_says_so():
    """Sending, running and printing twice is not as good as once."""
    once = {name for name, row in LIBRARY.items() if not row.idempotent}
    assert once == {"http::post", "exec", "exec::run", "print"}


def test_results_use_only_letters_that_parameters_bind():
    """Else the type of a call could never be known."""
    for row in LIBRARY.values():
        for letter in TYPE_PARAMETERS:
            mark = f"name='{letter}'"
            assert mark not in repr(row.result) or mark in repr(row.params), row.name
