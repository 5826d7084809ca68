"""What programs and their tools may do, and what lies outside of their project."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.compiled.test_bridge import written
from vegakit.errors import CapabilityDenied, UserError
from vegakit.providers import ScriptedModel
from vegakit.sdk import ProgramRefused, Runtime

READ = 'return file::read("a.txt");'
CALL = {"calls": [{"name": "peek", "arguments": {}}]}
AGENT = """
agent A {{ model m tool peek() -> str "Peek." {clause} {{ {body} }} }}
fn help() -> str may [fs::read, fs::write] {{ {read} }}
fn main() -> str {{ return A <- "x"; }}
"""


async def ran(folder: Path, text: str, allow: Any = None) -> str:
    (folder / "a.txt").write_text("secret")
    async with Runtime() as rt:
        return await rt.run(rt.load(written(folder, text)), allow=allow)


async def seen(folder: Path, clause: str, body: str) -> str:
    """What a model sees of the tool `peek`."""
    (folder / "a.txt").write_text("secret")
    model = ScriptedModel([CALL, "done"])
    text = AGENT.format(clause=clause, body=body, read=READ)
    async with Runtime(models=lambda _: model) as rt:
        await rt.load(written(folder, text)).main()
    return str(model.requests[1])


@pytest.mark.parametrize(
    "text",
    [
        "fn main() -> str { %s }",
        "fn main() -> str { return deep(); } fn deep() -> str { %s }",
        "fn main() -> str may [fs::write] { %s }",
        "program may [net::get] fn main() -> str { %s }",
    ],
)
def test_a_function_without_the_right_is_refused(tmp_path: Path, text: str) -> None:
    """A helper has no more than it is given."""
    with pytest.raises(ProgramRefused, match="needs the capability fs::read"):
        Runtime().load(written(tmp_path, text % READ))


async def test_who_runs_it_takes_rights_away(tmp_path: Path) -> None:
    """Also those of functions that are called further down."""
    text = f"fn main() -> str {{ return deep(); }} fn deep() -> str may [fs::read] {{ {READ} }}"
    assert await ran(tmp_path, text, ["fs::read"]) == "secret"
    with pytest.raises(CapabilityDenied):
        await ran(tmp_path, text, ["fs::write"])


@pytest.mark.parametrize("clause", ["", "capabilities [fs::write]"])
async def test_a_tool_without_the_right_is_denied(tmp_path: Path, clause: str) -> None:
    """Through a helper that has it, too: the model sees the refusal and not the file."""
    said = await seen(tmp_path, clause, "return help();")
    assert "CapabilityDenied" in said
    assert "secret" not in said


async def test_a_tool_keeps_to_its_paths_in_what_it_calls(tmp_path: Path) -> None:
    """The paths of the tool hold, not those of the helper."""
    clause = 'capabilities [fs::read] allowed_paths ["src/**"]'
    assert "secret" not in await seen(tmp_path, clause, "return help();")
    clause = 'capabilities [fs::read] allowed_paths ["*.txt"]'
    assert "secret" in await seen(tmp_path, clause, "return help();")


@pytest.mark.parametrize(
    "path", ["../x.vega", "/etc/x.vega", "lib/../../x.vega", "a\\\\..\\\\x.vega"]
)
def test_nothing_outside_is_used(tmp_path: Path, path: str) -> None:
    """Whatever the path is spelled like."""
    (tmp_path / "x.vega").write_text("fn f() {}")
    home = tmp_path / "project"
    home.mkdir()
    with pytest.raises(ProgramRefused) as refused:
        Runtime().load(written(home, f'use "{path}" as x\nx::f();'))
    assert refused.value.diagnostics[0].code == "bad-import"


def test_a_link_that_leads_outside_is_not_followed(tmp_path: Path) -> None:
    """For files and for folders; inside the project links are."""
    (tmp_path / "x.vega").write_text("fn f() {}")
    home = tmp_path / "project"
    (home / "lib").mkdir(parents=True)
    (home / "vega.toml").touch()
    (home / "lib/y.vega").write_text("fn f() {}")
    for name, target in (("x", tmp_path / "x.vega"), ("y", home / "lib/y.vega")):
        (home / f"{name}.vega").symlink_to(target)
    (home / "up").symlink_to(tmp_path)
    Runtime().load(written(home, 'use "y.vega"\ny::f();'))
    for path in ("x.vega", "up/x.vega"):
        with pytest.raises(ProgramRefused) as refused:
            Runtime().load(written(home, f'use "{path}" as x\nx::f();'))
        assert [one.code for one in refused.value.diagnostics] == ["file-not-found"]


def test_files_that_use_each_other_in_a_circle(tmp_path: Path) -> None:
    """The circle is shown."""
    (tmp_path / "a.vega").write_text('use "b.vega"\nfn f() { b::f(); }')
    (tmp_path / "b.vega").write_text('use "a.vega"\nfn f() { a::f(); }')
    with pytest.raises(ProgramRefused, match=r"a\.vega -> b\.vega -> a\.vega"):
        Runtime().load(written(tmp_path, 'use "a.vega"\na::f();'))


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    """A sparse one of a terabyte neither."""
    with (tmp_path / "x.vega").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UserError, match="a program has at most 1,048,576"):
        Runtime().load(written(tmp_path, 'use "x.vega"'))


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    """It would never end."""
    os.mkfifo(tmp_path / "x.vega")
    with pytest.raises(ProgramRefused, match="there is no file"):
        Runtime().load(written(tmp_path, 'use "x.vega"'))
