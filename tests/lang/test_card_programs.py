"""Programs for 30 tasks, as they were written from an earlier card alone, without running any: each
works as written, or is refused by `check` with edits that make it work.

`NN.vega` and `NN.py.txt` are one task; their worlds, and what a task demands, are in the campaign.
"""

import pytest
from campaigns.card_tasks.earlier import (
    DEMANDS,
    SILENT,
    SUFFIXES,
    judged,
    repaired,
    run_in_world,
    source_of,
)
from campaigns.quote_tasks import CASES, PROGRAMS
from msgspec.structs import replace

NAMED, SHELL, NULL, BOUND = "nothing-allowed", "needs-shell", "may-be-null", "wrong-type"
TEXT, MAX, SUM = "python-text", "python-type", "python-builtin"
TOLD = {
    "02.vega": [NAMED],
    "04.vega": [NAMED],
    "06.vega": [NAMED, SHELL, SHELL],
    "09.vega": [NAMED],
    "10.vega": [NULL],
    "13.vega": [BOUND],
    "18.vega": [NAMED, BOUND],
    "19.vega": [NAMED],
    "25.vega": [BOUND, BOUND],
    "28.vega": [NAMED],
    "29.vega": [NAMED, NULL],
    "01.py": [MAX],
    "02.py": [MAX, NAMED],
    "03.py": [MAX],
    "04.py": [NAMED],
    "06.py": [NAMED, SHELL, SHELL],
    "08.py": [MAX, SUM],
    "09.py": [NAMED, TEXT],
    "10.py": [NULL, TEXT],
    "11.py": [MAX],
    "13.py": [MAX, BOUND],
    "14.py": [MAX, MAX],
    "17.py": [MAX],
    "18.py": [MAX, MAX, NAMED],
    "19.py": [NAMED],
    "20.py": [MAX],
    "21.py": [MAX],
    "22.py": [MAX],
    "24.py": [MAX],
    "25.py": [MAX, BOUND],
    "27.py": [MAX],
    "28.py": [NAMED, MAX],
    "29.py": [NAMED, NULL],
    "30.py": [MAX],
}
"""What is told, one after the other; of all others nothing. `Max` is called `MaxLen` by now."""
FILES = [f"{task}{suffix}" for task in CASES for suffix in SUFFIXES]


@pytest.mark.parametrize("file", FILES)
def test_a_program_works_with_the_edits_that_check_suggests(file: str) -> None:
    """Most need none. Those that ask people are also run where nobody answers."""
    task, _, suffix = file.partition(".")
    found = judged(task, f".{suffix}")
    assert found.fault == ""
    assert [one.code for one in found.told] == TOLD.get(file, [])
    assert all(one.help for one in found.told)


def test_an_error_without_an_edit_is_a_fault() -> None:
    text = source_of("29", ".vega").replace("if said", "let unknown = nothing;\n        if said")
    assert (left := repaired(text, "29.vega").left) is not None
    assert left.code == "unknown-name"


def test_a_run_that_comes_to_something_else_is_a_fault() -> None:
    """What nobody answered is written where the answer belongs."""
    case = replace(CASES["29"], people=())
    made = repaired(source_of("29", ".vega"), "29.vega").text
    silent = run_in_world(made, "29.vega", case)
    assert SILENT["29"](silent, case)
    lost = run_in_world(made.replace("said ?? edited", 'said ?? ""'), "29.vega", case)
    assert not SILENT["29"](lost, case)


def test_every_task_has_a_world_and_a_demand() -> None:
    assert DEMANDS.keys() == CASES.keys()
    assert SILENT.keys() <= CASES.keys()


def test_all_tasks_are_here_in_both_syntaxes() -> None:
    names = [f"{number:02}" for number in range(1, 31)]
    assert sorted(path.name for path in PROGRAMS.iterdir()) == sorted(
        f"{name}.{end}" for name in names for end in ("vega", "py.txt")
    )
