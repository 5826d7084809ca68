"""Functions that need not be trusted, and commands that functions run."""

import socket
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from tests.tools.sandbox import isolated_functions as functions
from tests.tools.sandbox.stage import git, tree_of
from vegakit.errors import CapabilityDenied, ToolFailed, UserError
from vegakit.host import Agent
from vegakit.policy import Grant
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.tools import FunctionTool, ToolArgumentsError, ToolContext, current_sandboxes, tool
from vegakit.tools.decorator import IsolatedTool
from vegakit.tools.sandbox import bubblewrap


async def called(made: FunctionTool, **arguments: object) -> str:
    """As a runtime would, but what it raises is raised."""
    async with Runtime() as rt:
        before = current_sandboxes.set(rt.sandboxes)
        try:
            return await made.call(arguments, None)
        finally:
            current_sandboxes.reset(before)


def at(made: FunctionTool, root: Path, grant: Grant) -> FunctionTool:
    """The same function with another root and other rights."""
    moved = copy(made)
    assert isinstance(moved, IsolatedTool)
    moved._root, moved._grant = root, grant
    return moved


async def test_arguments_go_in_and_the_result_comes_out() -> None:
    """What it prints is not its answer."""
    assert await called(functions.add, a=1, when="2026-01-31") == "2 2027"


async def test_it_sees_nothing_that_it_was_not_granted() -> None:
    """Three variables, an empty folder, no file of anybody."""
    assert await called(functions.look) == '["HOME","LANG","PATH","PWD"]'


async def test_wrong_arguments_start_nothing() -> None:
    with pytest.raises(ToolArgumentsError, match="when"):
        await called(functions.add, a=1, when="never")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (functions.fail, "ValueError: this is wrong"),
        (functions.vanish, "exit code 7: last words"),
        (functions.hang, "ran longer than 1000 ms"),
        (functions.pick, "only when a Runtime calls it"),
    ],
)
async def test_a_failure_is_told(made: FunctionTool, said: str) -> None:
    """Whatever it does to itself."""
    with pytest.raises(ToolFailed, match=said):
        await called(made)


@pytest.mark.parametrize("answer", ["[" * 5_000, '{"result": {}}', "[]", '{"error": []}', "}"])
async def test_what_answers_in_its_stead_is_read_with_care(answer: str) -> None:
    """What is no answer is a failure."""
    with pytest.raises(ToolFailed, match="exit code 0"):
        await called(functions.lie, answer=answer)


async def test_a_long_answer_comes_whole() -> None:
    assert await called(functions.shout) == "x" * 1_000_000


async def test_it_reaches_nobody() -> None:
    """Not even a server on this machine, which the same function reaches outside."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert functions.reach._function(port) == "reached"
        with pytest.raises(ToolFailed, match=r"refused|unreachable"):
            await called(functions.reach, port=port)


@pytest.mark.parametrize(
    ("capabilities", "inside"), [((), False), (("fs::read",), False), (("fs",), True)]
)
async def test_it_writes_where_it_may(
    capabilities: tuple[str, ...], inside: bool, tmp_path: Path
) -> None:
    """In its root if it was granted to write, and never beside it."""
    root = tmp_path / "root"
    root.mkdir()
    write = at(functions.write, root, Grant(capabilities, paths=("**",)))
    for path in (root / "made", root.parent / "PWNED", root / ".git"):
        with suppress(ToolFailed):
            await called(write, path=str(path))
    assert tree_of(tmp_path) == ({"root/made": b"PWNED"} if inside else {})


async def test_its_handle_is_confined_too(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text("granted")
    (tmp_path / "c").write_text("not granted")
    files = at(functions.files, tmp_path, Grant(("fs::read",), paths=("a/*",)))
    assert await called(files, path="a/b") == "granted"
    with pytest.raises(ToolFailed, match="CapabilityDenied"):
        await called(files, path="c")


def _local() -> Callable[..., Any]:
    def local() -> None:
        """Nobody else can import this."""

    return local


def _scripted() -> Callable[..., Any]:
    def f() -> None:
        """It stands in a script."""

    f.__module__, f.__qualname__ = "__main__", "f"
    return f


@pytest.mark.parametrize("function", [_local(), _scripted(), lambda: None])
def test_what_cannot_be_imported_is_refused(function: Callable[..., Any]) -> None:
    """When it is declared, with what to do."""
    with pytest.raises(UserError, match="top level of a module"):
        tool(isolated=True)(function)


async def test_without_a_runtime_nothing_runs() -> None:
    with pytest.raises(UserError, match="only when a Runtime calls it"):
        await functions.look.call({}, None)


def test_an_unknown_sandbox_is_refused_when_it_is_named() -> None:
    with pytest.raises(UserError, match="auto, bubblewrap, seatbelt, container"):
        Runtime(sandbox="none")


async def test_without_a_sandbox_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a function nor a command; the message says what to install."""
    monkeypatch.setattr(bubblewrap, "_PROGRAMS", str(tmp_path))
    with pytest.raises(UserError, match="apt-get install bubblewrap"):
        await called(functions.look)
    with pytest.raises(UserError, match="apt-get install bubblewrap"):
        await called(runner(tmp_path), command="touch x")
    assert tree_of(tmp_path) == {}


def runner(root: Path, *rules: str) -> FunctionTool:
    @tool(capabilities=["process::exec"], allowed_commands=rules or ["touch **"], root=root)
    async def run(ctx: ToolContext, command: str | list[str]) -> str:
        """Run it."""
        ran = await ctx.exec(command)
        return f"{ran.exit_code} {ran.stdout}{ran.stderr}"

    return run


@pytest.mark.parametrize("command", ["touch made", ["touch", "made"]])
async def test_a_function_runs_a_command(command: str | list[str], tmp_path: Path) -> None:
    """In its root."""
    assert await called(runner(tmp_path), command=command) == "0 "
    assert tree_of(tmp_path) == {"made": b""}


@pytest.mark.parametrize("command", ["rm x", ["rm", "x"], "touch a; rm b", "touch $(id)", "", []])
async def test_it_runs_no_other_command(command: str | list[str], tmp_path: Path) -> None:
    """Nor anything that only a shell would read."""
    with pytest.raises(CapabilityDenied):
        await called(runner(tmp_path), command=command)


async def test_its_command_is_in_the_sandbox(tmp_path: Path) -> None:
    """What a rule allows can still do no harm outside."""
    root = tmp_path / "root"
    root.mkdir()
    git(root, "init", "-q")
    before = tree_of(tmp_path)
    aims = f"{tmp_path}/PWNED .git/PWNED"
    said = await called(runner(root, "sh -c *"), command=["sh", "-c", f"touch {aims}"])
    assert said.startswith("1 ")
    assert tree_of(tmp_path) == before


async def test_a_runtime_gives_its_tools_a_sandbox(tmp_path: Path) -> None:
    """In an ask, and in a process."""
    script = [{"calls": [{"name": "run", "arguments": {"command": "touch made"}}]}, "done"]
    async with Runtime() as rt:
        for start in (rt.ask, lambda agent, prompt: rt.spawn(agent).ask(prompt)):
            agent = Agent("a", model=ScriptedModel(script), tools=[runner(tmp_path)])
            await start(agent, "go")
            (tmp_path / "made").unlink()
