"""MCP servers and files of tools in programs, with real servers and the real sandbox."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.config.house import House
from tests.runtime.compiled.test_bridge import written
from tests.tools.mcp.stage import COMMAND, furnished
from tests.tools.yaml_tools.stage import ECHO
from vegakit.control import Question
from vegakit.errors import CapabilityDenied, UserError
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime

WORDS = ", ".join(f'"{word}"' for word in COMMAND)
TOML = f"""
[mcp.plain]
command = [{WORDS}]
folder = "home"
capabilities = ["fs::read"]
timeout = "5s"
"""
USE = 'use mcp "plain"\n'
REVIEW = Path(__file__).parents[2] / "lang" / "data" / "review.vega"


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    house = House(tmp_path)
    furnished(house.project)
    house.write(TOML)
    house.trust()
    monkeypatch.chdir(house.project)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(house.home))
    return house


async def ran(house: House, text: str, model: Any = None, *, accept: bool = True) -> Any:
    async with Runtime(models=lambda _: model, pins=house.project / "pins.json") as rt:
        if accept:
            await rt.mcp.tools("plain", accept=True)
        return await rt.load(written(house.project, text)).main()


async def test_a_program_calls_a_tool_of_a_server(house: House) -> None:
    """With named arguments, as the server names them."""
    text = USE + 'fn main() -> str { return plain.echo(word: "hi", times: 2) as str; }'
    assert await ran(house, text) == "['echo', {'word': 'hi', 'times': 2}]"


async def test_another_name_for_a_server(house: House) -> None:
    """`as` is the program's own."""
    text = 'use mcp "plain" as p fn main() -> str { return p.echo(a: 1) as str; }'
    assert await ran(house, text) == "['echo', {'a': 1}]"


async def test_a_server_that_dies_can_be_caught(house: House) -> None:
    """It is a tool that failed."""
    text = (
        USE
        + 'fn main() -> str { try { plain.die(); } catch ToolFailed(w) { return w; } return ""; }'
    )
    assert "plain" in await ran(house, text)


async def test_an_agent_has_the_tools_of_a_server(house: House) -> None:
    """Under the names that models know."""
    text = USE + 'agent A { model m tools [mcp "plain"] } fn main() -> str { return A <- "go"; }'
    call = {"calls": [{"name": "plain__echo", "arguments": {"word": "hi"}}]}
    model = ScriptedModel([call, "done"])
    assert await ran(house, text, model) == "done"
    assert "{'word': 'hi'}" in str(model.requests[1])


async def test_a_server_that_is_not_described_is_refused_before_it_runs(house: House) -> None:
    """With what to write; nothing was printed or sent."""
    text = 'use mcp "github" agent A { model m } fn main() { A <- "x"; github.create_issue("a"); }'
    model = ScriptedModel("never")
    with pytest.raises(UserError, match=r"no MCP server \'github\'.*\[mcp.github\] with command"):
        await ran(house, text, model)
    assert not model.requests


async def test_what_nobody_accepted_is_refused(house: House) -> None:
    """A server's tools are pinned, here as elsewhere."""
    model = ScriptedModel("never")
    text = USE + 'agent A { model m } fn main() { A <- "x"; plain.echo("a"); }'
    with pytest.raises(UserError, match="vega mcp accept plain"):
        await ran(house, text, model, accept=False)
    assert not model.requests


async def test_a_tool_that_the_server_has_not(house: House) -> None:
    """It is told before the program runs, with those it has."""
    with pytest.raises(UserError, match="calls ecko of the MCP server plain; accepted of it are: "):
        await ran(house, USE + "fn main() { plain.ecko(); }")


YAML = """{header}
agent A {{ model m tools [yaml "tools.yaml"] }}
fn main() -> str {{ return A <- "go"; }}
"""
MAY = 'program may [process::exec] allowed_commands ["echo **"]'
SAY = {"calls": [{"name": "say", "arguments": {"word": "hello"}}]}


async def test_an_agent_has_the_tools_of_a_file(house: House) -> None:
    """They run in the runtime's sandbox."""
    (house.project / "tools.yaml").write_text(ECHO)
    model = ScriptedModel([SAY, "done"])
    assert await ran(house, YAML.format(header=MAY), model) == "done"
    assert "stdout:\\n<untrusted>\\nhello" in str(model.requests[1])


async def test_tools_of_a_file_may_no_more_than_the_program(house: House) -> None:
    """The file alone gives no rights."""
    (house.project / "tools.yaml").write_text(ECHO)
    model = ScriptedModel([SAY, "done"])
    with pytest.raises((UserError, CapabilityDenied), match="process::exec"):
        await ran(house, YAML.format(header=""), model)
    assert not model.requests


async def test_a_file_of_tools_outside_the_project(house: House) -> None:
    """Nothing outside is read."""
    with pytest.raises(UserError, match="leads out of the project"):
        await ran(house, YAML.format(header=MAY).replace("tools.yaml", "../tools.yaml"))


async def test_the_program_of_the_language_document_runs_as_written(house: House) -> None:
    """Findings that nobody refutes become issues, once a person said yes."""
    house.write(TOML.replace("mcp.plain", "mcp.github"))
    house.trust()
    properties = {"file": {"type": "string"}, "note": {"type": ["string", "null"]}}
    schema = {"type": "object", "properties": properties}
    tool = {"name": "create_issue", "description": "Open it.", "inputSchema": schema}
    (house.project / "home" / "tools.json").write_text(json.dumps([tool]))
    found = {"items": [{"file": "a.py", "severity": "high", "note": n} for n in ("one", "two")]}
    model = ScriptedModel(
        {
            "Find bugs": {"output": found},
            '"one"': {"output": {"result": False}},
            '"two"': {"output": {"result": True}},
        }
    )
    async with Runtime(models=lambda _: model, pins=house.project / "pins.json") as rt:
        await rt.mcp.tools("github", accept=True)
        rt.on(Question, lambda asked: asyncio.ensure_future(rt.answer(asked.id, answer=True)))
        calls: list[str] = []
        rt.on(Question, lambda asked: calls.append(asked.text))
        real = await rt.load(written(house.project, REVIEW.read_text())).main(["a.py"])
    assert [finding["note"] for finding in real] == ["one"]
    assert calls == ["Open 1 issues?"]
