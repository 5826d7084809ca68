"""Commands of a file in the real sandbox, from the words of a model to what it reads."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tools.sandbox.stage import Box, boxed, lines, tree_of
from tests.tools.yaml_tools.stage import ECHO, GRANT, REAL
from vegakit.errors import CapabilityDenied
from vegakit.host import Agent
from vegakit.policy import Grant
from vegakit.ports import Tool
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.tools import ToolArgumentsError, ToolFile, contents_of
from vegakit.tools.sandbox.selection import open_sandbox

SHELL = """\
tools:
  - name: script
    description: Run a script.
    parameters:
      text: {type: string}
    command: [sh, -c, "{text}"]
    capabilities: ["process::exec"]
"""


@asynccontextmanager
async def filed(folder: Path, text: str, **grant: Any) -> AsyncGenerator[tuple[Box, Tool]]:
    """The file lies in the workspace, as people have it."""
    async with boxed(folder) as box:
        path = box.workspace / "tools.yaml"
        path.write_text(text)
        rights = Grant(("process::exec",), **(grant or {"commands": ("sh ***", "echo **")}))
        yield box, ToolFile(path, rights, sandbox=box.sandbox).load()[0]


async def test_a_real_file_searches_a_real_project(tmp_path: Path) -> None:
    """Defaults are filled in; a pattern that looks like an option is a pattern."""
    async with boxed(tmp_path) as box:
        (box.workspace / "src").mkdir()
        (box.workspace / "src" / "a.py").write_text("import os\nx = '--help'\n")
        search = ToolFile(REAL, GRANT, sandbox=box.sandbox).load()[0]
        assert "src/a.py:1:import os" in await search.call({"text": "import"}, None)
        assert "src/a.py:2:" in await search.call({"text": "--help"}, None)
        assert "exit code 1" in await search.call({"text": "absent"}, None)


@pytest.mark.parametrize("word", ["; touch PWNED", "$(touch PWNED)", "`touch PWNED`", "a\nb", "*"])
async def test_an_argument_is_a_word(word: str, tmp_path: Path) -> None:
    """It is said, or refused, and never read by a shell."""
    async with filed(tmp_path, ECHO) as (box, say):
        before = tree_of(box.workspace)
        try:
            assert f"stdout:\n<untrusted>\n{word}\n" in await say.call({"word": word}, None)
        except (CapabilityDenied, ToolArgumentsError):
            assert "\n" in word
        assert tree_of(box.workspace) == before


async def test_its_commands_are_contained(tmp_path: Path) -> None:
    """Even a file that offers a shell: it changes neither the file nor anything outside."""
    async with filed(tmp_path, SHELL) as (box, script):
        for text in ("echo x >> tools.yaml", "mv tools.yaml t", f"touch {box.outside}/PWNED"):
            assert "exit code 0" not in await script.call({"text": text}, None)
        assert (box.workspace / "tools.yaml").read_text() == SHELL
        assert tree_of(box.outside) == {}


async def test_a_planted_file_is_set_aside(tmp_path: Path) -> None:
    """Where none was, none is read afterwards; further down the name is another program's."""
    async with boxed(tmp_path) as box:
        ran = await box.sh("mkdir sub; touch sub/tools.yaml; echo evil > tools.yaml")
        below, aside = sorted(tree_of(box.workspace))
        assert below == "sub/tools.yaml"
        assert aside.startswith("tools.yaml.set-aside-")
        assert aside in ran.notes[0]


async def test_attacks_in_arguments_stay_inside(tmp_path: Path) -> None:
    """Each of the corpus, handed to a shell that the file offers."""
    async with filed(tmp_path, SHELL) as (box, script):
        for attack in lines("attacks/cmd.jsonl")[:40]:
            text = attack["input"].replace("PWNED", str(box.outside / "PWNED"))
            try:
                await script.call({"text": text}, None)
            except (CapabilityDenied, ToolArgumentsError):
                continue
        assert tree_of(box.outside) == {}


async def test_an_agent_uses_it(tmp_path: Path) -> None:
    """A whole turn: model, file, grant, sandbox, model."""
    (tmp_path / "tools.yaml").write_text(ECHO)
    script = [{"calls": [{"name": "say", "arguments": {"word": "hello"}}]}, "It said hello."]
    model = ScriptedModel(script)
    async with Runtime() as rt:
        sandbox = await open_sandbox(rt.children, rt.clock, tmp_path)
        tools = ToolFile(tmp_path / "tools.yaml", GRANT, sandbox=sandbox).load()
        await rt.ask(Agent("a", model=model, tools=tools), "Say hello")
    assert "stdout:\\n<untrusted>\\nhello" in str(model.requests[-1])


async def test_an_approval_is_bound_to_the_script(tmp_path: Path) -> None:
    """Another content is another action."""
    async with filed(tmp_path, SHELL) as (box, script):
        (box.workspace / "build.sh").write_text("echo harmless")
        first = await contents_of(script, {"text": "sh build.sh"})
        (box.workspace / "build.sh").write_text("echo evil")
        assert first.keys() == {"build.sh"}
        assert await contents_of(script, {"text": "sh build.sh"}) != first
