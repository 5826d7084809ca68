"""No tool can be taken for another, and none hides what it is."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.tools.mcp.stage import staged
from vegakit.errors import LimitReached, UserError
from vegakit.host import Agent
from vegakit.records import Json
from vegakit.tools import FunctionTool, McpServer
from vegakit.tools.mcp.pins import shown_schema, tool_list_of


def left_out(name: str, description: str = "", schema: Any = None) -> str:
    """Why, or nothing."""
    tool_list = tool_list_of("plain", [(name, description, schema or {"type": "object"})])
    return "".join(why for _, why in tool_list.left_out)


@pytest.mark.parametrize("name", ["read", "read.file", "Read-File_2", "a" * 57])
def test_plain_names_are_offered(name: str) -> None:
    """As the protocol allows them."""
    assert left_out(name) == ""


@pytest.mark.parametrize(
    "name",
    ["bash\u200b", "b\u0430sh", "\uff42ash", "bash\n", "ba sh", "", "a" * 58, "../x", "x\x1b[8m"],
)
def test_other_names_are_not(name: str) -> None:
    """Letters that cannot be seen, that look like others, or that no provider takes."""
    assert left_out(name)


@pytest.mark.parametrize(("one", "other"), [("read.file", "read_file"), ("Read", "read")])
def test_names_that_read_the_same_are_both_left_out(one: str, other: str) -> None:
    """Nobody can tell which was meant."""
    tool_list = tool_list_of("plain", [(one, "", {}), (other, "", {})])
    assert tool_list.tools == ()
    assert len(tool_list.left_out) == 2


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"pa\u200bth": {}}},
        {"enum": ["yes\u202e"]},
        {"properties": {"a": {"default": "\x1b]52;c;x\x07"}}},
        {"maximum": math.nan},
        {"description": "x" * 40_000},
    ],
)
def test_a_schema_that_cannot_be_shown_as_it_is(schema: Any) -> None:
    """Its tool is left out."""
    assert left_out("read", schema=schema)


def test_words_of_a_schema_are_made_harmless() -> None:
    """Descriptions are read, not compared."""
    schema: Json = {"properties": {"a": {"description": "x\u202ey", "title": "t\x00"}}}
    assert left_out("read", schema=schema) == ""
    assert shown_schema(schema) == {
        "properties": {"a": {"description": "x\\u202ey", "title": "t\\x00"}}
    }


def test_too_many_tools() -> None:
    """None is offered."""
    with pytest.raises(LimitReached, match="offers 129 tools"):
        tool_list_of("plain", [(f"t{number}", "", {}) for number in range(129)])


@pytest.mark.parametrize("name", ["Plain", "pla_in", "plain__x", "", "1st", "pläin", "a" * 32])
def test_servers_have_plain_names(name: str) -> None:
    """Which are the beginning of what a model reads."""
    with pytest.raises(UserError, match="cannot name an MCP server"):
        McpServer(name=name, url="https://example.com/mcp")


async def test_two_servers_with_the_same_tool_are_told_apart(tmp_path: Path) -> None:
    """By the name of the server."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with (
        staged(tmp_path / "one", name="one", only=["echo"]) as one,
        staged(tmp_path / "two", name="two", only=["echo"]) as two,
    ):
        tools = [*(await one.tools()).values(), *(await two.tools()).values()]
        assert list(Agent("a", tools=tools).tools_by_name) == ["one__echo", "two__echo"]


@pytest.mark.parametrize("name", ["one__echo", "One__Echo", "one__ech\uff4f", "one-_echo"])
async def test_no_other_tool_takes_its_name(name: str, tmp_path: Path) -> None:
    """Nor one that reads the same."""

    def other() -> str:
        return ""

    async with staged(tmp_path, name="one", only=["echo"]) as stage:
        (tool,) = (await stage.tools()).values()
    with pytest.raises(UserError, match="for each other"):
        _ = Agent("a", tools=[tool, FunctionTool(other, name=name)]).tools_by_name
