"""Every example in the documents works.

| block              | is                                                                        |
|--------------------|---------------------------------------------------------------------------|
| ```python          | run as it stands, beside the named files of its page                      |
| ```vega            | a test program: it does what its comments say                             |
| ```vega hello.vega | a file of its page; so is any other block with a name                     |
| ```console         | `$ command` and what it prints, run after the blocks before it on its page |
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from campaigns.first_five_minutes import masked

from vegakit.lang import format_source
from vegakit.testing import run_test

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
ANY_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```", re.DOTALL | re.MULTILINE)
SCHEMA = re.compile(r"(postgresql://127\.0\.0\.1[^\s?]+)\?schema=(\w+)")
TOOK = re.compile(r"(?<=passed in )\d+\.\d+s")

EXAMPLES = [
    pytest.param(page, block, id=f"{page.relative_to(REPOSITORY)}-{number}")
    for page in PAGES
    for number, block in enumerate(BLOCK.findall(page.read_text()))
]
PROGRAMS = [
    pytest.param(block, id=f"{page.relative_to(REPOSITORY)}-{number}")
    for page in PAGES
    for number, (kind, name, block) in enumerate(ANY_BLOCK.findall(page.read_text()))
    if kind == "vega" and not name
]
SESSIONS = [page for page in PAGES if "\n```console\n" in page.read_text()]


@pytest.fixture(scope="module", autouse=True)
def empty_schemas() -> None:
    """Drop the schemas that pages name: an earlier run may have left tables of another format."""
    for server, schema in {found for page in PAGES for found in SCHEMA.findall(page.read_text())}:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def page_name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def write(name: str, block: str, folder: Path) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(block, encoding="utf-8")


@pytest.mark.parametrize(("page", "block"), EXAMPLES)
def test_an_example_runs(page: Path, block: str, tmp_path: Path) -> None:
    """As it stands, in a directory with nothing but the files of its page; what it says it prints,
    it prints."""
    for _, name, content in ANY_BLOCK.findall(page.read_text()):
        if name:
            write(name, content, tmp_path)
    command = [sys.executable, "-W", "error", "-c", block]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for said in re.findall(r"print\(.*#\s*(?:→|prints|->)?\s*(.+)$", block, re.MULTILINE):
        assert said.strip() in ran.stdout


@pytest.mark.parametrize("block", PROGRAMS)
def test_a_program_does_what_it_says(block: str, tmp_path: Path) -> None:
    """In its comments."""
    write("main.vega", block, tmp_path)
    assert run_test(tmp_path / "main.vega").problems == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_programs_are_formatted(page: Path) -> None:
    """As `vega fmt` writes them."""
    blocks = [block for kind, _, block in ANY_BLOCK.findall(page.read_text()) if kind == "vega"]
    assert [block for block in blocks if format_source(block) != block] == []


@pytest.mark.parametrize("page", SESSIONS, ids=page_name)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path, run_dir: str) -> None:
    """Typed in order, in one folder; only times, ids and widths may differ."""
    for kind, name, block in ANY_BLOCK.findall(page.read_text()):
        if name:
            write(name, block, tmp_path)
        elif kind == "console":
            assert plain(typed(block, tmp_path, run_dir)) == plain(block)


def plain(shown: str) -> str:
    return masked(TOOK.sub("DURATION", shown))


@pytest.fixture
def run_dir() -> Iterator[str]:
    """For sockets, whose paths are short."""
    with tempfile.TemporaryDirectory(prefix="vd") as folder:
        yield folder


def typed(block: str, folder: Path, run_dir: str) -> str:
    shown = ""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ours = {"PATH": path, "HOME": str(folder), "COLUMNS": "100", "XDG_RUNTIME_DIR": run_dir}
    env = {**os.environ, **ours}
    env.pop("XDG_DATA_HOME", None)  # what is recorded belongs to this page, as to a new user
    if "$ vega trust" in block or "&& vega trust" in block:
        env.pop("VEGA_TRUSTED_FOLDERS", None)
    for command in re.findall(r"^\$ (.+)$", block, re.MULTILINE):
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        shown += f"$ {command}\n{ran.stdout}"
    commands = str(Path(sys.executable).parent)
    return shown.replace(f"{commands}/", "").replace(str(folder), "~")
