"""Admission alone: what is refused, and that each refusal names an edit that mends it."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from vegakit.lang import (
    STR,
    AgentSpec,
    ModelTerms,
    Parameter,
    Signature,
    TooMuchWorkError,
    spare_steps,
    step_limit,
)
from vegakit.lang.diagnostics import count_steps
from vegakit.money import Money, dollars
from vegakit.program import (
    MOST_BYTES,
    AdmittedProgram,
    AgentTerms,
    ProgramGrant,
    ProgramRights,
    RefusalReason,
    RefusedProgram,
    admit,
    over_remaining_budget as too_poor,
)
from vegakit.providers import ScriptedModel

MODEL = ScriptedModel("")
assert MODEL.price is not None
TERMS = ModelTerms(MODEL.price, None, 4096, MODEL.bound_input)
READER = AgentSpec("reader", "fast", "Read.", max_tokens=100, retry={"max_attempts": 3})
LEAVE = ProgramGrant(
    dollars("$0.10"),
    ProgramRights(
        capabilities=["fs::read", "process::exec", "net::get"],
        paths=["src/**", "notes.md"],
        commands=["git log **", "ls"],
        hosts=["example.com"],
    ),
    {"reader": READER},
    frozenset({"fast"}),
    AgentTerms({"reader": TERMS}, {"fast": TERMS}),
    {"look": Signature("look", (Parameter("path", STR),), STR)},
)


def admitted(source: str, leave: ProgramGrant = LEAVE) -> AdmittedProgram:
    found = admit(source, "vega", leave)
    assert isinstance(found, AdmittedProgram), found
    return found


def refused(source: str, kind: RefusalReason, leave: ProgramGrant = LEAVE) -> str:
    found = admit(source, "vega", leave)
    assert isinstance(found, RefusedProgram), found
    assert found.kind is kind, found.text
    assert found.text.startswith(f"refused ({kind}), nothing was run: ")
    assert "- fix: " in found.text
    return found.text


def test_what_is_typical_is_known_beside_the_bound() -> None:
    found = admitted('fn main() { for i in range(3) { print(reader <- "hi"); } }')
    assert found.quoted.total is not None
    assert found.quoted.typical is not None
    assert 0 < found.quoted.typical < found.quoted.total


def test_a_verdict_does_not_depend_on_what_is_typical() -> None:
    """Where the steps that are left do not do for it, it is not known, and the program admitted."""
    with step_limit(10) as steps:
        count_steps(8)
        with suppress(TooMuchWorkError), spare_steps():
            count_steps(3)
        assert steps.left == 2
        assert not steps.are_spent


REPAIRS = [
    pytest.param(
        RefusalReason.MISTAKES,
        'let a = raeder <- "hi"; print(a);',
        r"line 1: write `(\w+)` instead of `raeder`",
        lambda text, found: text.replace("raeder", found[1]),
        id="a misspelt agent",
    ),
    pytest.param(
        RefusalReason.MISTAKES,
        'print(file::read("src/a.py"));',
        r"line 1: insert `(program may \[fs::read\])`",
        lambda text, found: f"{found[1]}\n{text}",
        id="a right that is not written down",
    ),
    pytest.param(
        RefusalReason.RIGHTS,
        'program may [fs::read] allowed_paths ["/etc/**"]\nprint(file::read("src/a"));',
        r'write ("src/\*\*")',
        lambda text, found: text.replace('"/etc/**"', found[1]),
        id="a path outside",
    ),
    pytest.param(
        RefusalReason.AGENTS,
        'agent A { model "gpt-9" max_tokens 10 }\nlet a = A <- "hi"; print(a);',
        r'write one of: model ("\w+")',
        lambda text, found: text.replace('"gpt-9"', found[1]),
        id="a model that is not given",
    ),
    pytest.param(
        RefusalReason.UNBOUNDED,
        'fn main(items: [str]) {\n    for i in items { let a = reader <- "hi"; print(a); }\n}',
        r"bound the list, as in `(\[str; 20\])`",
        lambda text, found: text.replace("[str]", found[1]),
        id="a list without a bound",
    ),
    pytest.param(
        RefusalReason.UNBOUNDED,
        'let on = true;\nwhile on { let a = reader <- "hi"; on = a != "no"; }',
        r"`while more (limit 10) ",
        lambda text, found: text.replace("while on {", f"while on {found[1]} {{"),
        id="a loop without a bound",
    ),
    pytest.param(
        RefusalReason.UNBOUNDED,
        'let on = true;\nwhile on { let a = reader <- "hi"; on = a != "no"; }',
        r"put `(session budget \$[\d.]+ {)` before",
        lambda text, found: text.replace("while", f"{found[1]} while") + " }",
        id="a loop without a bound, capped",
    ),
    pytest.param(
        RefusalReason.COST,
        'for i in range(355) { let a = reader <- "hi {i}"; print(a); }',
        r"put `(session budget \$[\d.]+ {)` before",
        lambda text, found: f"{found[1]} {text} }}",
        id="too expensive, capped",
    ),
    pytest.param(
        RefusalReason.COST,
        'for i in range(355) { let a = reader <- "hi {i}"; print(a); }',
        r"on this line \((\d+) % of",
        lambda text, found: text.replace("355", str(355 * int(found[1]) // 100)),
        id="too expensive, asked less often",
    ),
    pytest.param(
        RefusalReason.SIZE,
        f'print("{"x" * MOST_BYTES}");',
        r"at most ([\d,]+)",
        lambda text, found: text.replace("x" * MOST_BYTES, "x"),
        id="too long",
    ),
]


@pytest.mark.parametrize(("kind", "source", "pattern", "fix"), REPAIRS)
def test_a_refusal_names_an_edit_that_makes_it_pass(
    kind: RefusalReason, source: str, pattern: str, fix: Callable[[str, re.Match[str]], str]
) -> None:
    """Who does what the text says has a program that runs."""
    text = refused(source, kind)
    found = re.search(pattern, text)
    assert found is not None, text
    admitted(fix(source, found))


@pytest.mark.parametrize(
    "source",
    [
        'program may [fs::write] allowed_paths ["src/**"]\nfile::write("src/a", "x");',
        'program may [fs::read] allowed_paths ["src/../etc/**"]\nprint(file::read("src/a"));',
        'program may [fs::read] allowed_paths ["srcs/**"]\nprint(file::read("src/a"));',
        (
            'program may [net::post] allowed_hosts ["example.com"]\n'
            'print(http::post("https://example.com", ""));'
        ),
        (
            'program may [net::get] allowed_hosts ["evil.example.com"]\n'
            'print(http::get("https://example.com"));'
        ),
        'program may [process::exec] allowed_commands ["git push"]\nprint(exec("git push"));',
        'program may [process::exec] allowed_commands ["rm **"]\nprint(exec("rm x"));',
        (
            'tool t() -> str capabilities [db::drop] { return ""; }\n'
            'agent A { model fast max_tokens 10 tools [t] }\nlet a = A <- "hi"; print(a);'
        ),
        'print(human::approve("Buy it?", 1d));',
        'agent A { model fast tools [yaml "t.yaml"] }\nprint("");',
        'use mcp "github"\nagent A { model fast tools [mcp "github"] }\nprint("");',
    ],
)
def test_what_is_not_granted_is_not_admitted(source: str) -> None:
    """Whether its own code or an agent of its own would do it."""
    found = admit(source, "vega", LEAVE)
    assert isinstance(found, RefusedProgram)
    assert found.kind in (RefusalReason.RIGHTS, RefusalReason.AGENTS), found.text


@pytest.mark.parametrize(
    "source",
    [
        'program may [fs::read]\nprint(file::read("src/a"));',
        (
            'program may [fs::read] allowed_paths ["src/lib/**", "notes.md"]\n'
            'print(file::read("notes.md"));'
        ),
        'program may [process::exec] allowed_commands ["git log -5", "ls"]\nprint(exec("ls"));',
        (
            'program may [net::get] allowed_hosts ["example.com"]\n'
            'print(http::get("https://example.com"));'
        ),
        'print(look("a"));',
        (
            "agent A { model fast max_tokens 10 tools [look] budget $0.01 }\n"
            'let a = A <- "hi"; print(a);'
        ),
    ],
)
def test_what_is_granted_is_admitted(source: str) -> None:
    """What the source leaves open is cut to what is granted."""
    admitted(source)


def test_an_agent_that_was_given_cannot_be_declared_anew() -> None:
    """Else a program could give it other tools, or another budget."""
    text = refused('agent reader { model fast }\nprint("");', RefusalReason.MISTAKES)
    assert "`reader` is an agent that you were given already" in text


def test_the_quote_is_what_the_program_gets() -> None:
    """And must fit into what is left."""
    found = admitted('let a = reader <- "hi"; print(a);')
    assert found.cost == found.quoted.total
    assert too_poor(found, found.cost) is None
    assert too_poor(found, None) is None
    refusal = too_poor(found, Money(found.cost - 1))
    assert refusal is not None
    assert refusal.kind is RefusalReason.ROOM
    assert "is left for this turn" in refusal.text


def test_the_same_source_is_admitted_the_same() -> None:
    """On any host, in any life of it."""
    source = 'let a = reader <- "hi"; print(a);'
    assert admit(source, "vega", LEAVE) == admit(source, "vega", LEAVE)
    assert isinstance(admit(source, "cobol", LEAVE), RefusedProgram)


def test_by_what_is_typical_a_program_gets_its_limit_and_no_more() -> None:
    """One that may cost more than it gets is capped; one that may not has its quote as before."""
    source = 'for i in range(8) { let a = reader <- "hi {i}"; print(a); }'
    at_most = admitted(source, replace(LEAVE, max_cost=dollars("$1"))).cost
    limit = Money(at_most // 2)
    refused(source, RefusalReason.COST, replace(LEAVE, max_cost=limit))
    found = admitted(source, replace(LEAVE, max_cost=limit, admit="typical"))
    assert (found.cost, found.is_capped) == (limit, True)
    found = admitted(source, replace(LEAVE, max_cost=dollars("$1"), admit="typical"))
    assert (found.cost, found.is_capped) == (at_most, False)
    least = replace(LEAVE, max_cost=Money(1000), admit="typical")
    assert "it usually costs $0.00" in refused(source, RefusalReason.COST, least)


def test_what_nothing_bounds_may_have_a_typical_cost() -> None:
    source = 'fn main(xs: [str]) { for x in xs { let a = reader <- "hi {x}"; print(a); } }'
    refused(source, RefusalReason.UNBOUNDED)
    found = admitted(source, replace(LEAVE, admit="typical"))
    assert (found.cost, found.is_capped) == (LEAVE.max_cost, True)
