"""The language by programs: what each shall do stands beside its lines.

A new one needs no Python: put a `.vega` file into the folder of its feature. Files in a folder
`lib` are there to be used by others.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.architecture import rules
from vegakit.lang import Module, Op, check_program, compile_program
from vegakit.sdk import Source
from vegakit.testing import find_tests as programs_below, run_test

FOLDER = Path(__file__).parent
PROGRAMS = list(programs_below([FOLDER]))
FEATURES = """
    agents ahead async_await break_continue breakers budgets capabilities choices confirm csv
    diagnostics durations errors exec files functions header human imports links lists loops
    main_args maps money monitors optionals parallel process race rates records recursion retries
    sends sessions spawn streams strings supervision time timeouts tool_errors tools trace
    try_catch typed_answers values wallets while_limit
""".split()
NOT_WRITTEN = {
    "missing-type": "the parser is first to miss it",
    "not-constant": "the parser is first to find it",
    "too-deep": "tests/lang has deep programs",
    "too-many-files": "tests/lang has programs of many files",
    "type-too-large": "tests/lang has types of many fields",
}
"""Diagnostics of the checker that no program here has."""


def _name(path: Path) -> str:
    return path.relative_to(FOLDER).with_suffix("").as_posix()


@pytest.mark.parametrize("path", PROGRAMS, ids=_name)
def test_a_program_does_what_it_says(path: Path) -> None:
    """Prints, result, error with its lines, time, calls, cost, notes and diagnostics."""
    assert run_test(path).problems == []


@pytest.mark.parametrize("path", PROGRAMS, ids=_name)
def test_a_stop_after_every_instruction_changes_nothing(path: Path) -> None:
    """The state of the whole program goes through JSON after each one."""
    assert run_test(path, step_by_step=True).problems == []


def test_every_feature_has_its_programs() -> None:
    """Three at least, three hundred in all; no folder that is not listed."""
    counts = Counter(_name(path).partition("/")[0] for path in PROGRAMS)
    assert sorted(counts) == FEATURES
    assert {name: count for name, count in counts.items() if count < 3} == {}
    assert len(PROGRAMS) >= 300


def _module(path: Path) -> Module | None:
    source = Source(path)
    checked, found = check_program(source.read(source.name) or "", source.name, source.read)
    refused = checked is None or any(one.severity == "error" for one in found)
    return None if refused or checked is None else compile_program(checked)


def missing_instructions() -> list[str]:
    modules = [module for module in map(_module, PROGRAMS) if module is not None]
    written = {row[0] for module in modules for fn in module.functions for row in fn.code}
    return [op.name for op in Op if op not in written]


def test_every_instruction_is_in_some_program() -> None:
    """What the compiler never writes would be tried by nobody."""
    assert missing_instructions() == []


def test_every_diagnostic_of_the_checker_is_in_some_program() -> None:
    """But for those that a small program cannot have."""
    code = re.compile(r'(?:error|warn)\(\s*"([a-z]+(?:-[a-z]+)*)"')
    checking = (rules.SRC / "lang" / "checking").glob("*.py")
    known = {found for file in checking for found in code.findall(file.read_text("utf-8"))}
    said = re.compile(r"// (?:diagnostic|warning): ([a-z-]+)")
    written = {found for path in PROGRAMS for found in said.findall(path.read_text("utf-8"))}
    assert sorted(known - written - set(NOT_WRITTEN)) == []
