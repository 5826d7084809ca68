"""Types that are found out later: empty lists, empty maps and null."""

from tests.lang.checking.programs import errors, in_function, types_of


def test_the_first_item_decides_what_a_list_holds():
    """`let real = [];` is a list of whatever is first added to it."""
    body = "let real = []; for g in fs { if b { real = real + [g]; } } let one = real[0];"
    assert types_of(body) == {"real": "[Finding]", "one": "Finding"}


def test_an_empty_map_takes_the_type_of_its_first_value():
    """`{}` is a map of whatever is first put into it."""
    assert types_of('let seen = {}; seen["a"] = 1;')["seen"] == "{str: int}"


def test_null_takes_the_type_of_what_is_assigned_later():
    """`let best = null;` is an optional of whatever is first assigned."""
    assert types_of("let best = null; for g in fs { best = g; }")["best"] == "Finding?"


def test_lists_of_lists_are_found_out_too():
    """Holes may lie in each other."""
    body = "let rows = []; rows = rows + [[]]; rows = rows + [[1]];"
    assert types_of(body)["rows"] == "[[int]]"


def test_a_call_decides_what_a_list_holds():
    """A parameter's type fills the hole as well as an item does."""
    text = "fn f(xs: [int]) { print(xs); } let xs = []; f(xs); let ys: [str] = xs; print(ys);"
    assert errors(text) == ["wrong-type"]


def test_the_second_item_must_fit_the_first():
    """What was found out holds from then on."""
    assert errors(in_function('let xs = []; xs = xs + [1]; xs = xs + ["a"];')) == ["wrong-type"]


def test_use_before_anything_is_known_is_refused():
    """Before the first item nothing can be said about a field of it."""
    assert errors(in_function("let xs = []; print(xs[0].file);")) == ["unknown-type"]


def test_what_is_not_known_is_told_as_such():
    """Wherever it is used, and once."""
    for use in ("for g in xs[0] { print(g); }", "xs[0] <- s;", "await xs[0];", "xs[0] + 1;"):
        assert errors(in_function(f"let xs = []; {use}")) == ["unknown-type"]


def test_a_fault_in_an_item_is_told_once():
    """The list it stands in is not complained about again."""
    assert errors(in_function("for q in [nope] { print(q.x); q <- s; }")) == ["unknown-name"]


def test_a_list_that_never_gets_an_item_is_a_list_of_any():
    """Nothing is wrong with printing an empty list."""
    assert types_of("let xs = []; print(xs);")["xs"] == "[any]"


def test_a_list_cannot_hold_itself():
    """`xs + [xs]` has no finite type."""
    assert len(errors(in_function("let xs = []; xs = xs + [xs];"))) == 1


def test_letters_of_a_signature_are_the_same_type_throughout():
    """`list::contains(items: [T], item: T)` compares like with like."""
    assert errors(in_function('let it = list::contains(ns, "a");')) == ["wrong-type"]


def test_letters_have_their_kinds():
    """Only what has an order can be sorted, only numbers can be summed."""
    assert errors(in_function("let it = list::sort(fs);")) == ["wrong-type"]
    assert errors(in_function("let it = list::sum(few);")) == ["wrong-type"]


def test_letters_are_fresh_in_each_call():
    """Two calls of one function do not bind each other."""
    assert types_of("let one = list::first(ns); let two = list::first(few);") == {
        "one": "int?",
        "two": "str?",
    }
