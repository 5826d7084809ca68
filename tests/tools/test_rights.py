"""What tools say of a call before it is made."""

from typing import Any

import pytest

from tests.tools.test_approved_tool import Desk
from tests.tools.yaml_tools.stage import GRANT, REAL, Recorder
from vegakit.policy import Grant, RunCommand, Use
from vegakit.ports import Tool
from vegakit.tools import (
    ToolArgumentsError,
    ToolFile,
    ToolRights,
    audit_level,
    function_tool,
    rights_of,
    tool,
)
from vegakit.tools.functions import ApprovedTool
from vegakit.tools.sandbox.command import ExecTool

EXEC = Grant(("process::exec",), commands=("git **",))


def plain(path: str) -> str:
    """Nobody knows what it does."""
    return path


@tool(capabilities=["fs::read", "net::get"], audit="detailed")
def declares(path: str) -> str:
    """It says what it needs."""
    return path


def test_a_plain_function_says_nothing() -> None:
    """So it may want anything."""
    assert rights_of(function_tool(plain), {}) == ToolRights()
    assert ToolRights().wanted is None


def test_a_tool_says_what_it_declared() -> None:
    """All of it: its arguments do not tell which part a call will use."""
    rights = rights_of(declares, {"path": "x"})
    assert rights.wanted == (Use("fs::read"), Use("net::get"))
    assert rights.grant.capabilities == ("fs::read", "net::get")
    assert not rights.sandboxed


@pytest.mark.parametrize(
    ("automatic", "command", "wanted"),
    [
        (False, ["git", "status"], (RunCommand(("git", "status")),)),
        (False, "git status", (RunCommand(("git", "status")),)),
        (False, ["rm", "x"], ()),
        (True, ["rm", "x"], (RunCommand(("rm", "x")),)),
        (True, "rm x; ls", ()),
    ],
)
def test_a_command_is_known_by_its_words(automatic: bool, command: Any, wanted: object) -> None:
    """One that is refused anyway wants nothing."""
    run = ExecTool(Recorder(), EXEC, owner="me", automatic=automatic)
    rights = run.rights({"command": command})
    assert (rights.wanted, rights.sandboxed) == (wanted, True)


def test_what_is_no_command_is_told() -> None:
    """As the call itself would."""
    run = ExecTool(Recorder(), EXEC, owner="me")
    with pytest.raises(ToolArgumentsError):
        run.rights({"shell": "ls"})


def test_tools_of_a_file_say_what_they_do() -> None:
    """A command by its words, a request by what it was granted."""
    found = {one.spec.name: one for one in ToolFile(REAL, GRANT, sandbox=Recorder()).load()}
    said = {name: rights_of(one, _arguments(one)) for name, one in found.items()}
    assert all(rights.wanted is not None for rights in said.values())
    assert any(rights.sandboxed for rights in said.values())


def test_what_is_put_around_a_tool_says_the_same() -> None:
    """Rights and level of audit."""
    around = ApprovedTool(declares, Desk(), Use("demo"))
    assert rights_of(around, {}) == rights_of(declares, {})
    assert audit_level(around) == audit_level(declares) == "detailed"
    assert audit_level(function_tool(plain)) == "basic"


def _arguments(one: Tool) -> dict[str, Any]:
    """Something for each that is required."""
    schema: Any = one.spec.parameters
    kinds = {"integer": 1, "number": 1.0, "boolean": True, "array": []}
    given = {
        name: kinds.get(about.get("type"), "x") for name, about in schema["properties"].items()
    }
    given |= {n: a["enum"][0] for n, a in schema["properties"].items() if "enum" in a}
    return {name: given[name] for name in schema.get("required", ())}
