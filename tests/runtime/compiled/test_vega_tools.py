"""Tools written in Vega: what a model reads of them, and how their functions are called."""

from pathlib import Path

import pytest

from tests.runtime.compiled.test_bridge import written
from vegakit.cli import main
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime

READER = """
agent Reader {
  model m
  tool read_it() -> str "Read it." capabilities [fs::read] { return file::read("a.txt"); }
}
fn main() -> str { return Reader <- "Read."; }
"""
CALL = {"calls": [{"name": "read_it", "arguments": {}}]}


async def test_a_model_sees_escapes_as_text(tmp_path: Path) -> None:
    """A file cannot drive a terminal, hide text or forge lines through a tool."""
    (tmp_path / "a.txt").write_text("red \x1b[31m and \u202e back, \U000e0041 tag")
    model = ScriptedModel([CALL, "done"])
    async with Runtime(models=lambda _: model) as rt:
        await rt.load(written(tmp_path, READER)).main()
    assert r"red \\x1b[31m and \\u202e back, \\U000e0041 tag" in str(model.requests[1])


async def test_what_a_tool_fails_with_is_harmless_too(tmp_path: Path) -> None:
    """A reason may hold what was read."""
    (tmp_path / "a.txt").write_text("\x1b[2J")
    text = READER.replace("return file::read", "fail(file::read").replace('"a.txt");', '"a.txt"));')
    model = ScriptedModel([CALL, "done"])
    async with Runtime(models=lambda _: model) as rt:
        await rt.load(written(tmp_path, text)).main()
    assert r"Failed: \\x1b[2J" in str(model.requests[1])


async def test_a_program_itself_reads_the_file_as_it_is(tmp_path: Path) -> None:
    """Only what is said to a model is changed."""
    (tmp_path / "a.txt").write_text("\x1b[31m")
    text = 'fn main() -> str may [fs::read] { return file::read("a.txt"); }'
    async with Runtime() as rt:
        assert await rt.load(written(tmp_path, text)).main() == "\x1b[31m"


def test_run_says_what_the_parameters_are_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the program names them."""
    path = written(tmp_path, "fn main(paths: [str], depth: int) { print(paths); }")
    assert main(["run", str(path)]) == 1
    said = capsys.readouterr().err
    assert f"try: vega run {path} <paths> <depth>" in said
