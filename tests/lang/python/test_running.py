"""Programs in Python, from inside Python: `@program` gives an object that runs under Vega."""

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from vegakit import Agent, load, parallel, program, session, spawn, vega
from vegakit.errors import UserError
from vegakit.sdk import ProgramRefused, PythonProgram, interop_at

PROGRAM = '''"""Count words."""

import re
from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, tool


class Count(BaseModel):
    word: str
    times: int


@tool(capabilities=[], idempotent=True)
def count(text: str, word: str) -> Count:
    """Count a word, whatever its case."""
    return Count(word=word, times=len(re.findall(word, text, re.IGNORECASE)))


writer = Agent("writer", model="scripted:script.json", max_tokens=50)


@program(budget="$1")
def main(topics: Annotated[list[str], MaxLen(5)]) -> list[Count]:
    counts: list[Count] = []
    for topic in topics:
        counts.append(count(writer(f"Write about {topic}."), topic))
    return counts
'''


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "vega.toml").write_text("", encoding="utf-8")
    (tmp_path / "script.json").write_text('["Tea, tea and TEA.", "No meat."]', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _module(folder: Path, text: str) -> Any:
    path = folder / "counting.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("counting", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_program_runs_from_python_and_gives_its_records(project: Path) -> None:
    """Its function with `@tool` is called as it is, and what comes back are its instances."""
    module = _module(project, PROGRAM)
    assert module.main.run(["tea", "ham"]) == [
        module.Count(word="tea", times=3),
        module.Count(word="ham", times=0),
    ]


def test_a_program_is_awaited_where_a_loop_runs(project: Path) -> None:
    module = _module(project, PROGRAM)
    assert asyncio.run(module.main(["tea"])) == [module.Count(word="tea", times=3)]


def test_a_file_is_loaded_like_one_in_vega(project: Path) -> None:
    """With the functions of it that stay Python."""
    _module(project, PROGRAM)
    counted = asyncio.run(load(project / "counting.py").main(["tea"]))
    assert counted == [{"word": "tea", "times": 3}]


def test_a_file_without_tools_is_never_run(project: Path) -> None:
    """It is read: what it imports need not even be there."""
    text = (
        "import no_such_module_at_all\nfrom vegakit import program\n\n\n"
        "@program\ndef main() -> int:\n    return 7\n"
    )
    path = project / "plain.py"
    path.write_text(text, encoding="utf-8")
    interop = interop_at(path)
    assert interop is not None
    assert interop.tools == {}
    assert asyncio.run(load(path).main()) == 7


def test_a_program_that_is_refused_says_so_in_python(project: Path) -> None:
    text = PROGRAM.replace("    return counts\n", "    kept = counts\n    counts.append(kept[0])\n")
    module = _module(project, text)
    with pytest.raises(ProgramRefused, match=r"make a new one: `counts = counts \+ \[kept\[0\]\]`"):
        module.main.run(["tea"])


@pytest.mark.parametrize(
    "said",
    [
        lambda: Agent("a")("hi"),
        lambda: Agent("a").ask("hi"),
        lambda: session(budget="$1"),
        parallel,
        lambda: spawn(Agent("a")),
        lambda: vega.file.read("a.txt"),
    ],
)
def test_words_of_programs_say_where_they_belong(said: Any) -> None:
    """Called from plain Python they tell what to type."""
    with pytest.raises(UserError, match=r"only in a program: .* vega run FILE\.py"):
        said()


def test_the_mark_and_the_room_share_a_name() -> None:
    """`from vegakit import program` marks programs; the room is imported from as ever."""
    import vegakit.program as room
    from vegakit.program import Machine

    assert isinstance(program(lambda: None), PythonProgram)
    assert room.Machine is Machine
