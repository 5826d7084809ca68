"""Nothing is spent before a person or a guard has said yes, wherever the question stands, as the
installed wheel plays it."""

from collections.abc import Generator
from pathlib import Path

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


PROGRAMS = {
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
