"""What a strict type checker sees in a project of a user: the types, and nothing that it does not
know."""

import json
import subprocess
import sys
from pathlib import Path

PROJECT = '''
from pydantic import BaseModel

from vegakit import Agent, Child, Runtime, program, tool


class Finding(BaseModel):
    line: int


@tool()
def lookup(name: str) -> str:
    """Look a name up."""
    return name


reviewer = Agent("reviewer", model="fast", instructions="Review.", tools=[lookup])
finder = Agent("finder", output_type=Finding)


async def clerk(message: str) -> int:
    return len(message)


@program
def main(paths: list[str], most: int = 3) -> str:
    return "done"


@program(budget="$5")
def other(path: str) -> list[Finding]:
    return []


async def work() -> None:
    async with Runtime(budget="$1", journal="run.db") as rt:
        reply = await rt.ask(reviewer, "a", budget="$0.10", timeout="30s", on_chunk=print)
        reveal_type(reply)  # Reply[str]
        reveal_type((await rt.ask(finder, "b")).output)  # Finding
        reveal_type(reply.cost)  # Dollars
        reveal_type(rt.spawn(finder, name="f", wallet="$1"))  # Process[Reply[Finding]]
        reveal_type(await rt.spawn(finder).ask("x"))  # Reply[Finding]
        reveal_type(await rt.spawn(clerk).ask("x"))  # int
        reveal_type(await rt.spent())  # Dollars
        reveal_type(await rt.remaining())  # Dollars | None
        reveal_type(await rt.batch(rt.ask(finder, "x")))  # tuple[Reply[Finding], ...]
        reveal_type(lookup("x"))  # str
        rt.spawn(Child(reviewer, wallet=1))
    reveal_type(await main(["a"], 2))  # str
    reveal_type(other.run(path="x"))  # list[Finding]
    reveal_type(finder.run_sync("x"))  # Reply[Finding]
    reveal_type(Runtime.from_config(budget=5, journal=None))  # Runtime
'''
WRONG = {
    "await main([1])": "reportArgumentType",
    "rt.ask(reviewer, 'x', timeot=3)": "reportCallIssue",
    "Runtime.from_config(budgt=5)": "reportCallIssue",
    "rt.spawn(reviewer, walet='$1')": "reportCallIssue",
    "Agent('a', output=str)": "reportCallIssue",
    "lookup(3)": "reportArgumentType",
}


def diagnostics(folder: Path, text: str) -> list[tuple[str, str, int]]:
    """What the checker says in strict mode: how grave, what, in which line."""
    (folder / "app.py").write_text(text)
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(folder)]
    command += ["--pythonpath", sys.executable]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(ran.stdout)["generalDiagnostics"]
    return [
        (one["severity"], one.get("rule") or one["message"], one["range"]["start"]["line"])
        for one in found
    ]


def test_a_strict_project_knows_every_type(tmp_path: Path) -> None:
    """Each that is revealed is the one that stands beside it, and none is unknown."""
    lines = PROJECT.splitlines()
    found = diagnostics(tmp_path, PROJECT)
    assert [one for one in found if one[0] != "information"] == []
    revealed = {line: text.rsplit('is "', 1)[1].rstrip('"') for _, text, line in found}
    expected = {
        number: line.rsplit("  # ", 1)[1]
        for number, line in enumerate(lines)
        if "reveal_type" in line
    }
    assert revealed == expected


def test_wrong_names_are_found_before_they_run(tmp_path: Path) -> None:
    """Of a budget that was misspelt nobody would hear otherwise."""
    wrong = "\n".join(f"        {line}" for line in WRONG)
    text = PROJECT.replace("        rt.spawn(Child(reviewer, wallet=1))", wrong)
    first = text.splitlines().index(f"        {next(iter(WRONG))}")
    found = [(rule, line - first) for _, rule, line in diagnostics(tmp_path, text)]
    for number, line in enumerate(WRONG):
        assert (WRONG[line], number) in found
