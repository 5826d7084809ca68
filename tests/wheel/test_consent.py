"""Nothing is spent before a person or a guard has said yes, wherever the question stands, as the
installed wheel plays it."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from campaigns.contract.stage import Stage, stage

pytestmark = pytest.mark.timeout(600)

REPLIES = "".join(f'// reply "LONG {number}": words\n' for number in range(40))
AGENTS = """\
agent Guard { model fast max_tokens 5 budget $0.05 }
agent Big { model smart max_tokens 300 budget $0.05 }
"""
SENDS = 'for i in range(40) { print(Big <- "LONG {i}"); }'
ASKED = 'human::approve("Spend money?", 1h)'
ENDS = 'fail("no");'
SAID = "  // error: Failed: no"
APPROVED = f"fn approved() {{ if not {ASKED} {{ {ENDS} }} }}"
JUDGED = f'fn judged(said: str) {{ if said != "yes" {{ {ENDS} }} }}'
REFUSE = f"fn refuse() {{ {ENDS} }}"
MAY_WE = 'Guard <- "may we?"'
A_PERSON, A_GUARD = ("answer: no", 0), ('reply "may we?": no', 1)
A_FAILURE = ('reply "may we?": {"error": "rejected"}\n// answer: no', 1)
PYTHON = """\
from vegakit import Agent, Failed, program, vega

Big = Agent("Big", model="smart", max_tokens=300, budget="$0.05")


def approved() -> None:
    if not vega.human.approve("Spend money?", "1h"):
        raise Failed("no")  # error: Failed: no


@program
def main() -> None:
    approved()
    for i in range(40):
        print(Big(f"LONG {i}"))
"""


def program(asked: tuple[str, int], helpers: str, main: str) -> str:
    """Return a program with forty sends behind a question that is answered with no."""
    answer, calls = asked
    head = f"{REPLIES}// {answer}\n// expect calls: {calls}\n"
    return f"{head}{AGENTS}{helpers}\nfn main() {{\n{main}\n{SENDS}\n}}\n"


ASKED_BY_A_MODEL = """\
// reply "may we?": {"calls": [{"name": "asks"}]}
// reply "may we?": asked
// reply "LONG 0": words
// reply "LONG 1": words
// reply "LONG 2": words
// reply "LONG 3": words
// answer: no
// latency: 1s
// expect time: 3s
agent Asker { model fast max_tokens 50 budget $0.05 tools [asks] }
agent Big { model smart max_tokens 300 budget $0.05 }
tool asks() -> str "Ask." idempotent { return "{human::approve("Spend money?", 1h)}"; }
fn main() {
    print(Asker <- "may we?");
    for i in range(4) { Big <- "LONG {i}"; }
}
// expect: asked
"""
"""The agent takes two seconds, and what stands behind it one more."""

PROGRAMS = {
    "inline": program(A_PERSON, "", f"if not {ASKED} {{ {ENDS} }}{SAID}"),
    "in_a_try": program(
        A_PERSON,
        "",
        f'try {{ if not {ASKED} {{ {ENDS} }} }} catch {{ print("kept"); return; }}'
        "  // expect: kept",
    ),
    "in_a_catch": program(
        A_FAILURE,
        "",
        f"try {{ print({MAY_WE}); }} catch {{ if not {ASKED} {{ {ENDS} }} }}{SAID}",
    ),
    "in_a_helper_in_a_catch": program(
        A_FAILURE,
        f"{APPROVED}{SAID}\nfn risky() {{ print({MAY_WE}); }}",
        "try { risky(); } catch { approved(); }",
    ),
    "in_the_catch_of_a_guard": program(
        (f"{A_GUARD[0]}\n// answer: no", 1),
        "",
        f'try {{ if ({MAY_WE}) != "yes" {{ {ENDS} }} }} catch Failed '
        f"{{ if not {ASKED} {{ {ENDS} }} }}{SAID}",
    ),
    "before_the_rounds_of_a_loop": program(
        ('args: [["a", "b"]]\n// answer: no', 0),
        "",
        "session budget $5 confirm $0.0001 {\n"
        'for item in items { print(Big <- "LONG {item}"); }  // error: BudgetExceeded\n}',
    ).replace("fn main()", "fn main(items: [str])"),
    "a_guard_that_casts": program(
        A_GUARD, "", f'let word = ({MAY_WE}) as "yes";  // error: ContractViolated'
    ),
    "a_guard_that_casts_in_a_helper": program(
        A_GUARD,
        'fn judged(said: str) { let word = said as "yes"; }  // error: ContractViolated',
        f"let said = {MAY_WE};\njudged(said);",
    ),
    "in_a_helper": program(A_PERSON, APPROVED + SAID, "approved();"),
    "in_nested_helpers": program(
        A_PERSON,
        f"{APPROVED}{SAID}\nfn checked() {{ approved(); }}\n"
        'fn ready() -> str { checked(); return "ok"; }',
        "let said = ready();",
    ),
    "in_a_condition": program(
        A_PERSON,
        f"fn approved() -> bool {{ return {ASKED}; }}",
        "if not approved() { return; }",
    ),
    "caught_outside_of_the_helper": program(
        A_PERSON,
        APPROVED,
        'try { approved(); } catch Failed { print("kept"); return; }  // expect: kept',
    ),
    "in_a_tool_that_a_model_calls": ASKED_BY_A_MODEL,
    "behind_a_cast": program(
        A_PERSON, "", 'let word = human::ask("Type GO", 1h) as "GO";  // error: ContractViolated'
    ),
    "in_a_tool": program(
        A_PERSON,
        f'tool approved() -> str "Ask." {{ if not {ASKED} {{ {ENDS} }} return "ok"; }}{SAID}',
        "approved();",
    ),
    "judged_by_a_helper": program(A_GUARD, JUDGED + SAID, f"let said = {MAY_WE};\njudged(said);"),
    "refused_by_a_helper_of_a_helper": program(
        A_GUARD,
        f'{REFUSE}{SAID}\nfn judged(said: str) {{ if said != "yes" {{ refuse(); }} }}\n'
        f"fn need() {{ let said = {MAY_WE}; judged(said); }}",
        "need();",
    ),
    "refused_by_a_helper_in_a_branch": program(
        A_GUARD, REFUSE + SAID, f'let said = {MAY_WE};\nif said != "yes" {{ refuse(); }}'
    ),
    "judged_in_a_try_that_returns": program(
        A_GUARD,
        JUDGED,
        f'try {{ judged({MAY_WE}); }} catch {{ print("kept"); return; }}  // expect: kept',
    ),
}


FILTER = """\
agent Filter { model fast max_tokens 5 budget $0.001 }
agent Big { model smart max_tokens 800 budget $0.05 }
fn require_safe(x: str) { if (Filter <- "safe? {x}") != "yes" { fail("refused {x}"); } }
fn one(x: str) -> str { require_safe(x); return Big <- "write long about {x}"; }
fn main() {
    for i in range(20) {
        try { print(one("item{i}.")); } catch Failed(why) { print(why); }
    }
}
"""
LONG = " ".join(["word"] * 400)
SCRIPT = {"safe? item0.": "yes", "safe? item1.": "yes", "safe?": "no", "write long": LONG}
NEEDED = 22
"""Of twenty items two pass the filter, and are written about."""
A_WASTED_CALL = 0.0041
"""Dollars: 800 words of the scripted model, as many as it may say, and the question."""


@pytest.fixture
def place(wheel: Path) -> Generator[Stage]:
    with stage(wheel) as made:
        yield made


def test_nothing_is_spent_before_a_no(place: Stage) -> None:
    """None of the forty calls behind a question is made, whichever way the question is put."""
    place.write({f"{name}.vega": text for name, text in PROGRAMS.items()})
    head = REPLIES.replace("//", "#") + "# answer: no\n# expect calls: 0\n"
    place.write({"in_python.py": head + PYTHON})
    done = place.run("vega", "test", ".")
    assert done.code == 0, done
    assert f"{len(PROGRAMS) + 1} passed" in done.out + done.err, done


def played(place: Stage, *options: str) -> dict[str, Any]:
    """Return the totals of the filter with these options."""
    place.write({"filter.vega": FILTER, "script.json": json.dumps({"matches": SCRIPT})})
    scripted = ("--model", "scripted:script.json", "--no-journal", "--json")
    return place.run_well("vega", "run", "filter.vega", *scripted, *options).page["account"]


def test_what_is_begun_behind_a_guard_costs_little(place: Stage) -> None:
    """A filter in a helper refuses eighteen of twenty items. What is begun for those in vain keeps
    to its limit."""
    by_default = played(place)
    none = played(place, "--set", "speculate.limit=$0")
    in_order = played(place, "--sequential")
    unlimited = played(place, "--set", "speculate.limit=$100")
    assert (in_order["calls"], none["calls"]) == (NEEDED, NEEDED)
    assert none["wasted_usd"] == 0
    assert by_default["calls"] <= NEEDED + 2, "at least two calls, whatever they cost"
    assert 0 < by_default["wasted_usd"] <= 2 * A_WASTED_CALL
    assert by_default["spent_usd"] == pytest.approx(
        in_order["spent_usd"] + by_default["wasted_usd"], abs=1e-6
    )
    assert unlimited["calls"] > NEEDED + 10, "else nothing would be limited here"


def test_agents_have_limits_of_their_own(place: Stage) -> None:
    """Nothing is begun in vain of an agent whose limit is nothing."""
    assert played(place, "--set", "speculate.agents.Big=$0")["calls"] == NEEDED


def test_a_run_tells_its_limit(place: Stage) -> None:
    """The opening line and the account at the end show what may be in vain; a program without
    guards says nothing of it."""
    place.write({"filter.vega": FILTER, "script.json": json.dumps({"matches": SCRIPT})})
    words = ("vega", "run", "filter.vega", "--model", "scripted:script.json")
    told = place.run_well(*words, "--set", "speculate.limit=$0.50").err.splitlines()
    assert "speculation at most $0.50" in told[0]
    assert "speculation at most $0.50" in told[-1].replace("\u00a0", " ")
    plain = 'agent Big { model smart max_tokens 5 }\nprint(Big <- "write long");\n'
    place.write({"plain.vega": plain})
    words = ("vega", "run", "plain.vega", "--model", "scripted:script.json")
    assert "speculation" not in place.run_well(*words).err
