"""The examples of the language document compile and run as they are written there.

What an example leaves out stands before it, and what it shall do after it.
"""

from pathlib import Path

import pytest

from vegakit.testing import ProgramTestResult, run_test

DATA = Path(__file__).parent / "data"

CODER = """
agent Coder { model m }
let coder = spawn Coder;
let task = "a task";
"""
BEFORE = {
    "agent": """
// reply: {"calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}]}
// reply: sorted
// file: a.txt = "text"
""",
    "spawning": """
// reply: hello
agent Coder { model m }
""",
    "messages": f"""
// reply: one
// reply: two
// reply: three
// reply: Once
// expect: Once
{CODER}""",
    "dataflow": """
// reply "code 1": a
// reply "code 2": b
// reply "code 3": c
// reply "abc": the sum
// latency: 1s
agent A { model m }
let reviewer = spawn A;
let summarizer = spawn A;
let code1 = "code 1";
let code2 = "code 2";
let code3 = "code 3";
""",
    "parallel": """
// reply "one": 1
// reply "two": 2
// latency: 1s
agent A { model m }
let agent1 = spawn A;
let agent2 = spawn A;
let msg1 = "one";
let msg2 = "two";
""",
    "budgets": """
// reply: code
// reply: fine
// budget: $20.00
agent Coder { model m }
agent Reviewer { model m }
let task = "a task";
""",
    "errors": f"""
// reply: done
// reply: up
{CODER}""",
    "capabilities": """
// reply: {"calls": [{"name": "read_file", "arguments": {"path": "/project/a.txt"}}]}
// reply: seen
// file: a.txt = "text"
""",
}
AFTER = {
    "agent": 'print(Coder <- "Write a sort");  // expect: sorted',
    "spawning": 'print(result <- "hi");  // expect: hello',
    "messages": "print(code);  // expect: three",
    "dataflow": "print(summary);  // expect: the sum\n// expect time: 2s",
    "parallel": 'print("{a} {b}");  // expect: 1 2\n// expect time: 1s',
    "budgets": 'print("{remaining < $20.00} {remaining > $19.99}");  // expect: true true',
    "errors": 'print(FlakeyService <- "are you up?");  // expect: up',
    "capabilities": 'print(Coder <- "look");  // expect: seen',
}


def _ran(name: str, before: str, after: str, folder: Path) -> ProgramTestResult:
    path = folder / f"{name}.vega"
    example = (DATA / f"{name}.vega").read_text(encoding="utf-8")
    path.write_text(f"{before}\n{example}\n{after}\n", encoding="utf-8")
    return run_test(path)


@pytest.mark.parametrize("name", BEFORE)
def test_an_example_runs_as_written(name: str, tmp_path: Path) -> None:
    """With the agents and values it takes for granted."""
    assert _ran(name, BEFORE[name], AFTER[name], tmp_path).problems == []


def test_a_failure_is_caught_as_written(tmp_path: Path) -> None:
    """The example of errors says why an agent failed."""
    ran = _ran("errors", f'// reply: {{"error": "rejected"}}\n{CODER}', "", tmp_path)
    assert ran.error == ""
    assert ran.printed[0].startswith("Agent failed after retries: ")


def test_every_example_is_here() -> None:
    """But the program that uses a server: it is run in tests/runtime/compiled."""
    assert {path.stem for path in DATA.glob("*.vega")} == {*BEFORE, "review"}
