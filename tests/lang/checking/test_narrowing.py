"""What may be null is tested before it is used."""

import pytest

from tests.lang.checking.programs import errors, in_function, warnings

ALLOWED = [
    "if o != null { print(str::len(o)); }",
    "if null != o { print(str::len(o)); }",
    "if o == null { return; } print(str::len(o));",
    "if o == null { print(1); } else { print(str::len(o)); }",
    "if o != null and str::len(o) > 1 { print(o + s); }",
    "if o == null or str::len(o) > 1 { print(1); }",
    "if not (o == null) { print(o + s); }",
    "if not (o == null or b) { print(o + s); }",
    "while o != null { print(o + s); o = null; }",
    "while o == null { o = s; } print(o + s);",
    "if f.note != null { print(f.note + s); }",
    "if fo != null and fo.note != null { print(fo.file + fo.note); }",
    "for g in fs { if g.note == null { continue; } print(g.note + s); }",
    "o = s; print(o + s);",
    "let q: str? = s; print(q + s);",
    "if o == null { o = s; } print(o + s);",
    "if o == null { fail(s); } print(o + s);",
    'if o == null { if b { return; } else { fail("x"); } } print(o + s);',
    'print((o ?? "") + s);',
    "if o != null { try { print(o + s); } catch { print(o + s); } }",
    "if o != null { for n in ns { print(o + s); } }",
    'f.note = "x"; print(f.note + s);',
    "print([for g in fs if g.note != null and str::len(g.note) > 1 { g.note + s }]);",
]

REFUSED = [
    "print(o + s);",
    "print(str::len(o));",
    "print(fo.file);",
    "print(f.note + s);",
    "if o == null { print(o + s); }",
    "if o != null or b { print(o + s); }",
    "if not (o != null) { print(o + s); }",
    "if o != null { print(1); } print(o + s);",
    "if o == null { print(1); } print(o + s);",
    "if o == null and b { return; } print(o + s);",
    "if o != null { o = null; print(o + s); }",
    "if o != null { for n in ns { print(o + s); o = null; } }",
    "if o != null { while b { print(o + s); o = null; } }",
    "if f.note != null { f.note = null; print(f.note + s); }",
    "if f.note != null { f = fs[0]; print(f.note + s); }",
    "if o != null { try { o = null; } catch { print(1); } print(o + s); }",
    "if o != null { try { o = null; fail(s); } catch { print(o + s); } }",
    "while o == null { if b { break; } o = s; } print(o + s);",
    "while o != null { o = null; } print(o + s);",
    "if b { o = s; } print(o + s);",
    "if o != null { let o = fo; print(o.file); }",
    "for n in ns { o = s; } print(o + s);",
    "if fs[0].note != null { print(fs[0].note + s); }",
]


@pytest.mark.parametrize("body", ALLOWED)
def test_after_a_test_it_is_not_null(body: str):
    """A test, an assignment or an early end tells that a value is there."""
    assert errors(in_function(body)) == []


@pytest.mark.parametrize("body", REFUSED)
def test_without_a_test_it_may_be_null(body: str):
    """What may be null on one of the ways to a place may be null there."""
    assert len(errors(in_function(body))) == 1


def test_a_test_of_what_is_never_null_is_pointed_out():
    """`s == null` is always false for a str."""
    assert warnings(in_function("if s == null { print(1); }")) == ["never-null"]
    assert warnings(in_function('print(s ?? "x");')) == ["never-null"]
