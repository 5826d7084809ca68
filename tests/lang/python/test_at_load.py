"""Code of a file that runs when it is loaded: found before, shown, and trusted first."""

from importlib import import_module
from pathlib import Path

import pytest

from vegakit.cli.main import COMMANDS
from vegakit.config import trust
from vegakit.errors import SettingsError
from vegakit.lang.python.load_time import load_time_code
from vegakit.sdk.programs import code_run_by

HEAD = "from vegakit import Agent, MaxLen, program\nfrom vegakit.tools import ToolContext, tool\n"
TOOL = '@tool(capabilities=[])\nasync def f(ctx: ToolContext, x: str) -> str:\n    """F."""\n'
MAIN = '\n\n@program(budget="$1.00")\ndef main() -> int:\n    return 1\n'
TOUCHES = "__import__('os').mkdir('OWNED')"

RUNS = {
    "decorator": TOOL.replace("[]", f"[] if {TOUCHES} else []") + "    return x\n",
    "default": TOOL.replace("x: str", f"x: str = str({TOUCHES})") + "    return x\n",
    "keyword default": TOOL.replace("x: str", f"*, x: str = str({TOUCHES})") + "    return x\n",
    "annotation": TOOL.replace("-> str", f"-> [str, {TOUCHES}][0]") + "    return x\n",
    "f-string": TOOL.replace("[]", f'[f"{{{TOUCHES}}}"]') + "    return x\n",
    "comprehension": TOOL.replace("[]", f"[y for y in [{TOUCHES}]]") + "    return x\n",
    "operator": TOOL.replace("[]", f"[] and {TOUCHES}") + "    return x\n",
    "not main": f"if __name__ != '':\n    {TOUCHES}\n" + TOOL + "    return x\n",
    "else of main": f"if __name__ == '__main__':\n    pass\nelse:\n    {TOUCHES}\n"
    + TOOL
    + "    return x\n",
    "compared": f"if __name__ == {TOUCHES}:\n    pass\n{TOOL}    return x\n",
    "beside": "import helper\n" + TOOL + "    return x\n",
    "beside, from": "from helper import y\n" + TOOL + "    return x\n",
    "own Agent": f"def Agent(x: str) -> str:\n    {TOUCHES}\n"
    + TOOL.replace("[]", "[Agent('')]")
    + "    return x\n",
}

DECLARES = {
    "tool": TOOL + f"    {TOUCHES}\n    return x\n",
    "default": TOOL.replace("x: str", 'x: str | None = None, y: int = -3, z: list[str] = ["a"]')
    + "    return x\n",
    "agent": 'a = Agent("a", model="fast", max_tokens=50)\nMOST = 3\n' + TOOL + "    return x\n",
    "main": f"if __name__ == '__main__':\n    {TOUCHES}\n" + TOOL + "    return x\n",
    "imports": "import json\nfrom datetime import datetime\n" + TOOL + "    return x\n",
}


def is_beside(name: str) -> bool:
    return name == "helper"


@pytest.mark.parametrize("name", RUNS)
def test_code_that_runs_at_load_is_found(name: str) -> None:
    assert load_time_code(HEAD + RUNS[name] + MAIN, is_beside)


@pytest.mark.parametrize("name", DECLARES)
def test_a_file_that_only_declares_runs_nothing(name: str) -> None:
    assert load_time_code(HEAD + DECLARES[name] + MAIN, is_beside) == ()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("VEGA_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def vega(command: str, *words: str) -> int:
    return getattr(import_module(COMMANDS[command][0]), f"{command}_command")(list(words))


def touching(folder: Path, name: str) -> Path:
    path = folder / "p.py"
    path.write_text(HEAD + RUNS[name] + MAIN + "    # expect: 1\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["decorator", "default", "not main"])
def test_it_needs_trust_before_its_first_run(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of it ran when `run` and `test` refuse; with trust, it is a program like another."""
    path = touching(folder, name)
    with pytest.raises(SettingsError, match=r"OWNED.*type: vega config trust .*p\.py"):
        vega("run", "p.py", "--no-journal")
    assert vega("test", "p.py") == 1
    assert "vega config trust" in capsys.readouterr().out
    assert not (folder / "OWNED").exists()
    trust(Path("p.py"))
    assert vega("run", "p.py", "--no-journal") == 0
    assert (folder / "OWNED").exists()
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="vega config trust"):
        vega("run", "p.py", "--no-journal")


def test_explain_says_what_runs_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It runs nothing itself."""
    path = touching(folder, "default")
    assert vega("explain", "p.py") == 0
    said = capsys.readouterr().out
    assert "before the program, this code of p.py runs as Python with all your rights:\n" in said
    assert "  line 4: str(__import__('os').mkdir('OWNED'))\n" in said
    assert [str(code) for code in code_run_by(path)] == [
        "line 4: str(__import__('os').mkdir('OWNED'))"
    ]
    assert not (folder / "OWNED").exists()


def test_what_is_checked_is_what_runs(folder: Path) -> None:
    """A file that names an encoding reads the same to Python: as UTF-8."""
    hidden = "# coding: utf-7\n" + HEAD + TOOL + "    return x\n# +AAo-open('OWNED', 'w')\n" + MAIN
    (folder / "p.py").write_text(hidden, encoding="utf-8")
    assert vega("run", "p.py", "--no-journal") == 0
    assert not (folder / "OWNED").exists()
