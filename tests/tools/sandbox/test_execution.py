"""The tool: what it is given, what it asks the sandbox for, what the model reads."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.tools.sandbox.stage import EXEC, Refusing, boxed, refusing
from vegakit import Agent, Runtime
from vegakit.control import Question
from vegakit.errors import CapabilityDenied
from vegakit.policy import Grant
from vegakit.ports import CommandResult, Sandbox, Tool
from vegakit.providers import ScriptedModel
from vegakit.tools import ToolArgumentsError, contents_of
from vegakit.tools.sandbox.command import ExecTool


class Recording(Refusing):
    name = "recording"

    def __init__(self) -> None:
        self.asked: list[tuple[Sequence[str], str]] = []

    async def run(
        self, argv: Sequence[str], *, owner: str, said: bytes = b"", on_output: object = None
    ) -> CommandResult:
        self.asked.append((argv, owner))
        return CommandResult(3, "out\n", "err\n", 12, ("2 of 10 bytes of stdout left out",))


@pytest.mark.parametrize("command", [["pytest", "-q", "a b"], "pytest -q 'a b'"])
async def test_words_and_a_plain_line_are_one_command(command: object) -> None:
    """The sandbox gets the words that were checked."""
    sandbox: Recording = Recording()
    port: Sandbox = sandbox
    tool: Tool = ExecTool(port, Grant(("process::exec",), commands=("pytest **",)), owner="p/a")
    said = await tool.call({"command": command}, None)
    assert sandbox.asked == [(("pytest", "-q", "a b"), "p/a")]
    assert said.splitlines() == [
        *("stdout:", "<untrusted>", "out", "</untrusted>"),
        *("stderr:", "<untrusted>", "err", "</untrusted>"),
        *("2 of 10 bytes of stdout left out", "exit code 3 in 12 ms"),
    ]


@pytest.mark.parametrize(
    ("grant", "automatic"),
    [
        (Grant(), True),
        (Grant(("fs",)), True),
        (Grant(("process::exec",), denials=("process",)), True),
        (Grant(("process::exec",)), False),
        (Grant(("process::exec",), commands=("ls",)), False),
    ],
)
async def test_what_is_not_granted_is_refused(grant: Grant, automatic: bool) -> None:
    """Automatic is no grant."""
    tool = ExecTool(refusing, grant, owner="p/a", automatic=automatic)
    with pytest.raises(CapabilityDenied):
        await tool.call({"command": ["ls", "-l"]}, None)


@pytest.mark.parametrize("command", [[], [""], ["./run"], ["/bin/ls"], ["A=b", "ls"], "ls; ls"])
async def test_what_is_no_clean_command_is_refused(command: object) -> None:
    tool = ExecTool(refusing, EXEC, owner="p/a", automatic=True)
    with pytest.raises(CapabilityDenied):
        await tool.call({"command": command}, None)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"command": 1}, {"command": [1]}, {"command": ["ls"], "cwd": "/"}, {"argv": ["ls"]}],
)
async def test_other_arguments_are_wrong(arguments: dict[str, Any]) -> None:
    """The message shows how to write it."""
    tool = ExecTool(refusing, EXEC, owner="p/a", automatic=True)
    with pytest.raises(ToolArgumentsError, match="pytest"):
        await tool.call(arguments, None)


async def test_it_runs(tmp_path: Path) -> None:
    """In the workspace, for real."""
    async with boxed(tmp_path) as box:
        assert (await box.tool.call({"command": "mkdir made"}, None)).startswith("exit code 0 in ")
        assert (box.workspace / "made").is_dir()


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "build.sh"],
        ["sh", "./sub/../build.sh"],
        ["sh", "-c", "true; sh build.sh&"],
        ["make", "-fbuild.sh"],
        ["make", "--file=build.sh"],
        ["pytest", "build.sh::test"],
        ["sh", "link"],
    ],
)
async def test_an_approval_is_bound_to_what_is_named(command: list[str], tmp_path: Path) -> None:
    """Another content is another action; what is not named, or lies outside, is none of it."""
    async with boxed(tmp_path) as box:
        script = box.workspace / "build.sh"
        (box.workspace / "sub").mkdir()
        (box.workspace / "link").symlink_to("build.sh")
        (box.workspace / "outside").symlink_to("../outside/x")
        (box.outside / "x").write_text("x")
        os.mkfifo(box.workspace / "sh")
        script.write_text("echo harmless")
        first = await contents_of(box.tool, {"command": [*command, "outside", "sub"]})
        script.write_text("echo evil")
        second = await contents_of(box.tool, {"command": command})
        assert first.keys() == second.keys() == {"build.sh"}
        assert first != second


async def test_a_script_that_is_swapped_is_asked_about_again(tmp_path: Path) -> None:
    """While a person thinks."""
    call = {"calls": [{"name": "exec", "arguments": {"command": ["sh", "build.sh"]}}]}
    async with boxed(tmp_path) as box, Runtime(mode="ask") as rt:
        asked: asyncio.Queue[Question] = asyncio.Queue()
        rt.on(Question, asked.put_nowait)
        script = box.workspace / "build.sh"
        script.write_text("touch harmless")
        tool = ExecTool(box.sandbox, Grant(("process::exec",), commands=("sh *",)), owner="c")
        agent = Agent("coder", model=ScriptedModel([call, "done"]), tools=[tool])
        answer = rt.spawn(agent).send("Build it.")
        question = await asked.get()
        script.write_text("touch evil")
        await rt.answer(question.id, True)
        again = await asyncio.wait_for(asked.get(), 30)
        await rt.answer(again.id, False)
        await answer
        assert [path.name for path in box.workspace.iterdir()] == ["build.sh"]
