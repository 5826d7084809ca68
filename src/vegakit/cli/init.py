"""`vega init`: a project that runs at once, without a key: an agent with a tool, a program, tests
of both, settings and a workflow for CI.

Its model answers from a file until a line of `vega.toml` names a real one, so a newcomer sees an
answer, a quote, a journal and a green test before there is anything to pay for.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from vegakit.cli.look import print_json
from vegakit.cli.main import Argument, CommandParser
from vegakit.config import folder_content, trust_folder
from vegakit.errors import SettingsError, UserError
from vegakit.tools import write_output

_SETTINGS = """\
# What this project sets. `vega config` shows all settings, and where each of them came from.

[models]
# Answers from a file: everything here runs without a key. With a key in ANTHROPIC_API_KEY, write
# smart = "anthropic:claude-sonnet-5-5"
# `vega models` lists what there is, and what it costs.
smart = "scripted:replies.json"

[budget]
# No run of this project may cost more.
default = "$0.50"
"""

_REPLIES: dict[str, Any] = {
    "latency_ms": 1000,
    "matches": {
        "How many words": [
            {"calls": [{"name": "count_words", "arguments": {"text": "to be or not to be"}}]},
            "It has 6 words.",
        ],
        "Tell me about owls": "Owls hunt at night.",
        "Tell me about bats": "Bats hear where they fly.",
        "Tell me about moths": "Moths hear the bats.",
        "Make one paragraph": "At night owls hunt, bats listen, and moths listen to the bats.",
        "": "The model of this project answers from replies.json, which has nothing for this "
        "question; vega.toml says how to use a real one.",
    },
}

_AGENT = '''\
"""An agent with a tool.

python agent.py         ask it; the run is recorded, and `vega trace` shows it
pytest                  test it, without a model
"""

import asyncio

from vegakit import Agent, Runtime, tool


@tool(capabilities=[])  # it only computes
def count_words(text: str) -> int:
    """Return how many words a text has."""
    return len(text.split())


counter = Agent(
    "counter",
    model="smart",
    instructions="Count by the tool, then answer in one sentence.",
    tools=[count_words],
    max_tokens=200,
    budget="$0.10",
)


async def main() -> None:
    async with Runtime.from_config() as rt:
        reply = await rt.ask(counter, "How many words has: to be or not to be")
        print(reply)


if __name__ == "__main__":
    asyncio.run(main())
'''

_TEST = '''\
"""The fixture `vega` comes with vegakit: a script answers in place of the model."""

import pytest

from agent import counter, count_words
from vegakit import Agent, BudgetExceeded
from vegakit.testing import tool


def test_it_counts_by_its_tool(vega):
    vega.script(tool("count_words", text="one two three"), "It has 3 words.")
    reply = vega.run(counter, "How many words has: one two three")
    assert reply.text == "It has 3 words."
    assert vega.tools_called == ["count_words"]


def test_a_budget_is_a_cap(vega):
    vega.script("never said")
    poor = Agent("poor", tools=[count_words], max_tokens=200, budget="$0.0001")
    with pytest.raises(BudgetExceeded):
        vega.run(poor, "How many words has: one two three")
    assert vega.spent == 0
'''

_PROGRAM = """\
// vega run notes.vega owls bats moths     all readers at once, then the editor
// vega cost notes.vega                    what it may cost at most
// vega test notes.vega                    these comments make it a test:
//
// args: owls bats
// reply "owls": "Owls hunt at night."
// reply "bats": "Bats hear where they fly."
// reply "paragraph": "At night owls hunt and bats listen."

agent Reader {
    model smart
    system "Answer in one sentence."
    max_tokens 100
    budget $0.05
}

agent Editor {
    model smart
    system "Write one paragraph."
    max_tokens 300
    budget $0.05
}

fn main(topics: [str; 10]) budget $0.25 {
    let facts = [for topic in topics { Reader <- "Tell me about {topic}." }];
    let text = Editor <- "Make one paragraph of: {facts}";
    print(text);  // expect: At night owls hunt and bats listen.
}
"""

_WORKFLOW = """\
name: tests
on: [push, pull_request]
jobs:
  tests:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: { python-version: "3.12" }
      - run: pip install vegakit pytest
      - run: vega check notes.vega
      - run: vega test notes.vega
      - run: pytest
"""

_IGNORED = """\
.venv/
__pycache__/
.pytest_cache/
"""


class ProjectFile(NamedTuple):
    """A file of the project: what a newcomer is told of it, and its text."""

    told: str
    text: str


FILES = {
    "vega.toml": ProjectFile(
        "settings: the model, which needs no key yet, and the budget of a run", _SETTINGS
    ),
    "replies.json": ProjectFile(
        "what the model answers until there is a key", json.dumps(_REPLIES, indent=2) + "\n"
    ),
    "agent.py": ProjectFile("an agent with a tool", _AGENT),
    "test_agent.py": ProjectFile("its tests", _TEST),
    "notes.vega": ProjectFile("a program of two agents, and its test", _PROGRAM),
    ".github/workflows/tests.yml": ProjectFile("the same tests for CI", _WORKFLOW),
    ".gitignore": ProjectFile("", _IGNORED),
}
"""In the order in which they are told."""

_MAY_BE_THERE = ".gitignore"
"""A new repository often has one; it stays as it is."""
_HARMLESS = {".git", ".gitignore", "LICENSE", "README.md"}
"""A folder with other files may be of somebody else: it is not trusted for being made a project."""
_NEXT = {
    "python agent.py": "ask the agent",
    "vega cost notes.vega": "the most the program may cost, before the first call",
    "vega run notes.vega owls bats moths": "run it; after a kill it goes on by vega resume",
    "vega test notes.vega": "test it, without a key",
    "pytest": "test the agent; type first: pip install pytest",
}


def init_command(arguments: Sequence[str]) -> int:
    """Run `vega init`."""
    chosen = CommandParser(
        prog="vega init",
        description="Begin a project that runs without a key: an agent with a tool, a program, "
        "tests of both, settings, and a workflow for CI. Nothing is overwritten.",
        arguments=[
            Argument("folder", nargs="?", default=".", help="made if it is not there; here"),
            Argument("--json", action="store_true", help="what was written, as JSON"),
        ],
    ).parse_args(arguments)
    folder = Path(chosen.folder)
    _check_free(folder)
    is_new = not folder.exists() or {path.name for path in folder.iterdir()} <= _HARMLESS
    for name, made in FILES.items():
        path = folder / name
        if name == _MAY_BE_THERE and path.exists():
            continue
        # A file that came meanwhile is not ours to overwrite.
        advice = "choose another folder: vega init FOLDER"
        write_output(path, made.text.encode(), advice, is_new=True)
    if is_new:
        with suppress(SettingsError):  # without a home nothing is recorded
            trust_folder(folder, folder_content(folder).starts)
    if chosen.json:
        print_json({"folder": str(folder), "files": list(FILES), "next": list(_NEXT)})
        return 0
    for line in _account(folder):
        print(line)
    return 0


def _check_free(folder: Path) -> None:
    """Refuse before the first file is written, so that half a project never lies among others'
    files."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; choose a folder: vega init FOLDER")
    there = [name for name in FILES if name != _MAY_BE_THERE and (folder / name).exists()]
    if there:
        verb = "is" if len(there) == 1 else "are"
        raise UserError(
            f"{', '.join(there)} {verb} there already, and nothing was written; "
            "choose an empty folder: vega init FOLDER"
        )


def _account(folder: Path) -> list[str]:
    wide = max(map(len, FILES))
    written = [f"  {name:{wide}}  {made.told}".rstrip() for name, made in FILES.items()]
    wider = max(map(len, _NEXT))
    enter = [] if folder == Path() else [f"  cd {folder}"]
    steps = [f"  {command:{wider}}  {told}" for command, told in _NEXT.items()]
    return [f"a project in {folder.resolve()}", *written, "", "next:", *enter, *steps]
