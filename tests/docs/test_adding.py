"""The pages on how to add something say all that is needed: each is done in a copy of the tree.

A block with the name of a file is that file, or as `diff` what changes in it; `@@` stands between
changes. What a page says it touches is what its blocks name.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "how-to"
BLOCK = re.compile(r"^```(python|diff) (\S+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COUNT = re.compile(r"\*\*Files to touch: (\d+)\.?\*\*")
KEEPS = ("src", "docs/reference", "tests/lang/vega.lark")


def changed(text: str, block: str) -> str:
    """Return the text after each change of a block, whose old lines have to be there once."""
    for hunk in block.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        new = "".join(line[1:] for line in lines if line[0] in " +")
        assert text.count(old) == 1, f"{text.count(old)} times in the file:\n{old}"
        text = text.replace(old, new)
    return text


def done(page: str, folder: Path) -> Path:
    """Do what a page says in a copy of the tree, and return its source folder."""
    for kept in KEEPS:
        place = folder / kept
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / kept).is_dir():
            shutil.copytree(ROOT / kept, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / kept, place)
    text = (PAGES / page).read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    for kind, name, block in blocks:
        path = folder / name
        assert path.exists() is (kind == "diff"), name
        path.parent.mkdir(exist_ok=True)
        path.write_text(changed(path.read_text(), block) if kind == "diff" else block)
    said = COUNT.search(text)
    assert said
    assert int(said[1]) == len({name for _, name, _ in blocks})
    return folder / "src"


def ran(source: Path, *command: str) -> str:
    # The copy is not measured for coverage: it would count as a second, mostly unused tree.
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    env |= {"PYTHONPATH": str(source), "VEGA_DATA_DIR": str(source.parent / "data")}
    line = [sys.executable, *command]
    ended = subprocess.run(
        line, cwd=source.parent, env=env, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_a_command(tmp_path: Path) -> None:
    source = done("add-a-command.md", tmp_path)
    assert re.search(
        r"^  hello +greet somebody$", ran(source, "-m", "vegakit", "--help"), re.MULTILINE
    )
    assert ran(source, "-m", "vegakit", "hello", "Ada") == "Hello, Ada!\n"
    assert ran(source, "-m", "vegakit", "hello", "Ada", "--json") == '{"greeted": "Ada"}\n'


def test_a_statement(tmp_path: Path) -> None:
    """It is parsed, checked, formatted, quoted and run, and the grammar knows it."""
    source = done("add-a-statement.md", tmp_path)
    page = (PAGES / "add-a-statement.md").read_text()
    program = re.findall(r"^```text\n(fn main.*?)^```", page, re.DOTALL | re.MULTILINE)[0]
    (tmp_path / "main.vega").write_text(program.replace("    unless done {", "  unless  done  {"))
    ran(source, "-m", "vegakit", "fmt", "main.vega")
    assert (tmp_path / "main.vega").read_text() == program
    ran(source, "-m", "vegakit", "check", "main.vega")
    assert "at most $0.00" in ran(source, "-m", "vegakit", "cost", "main.vega")
    assert ran(source, "-m", "vegakit", "run", "main.vega", "--quiet") == "go on\n"
    assert "UNLESS" in (tmp_path / "tests/lang/vega.lark").read_text()


def test_a_statement_that_means_something_new_is_known_where_while_is() -> None:
    page = (PAGES / "add-a-statement.md").read_text()
    named = set(re.findall(r"^\| `(lang/\S+)` \|", page, re.MULTILINE))
    house = ROOT / "src" / "vegakit"
    knows = {
        str(path.relative_to(house))
        for path in (house / "lang").rglob("*.py")
        if path.parent.name != "python"
        and re.search(r"^[^#\"]*\bWhile\b", path.read_text(), re.MULTILINE)
    }
    assert named == knows


PROVIDER = """
import asyncio
from vegakit import Agent, Runtime
from vegakit.providers import ProviderAccess, build_model, provider_of
from vegakit.testing import Provider

async def main():
    async with Provider("Hello from Groq.") as server:
        name = "groq:llama-3.3-70b-versatile"
        assert provider_of(name) == "groq"
        model = build_model(name, ProviderAccess(lambda: "a key", base_url=server.url + "/v1"))
        assert model.price is not None
        async with Runtime("$1") as rt:
            print(await rt.ask(Agent("reader", model=model, max_tokens=50), "Hello?"))
            assert await rt.spent() > 0
        (request,) = server.requests
        print(request.api, request.model, request.headers["authorization"])

asyncio.run(main())
"""


def test_a_provider(tmp_path: Path) -> None:
    source = done("add-a-provider.md", tmp_path)
    said = "Hello from Groq.\nchat llama-3.3-70b-versatile Bearer a key\n"
    assert ran(source, "-c", PROVIDER) == said


STORE = """
import asyncio
from vegakit import Agent, Runtime
from vegakit.testing import ScriptedModel
from vegakit.store import list_runs, open_ledger
from vegakit.testing import LEDGER_CHECKS

async def main():
    writer = Agent("writer", model=ScriptedModel(["A plan."]), max_tokens=50)
    async with Runtime("$1", journal="scratch://night") as rt:
        print(await rt.ask(writer, "Plan it."))
    (run,) = list_runs("scratch://night")
    print(run.recorded)
    for number, check in enumerate(LEDGER_CHECKS):
        ledger = open_ledger(f"scratch://check-{number}")
        await check(ledger)
        await ledger.aclose()

asyncio.run(main())
"""


def test_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = done("add-a-store.md", tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert ran(source, "-c", STORE) == "A plan.\n1\n"
    assert "1" in ran(source, "-m", "vegakit", "runs", "scratch://night")


def test_a_change_that_does_not_fit_is_found() -> None:
    assert changed("a\nb\n", " a\n+x\n") == "a\nx\nb\n"
    with pytest.raises(AssertionError, match="0 times in the file"):
        changed("a\nb\n", " c\n+x\n")
    with pytest.raises(AssertionError, match="2 times in the file"):
        changed("a\na\n", " a\n+x\n")
