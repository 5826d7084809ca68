import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.tools.confined.server import Server, reply
from tests.tools.yaml_tools.stage import ECHO, GRANT, REAL, Recorder, written
from vegakit.errors import CapabilityDenied
from vegakit.policy import Grant
from vegakit.ports import Tool
from vegakit.tools import ToolArgumentsError, ToolFile
from vegakit.tools.tool_files import ToolFileError
from vegakit.tools.tool_tables import KINDS, ToolFileTable

OFFERED = "tests.tools.yaml_tools.functions_offered"
SCHEMA = REAL.parents[2] / "docs/reference/tools.schema.json"


def real() -> tuple[dict[str, Tool], Recorder]:
    sandbox = Recorder()
    found = ToolFile(REAL, GRANT, sandbox=sandbox, owner="me").load()
    return {tool.spec.name: tool for tool in found}, sandbox


def call(tool: Tool, **arguments: Any) -> str:
    async def called() -> str:
        return await tool.call(arguments, None)

    return asyncio.run(called())


def test_the_model_is_told_what_the_file_says() -> None:
    tools, _ = real()
    search = tools["search_code"]
    assert search.spec.description == "Find a text in the sources."
    assert search.spec.parameters == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "what to look for", "maxLength": 200},
            "paths": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": 10,
                "default": ["src"],
            },
            "most": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
        },
        "required": ["text"],
        "additionalProperties": False,
    }
    assert (search.idempotent, search.timeout_ms) == (True, 20_000)
    assert (tools["add_note"].idempotent, tools["add_note"].timeout_ms) == (False, 60_000)


def test_a_value_is_one_word_whatever_it_holds() -> None:
    tools, sandbox = real()
    said = call(tools["search_code"], text="a'; rm -rf / #$(id) {paths}", paths=["x y", "z"])
    regexp = "--regexp=a'; rm -rf / #$(id) {paths}"
    assert sandbox.ran == [("grep", "-rn", "--max-count=50", regexp, "--", "x y", "z")]
    assert said.startswith("stdout:\n<untrusted>\nme\n</untrusted>")


@pytest.mark.parametrize(
    "value", ["-f", "--help", "+x", "@list", "A=b", "", "a\nb", "a\0b", "\u202e"]
)
def test_a_value_that_begins_a_word_is_no_option(value: str, tmp_path: Path) -> None:
    sandbox = Recorder()
    (say,) = written(tmp_path, ECHO, sandbox=sandbox).load()
    with pytest.raises(CapabilityDenied, match="is no plain argument"):
        call(say, word=value)
    assert sandbox.ran == []


def test_a_command_stays_within_the_grant_of_the_file(tmp_path: Path) -> None:
    sandbox = Recorder()
    only_hello = Grant(("process::exec",), commands=("echo hello",))
    (say,) = written(tmp_path, ECHO, grant=only_hello, sandbox=sandbox).load()
    call(say, word="hello")
    with pytest.raises(CapabilityDenied, match="command 'echo bye' was asked"):
        call(say, word="bye")
    assert sandbox.ran == [("echo", "hello")]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"text": 1},
        {"text": "a", "more": 1},
        {"text": "a" * 201},
        {"text": "\ud800"},
        {"text": "a", "most": 0},
        {"text": "a", "most": 501},
        {"text": "a", "most": True},
        {"text": "a", "most": "5"},
        {"text": "a", "most": float("nan")},
        {"text": "a", "paths": ["x"] * 11},
        {"text": "a", "paths": "x"},
        {"text": "a", "paths": [1]},
        {"text": object()},
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any]) -> None:
    tools, sandbox = real()
    with pytest.raises(ToolArgumentsError, match="the arguments of search_code are wrong"):
        call(tools["search_code"], **arguments)
    assert sandbox.ran == []


HTTP = """\
tools:
  - name: get
    description: Get it.
    parameters: {{item: {{type: string}}, q: {{type: string, enum: [a b, c]}}}}
    http: {{url: "{base}items/{{item}}/x?q={{q}}"}}
    capabilities: ["net::get"]
  - name: put
    description: Put it.
    parameters:
      item: {{type: integer}}
      urgent: {{type: boolean, default: false}}
      words: {{type: array, items: {{type: string}}}}
    http: {{method: PUT, url: "{base}items/{{item}}"}}
    capabilities: ["net::post"]
"""


async def asked(folder: Path, which: int, arguments: dict[str, Any]) -> tuple[str, str]:
    async with Server(reply(b"hello", "404 Not Found")) as server:
        file = written(folder, HTTP.format(base=server.url()), grant=server.grant())
        said = await file.load()[which].call(arguments, None)
        return said, server.heads[0]


def test_a_value_cannot_leave_its_place_in_a_url(tmp_path: Path) -> None:
    said, head = asyncio.run(asked(tmp_path, 0, {"item": "../a?b#c&d%2f@e é", "q": "a b"}))
    assert head.splitlines()[0] == (
        "GET /items/..%2Fa%3Fb%23c%26d%252f%40e%20%C3%A9/x?q=a%20b HTTP/1.1"
    )
    assert said == "HTTP 404\nhello"


@pytest.mark.parametrize("item", ["", ".", ".."])
def test_a_value_that_would_name_another_path_is_refused(item: str, tmp_path: Path) -> None:
    with pytest.raises(ToolArgumentsError, match="would name another path"):
        asyncio.run(asked(tmp_path, 0, {"item": item, "q": "c"}))


def test_what_the_url_does_not_use_is_sent_as_json(tmp_path: Path) -> None:
    _, head = asyncio.run(asked(tmp_path, 1, {"item": 7, "words": ["a"]}))
    assert head.startswith("PUT /items/7 HTTP/1.1")
    assert "Content-Type: application/json" in head
    body = '{"urgent":false,"words":["a"]}'
    assert f"Content-Length: {len(body)}\r\n" in head


PYTHON = """\
tools:
  - name: sum_up
    description: Described in the file.
    python: {module}:{function}
    capabilities: ["fs::read"]
    allowed_paths: ["open/*"]
"""


def python(folder: Path, function: str) -> Tool:
    text = PYTHON.format(module=OFFERED, function=function)
    (tool,) = written(folder, text, modules=[OFFERED], root=folder).load()
    return tool


def test_a_function_is_a_tool_with_the_schema_of_its_hints(tmp_path: Path) -> None:
    tool = python(tmp_path, "add")
    assert (tool.spec.name, tool.spec.description) == ("sum_up", "Described in the file.")
    assert [*tool.spec.parameters["properties"]] == ["a", "b"]
    assert call(tool, a=1, b=2) == "3"


def test_a_function_holds_handles_of_its_own_rights(tmp_path: Path) -> None:
    for folder in ("open", "shut"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_text(folder)
    tool = python(tmp_path, "read")
    assert call(tool, path="open/a") == "open"
    with pytest.raises(CapabilityDenied):
        call(tool, path="shut/a")


@pytest.mark.parametrize("function", ["kill", "run", "_hidden", "ToolContext", "aad"])
def test_only_a_module_s_own_public_functions_are_offered(function: str, tmp_path: Path) -> None:
    with pytest.raises(ToolFileError, match=f"has no function {function}; "):
        python(tmp_path, function)


def test_the_published_schema_is_made_from_the_tables() -> None:
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tools.yaml",
    }
    schema |= json.loads(msgspec.json.encode(msgspec.json.schema(ToolFileTable)))
    schema["$defs"]["ToolTable"]["oneOf"] = [{"required": [kind]} for kind in KINDS]
    schema |= {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "tools.yaml"}
    assert json.loads(SCHEMA.read_text()) == schema


def test_reader_is_imported_only_when_used() -> None:
    code = "import sys, vegakit.tools.tool_files; print('ruamel.yaml' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
