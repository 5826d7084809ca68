"""Warnings of what never fits the budget around it: those that are certain, and no others."""

import pytest

from tests.lang.checking.programs import checked, errors, warnings

HEAD = """
agent A { model fast }
agent B { model fast  budget $0.50 }
agent Loose { model fast  budget $0.50  on_exceed warn }
fn dear() -> str budget $1 { return A <- "x"; }
"""
ONE = "print(spawn A wallet $0.30);"
CERTAIN = [
    f"{ONE} {ONE}",
    f"try {{ {ONE} {ONE} }} catch {{ print(1); }}",
    f"parallel {{ {ONE} {ONE} }}",
    "print([spawn A wallet $0.30, spawn A wallet $0.30]);",
    "print(spawn A wallet $0.41);",
    "if s == s { print(spawn A wallet $0.41); }",
    "for n in [1] { print(spawn A wallet $0.41); }",
    'session budget $0.41 { print("x"); }',
    "session budget $0.20 { print(spawn A wallet $0.30); }",
    'print(A <- "x" budget $0.41);',
    'print(B <- "x");',
    "print(dear());",
]
UNCERTAIN = [
    ONE,
    "print(spawn A wallet $0.10); print(spawn A wallet $0.30);",
    f"if s == s {{ {ONE} }} else {{ {ONE} }}",
    f"if s == s {{ {ONE} }} {ONE}",
    f"try {{ {ONE} }} catch {{ {ONE} }}",
    "print([for n in range(2) { spawn A wallet $0.30 }]);",
    "print(spawn A wallet m); print(spawn A wallet m);",
    f"session budget $0.30 {{ {ONE} }} session budget $0.30 {{ {ONE} }}",
    'session budget m { print("x"); }',
    'print(B <- "x" budget $0.40);',
    'print(Loose <- "x");',
    'let b = spawn B wallet $0.40; print(b <- "x" budget $0.50);',
    "let a = spawn A; monitor(a) { why -> print(why + dear()); }",
]


def _function(body: str, budget: str = "budget $0.40") -> str:
    return f"{HEAD}fn f(s: str, m: money) {budget} {{ print(s); print(m); {body} }}"


@pytest.mark.parametrize("body", CERTAIN)
def test_what_never_fits_is_warned_of_once(body: str):
    """The budget around it is smaller, whatever anything costs."""
    assert (errors(_function(body)), warnings(_function(body))) == ([], ["over-budget"])


@pytest.mark.parametrize(
    ("body", "amount"),
    [
        ("print(spawn A wallet $0.41);", "$0.40"),
        ('print(A <- "y"); print(spawn A wallet $0.41);', "$0.81"),
        ('print(dear2()); session budget $0.50 { print("x"); }', "$0.90"),
        ("for n in [1] { print(spawn A wallet $0.41); }", "$0.81"),
    ],
)
def test_the_amount_that_is_named_fits(body: str, amount: str):
    """All of the budget is there for what comes first only."""
    text = 'fn dear2() -> str { return A <- "x"; }' + _function(body)
    [found] = checked(text)[1]
    assert f"write `{amount}` for" in (found.help or "")
    assert found.edit is not None
    assert not warnings(text[: found.edit.at] + found.edit.text + text[found.edit.end :])


@pytest.mark.parametrize("body", UNCERTAIN)
def test_what_may_fit_is_not_warned_of(body: str):
    """One branch runs, one session after the other, an amount that is not written may be small."""
    assert (errors(_function(body)), warnings(_function(body))) == ([], [])


@pytest.mark.parametrize("body", CERTAIN)
def test_without_a_budget_around_nothing_is_too_large(body: str):
    """Only what is written around it is compared, and no budget of settings."""
    allowed = ["over-budget"] if "$0.20" in body else []
    assert warnings(_function(body, "")) == allowed
