"""A file with Python that stays Python is loaded after its user trusts it, and not before."""

from importlib import import_module
from pathlib import Path

import pytest

from vegakit.cli import COMMANDS
from vegakit.cli.compiler import check_loading
from vegakit.config import trust_folder
from vegakit.errors import SettingsError, UserError
from vegakit.sdk import interop_at, names_at, tools_at

HEAD = "from vegakit import Agent, MaxLen, program\nfrom vegakit.tools import ToolContext, tool\n"
TOOL = '@tool(capabilities=[])\nasync def f(ctx: ToolContext, x: str) -> str:\n    """F."""\n'
BODY = "    return x\n"
MAIN = '\n\n@program(budget="$1.00")\ndef main() -> int:\n    return 1\n'
TOUCHES = "__import__('os').mkdir('OWNED')"

RUNS = {
    "decorator": TOOL.replace("[]", f"[] if {TOUCHES} else []") + BODY,
    "default": TOOL.replace("x: str", f"x: str = str({TOUCHES})") + BODY,
    "annotation": TOOL.replace("-> str", f"-> [str, {TOUCHES}][0]") + BODY,
    "text of an annotation": TOOL.replace("x: str", f'x: "str if not {TOUCHES} else str"') + BODY,
    "text of **more": TOOL.replace("x: str", f'x: str, **more: "{TOUCHES}"') + BODY,
    "not main": f"if __name__ != '':\n    {TOUCHES}\n" + TOOL + BODY,
    "beside": "import helper\n" + TOOL + BODY,
    "own decorator": f"def d(f):\n    {TOUCHES}\n    return f\n@d\ndef g(): ...\n{TOOL}{BODY}",
    "subclass": f"class A:\n    def __init_subclass__(cls):\n        {TOUCHES}\n"
    f"class B(A):\n    pass\n{TOOL}{BODY}",
    "nothing": TOOL + BODY,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("VEGA_TRUSTED_FOLDERS")
    monkeypatch.setenv("VEGA_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def vega(command: str, *words: str) -> int:
    return getattr(import_module(COMMANDS[command][0]), f"{command}_command")(list(words))


def touching(folder: Path, name: str) -> Path:
    path = folder / "p.py"
    path.write_text(HEAD + RUNS[name] + MAIN + "    # expect: 1\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("load", [interop_at, tools_at, names_at])
def test_no_shape_makes_trust_unnecessary(load: object, name: str, folder: Path) -> None:
    """A file that only declares needs it, too."""
    assert callable(load)
    with pytest.raises(SettingsError, match=r"p\.py is not loaded: you have not trusted"):
        load(touching(folder, name), check_loading)
    assert not (folder / "OWNED").exists()


def test_a_program_without_python_needs_no_trust(folder: Path) -> None:
    """It is not loaded: code that only Python would run does not run."""
    path = folder / "p.py"
    path.write_text(f'{HEAD}if __name__ == "__main__":\n    {TOUCHES}\n{MAIN}', encoding="utf-8")
    assert vega("run", "p.py", "--no-journal") == 0
    assert interop_at(path, check_loading) is not None
    assert not (folder / "OWNED").exists()


@pytest.mark.parametrize("name", ["decorator", "not main"])
def test_it_needs_trust_before_its_first_run(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of it ran when `run` and `test` refuse; with trust, it is a program like another."""
    path = touching(folder, name)
    with pytest.raises(SettingsError, match=r"type: vega trust .*--trust"):
        vega("run", "p.py", "--no-journal")
    assert vega("test", "p.py") == 1
    assert "vega trust" in capsys.readouterr().out
    assert not (folder / "OWNED").exists()
    trust_folder(folder, {})
    assert vega("run", "p.py", "--no-journal") == 0
    assert (folder / "OWNED").exists()
    (folder / "OWNED").rmdir()
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert vega("run", "p.py", "--no-journal") == 0


def test_trust_is_in_a_folder(folder: Path) -> None:
    """Whatever the ends of lines; a file elsewhere that is a link to one in it is not in it."""
    lines = (HEAD + TOOL + BODY + MAIN).encode().replace(b"\n", b"\r\n")
    inner = folder / "inner"
    inner.mkdir()
    (inner / "p.py").write_bytes(lines)
    (folder / "q.py").symlink_to(inner / "p.py")
    trust_folder(inner, {})
    assert [tool.spec.name for tool in tools_at(inner / "p.py", check_loading)] == ["f"]
    with pytest.raises(SettingsError, match=r"q\.py is not loaded: you have not trusted"):
        tools_at(folder / "q.py", check_loading)


def test_it_can_be_trusted_for_one_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touching(folder, "decorator")
    monkeypatch.setenv("VEGA_TRUSTED_FOLDERS", "")
    assert vega("run", "p.py", "--no-journal", "--trust") == 0
    assert (folder / "OWNED").exists()
    monkeypatch.setenv("VEGA_TRUSTED_FOLDERS", "")
    with pytest.raises(SettingsError):
        vega("run", "p.py", "--no-journal")


@pytest.mark.parametrize("command", ["explain", "check"])
def test_that_the_python_is_not_known_is_said(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands that run nothing name the functions, and claim nothing about them."""
    touching(folder, "default")
    assert vega(command, "p.py") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "p.py keeps Python: f Vega cannot know what this Python does" in said
    assert f"need your trust in its folder: vega trust {folder}" in said
    assert "touches nothing" not in said
    assert not (folder / "OWNED").exists()


def test_what_is_checked_is_what_runs(folder: Path) -> None:
    """A file that names an encoding reads the same to Python: as UTF-8."""
    hidden = "# coding: utf-7\n" + HEAD + TOOL + BODY + "# +AAo-open('OWNED', 'w')\n" + MAIN
    (folder / "p.py").write_text(hidden, encoding="utf-8")
    trust_folder(folder, {})
    assert vega("run", "p.py", "--no-journal") == 0
    assert not (folder / "OWNED").exists()


@pytest.mark.parametrize("file", ["none.py", "tools.txt", "latin.py", "bad.py"])
def test_what_is_no_file_of_python_is_an_error(file: str, folder: Path) -> None:
    """Each says what to do."""
    (folder / "tools.txt").write_text(TOOL + BODY, encoding="utf-8")
    (folder / "latin.py").write_bytes(b"# \xe9\n")
    (folder / "bad.py").write_text("def x(:\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"\.py.*; (give|save|correct)"):
        tools_at(folder / file)
