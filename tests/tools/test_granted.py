"""Tools that declare what they may do."""

from pathlib import Path
from typing import Any

import pytest

from vegakit.errors import CapabilityDenied
from vegakit.runtime import Agent, Runtime
from vegakit.testing import ScriptedModel
from vegakit.tools import FunctionTool, ToolContext, tool


def reader(root: Path, **rights: Any) -> FunctionTool:
    @tool(root=root, **rights)
    async def read(ctx: ToolContext, path: str) -> str:
        """Read one file."""
        return (await ctx.files.read(path)).decode()

    return read


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("print(1)")
    (tmp_path / "secret").write_text("hunter2")
    return tmp_path


async def test_a_tool_reads_what_it_was_granted(project: Path) -> None:
    """And the model does not see the context."""
    made = reader(project, capabilities=["fs::read"], allowed_paths=["src/**"])
    assert list(made.spec.parameters["properties"]) == ["path"]
    assert await made.call({"path": "src/a.py"}, None) == "print(1)"


@pytest.mark.parametrize("path", ["secret", "../secret", "src/../secret", "/etc/passwd"])
async def test_a_tool_reads_nothing_else(project: Path, path: str) -> None:
    """Whatever the model asks for."""
    made = reader(project, capabilities=["fs::read"], allowed_paths=["src/**"])
    with pytest.raises(CapabilityDenied):
        await made.call({"path": path}, None)


async def test_without_a_capability_there_is_none(project: Path) -> None:
    """Paths alone grant nothing."""
    made = reader(project, allowed_paths=["**"])
    with pytest.raises(CapabilityDenied):
        await made.call({"path": "src/a.py"}, None)


async def test_the_model_is_told_of_a_refusal_and_goes_on(project: Path) -> None:
    """An error result like another."""
    made = reader(project, capabilities=["fs::read"], allowed_paths=["src/**"])
    script = [{"calls": [{"name": "read", "arguments": {"path": "secret"}}]}, "I may not."]
    model = ScriptedModel(script)
    async with Runtime() as rt:
        reply = await rt.ask(Agent("a", model=model, tools=[made]), "Read the secret")
    assert reply.text == "I may not."
    assert "hunter2" not in str(model.requests)


async def test_what_a_tool_says_is_made_harmless_to_read() -> None:
    """Before the model, a terminal or a trace sees it."""

    async def shout() -> str:
        """Shout."""
        return "\x1b[31mred\u202e"

    model = ScriptedModel([{"calls": [{"name": "shout"}]}, "done"])
    async with Runtime() as rt:
        await rt.ask(Agent("a", model=model, tools=[shout]), "Shout")
    told: Any = model.requests[-1].messages[-1]
    assert told.results[0].content == r"\x1b[31mred\u202e"
