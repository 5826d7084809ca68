"""What is released: the same bytes from anywhere, metadata that leads somewhere, extras with
something behind them, and a package that runs on every Python of this machine."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
URL = "https://code.example/vega"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
spec = spec_from_file_location("release", ROOT / "tools" / "release.py")
assert spec
assert spec.loader
release: Any = module_from_spec(spec)
spec.loader.exec_module(release)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source distribution and the wheel, built once."""
    tree, to = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("dist")
    source, wheel = release.built(release.prepared(URL, tree), to)
    return source, wheel


def test_two_builds_are_the_same_bytes(files: tuple[Path, Path], tmp_path: Path) -> None:
    """From another folder, with other times and other rights of the files."""
    tree = tmp_path / "elsewhere" / "deeper"
    tree.mkdir(parents=True)
    release.prepared(URL, tree)
    for path in tree.rglob("*"):
        os.utime(path, (981_173_106, 981_173_106))
        path.chmod(0o700 if path.is_dir() else 0o600)
    again = release.built(tree, tmp_path / "dist")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in files]


def test_another_tree_is_other_bytes(files: tuple[Path, Path], tmp_path: Path) -> None:
    """The comparison can fail: one word of one file."""
    tree = tmp_path / "tree"
    tree.mkdir()
    release.prepared(URL, tree)
    changed = tree / "src" / "vegakit" / "ids.py"
    changed.write_text(changed.read_text() + "# a word\n")
    (wheel,) = release.built(tree, tmp_path / "dist", "--wheel")
    assert wheel.read_bytes() != files[1].read_bytes()


def test_the_source_makes_the_wheel(files: tuple[Path, Path], tmp_path: Path) -> None:
    source, wheel = files
    assert release.rebuilt(source, tmp_path).read_bytes() == wheel.read_bytes()


def test_nothing_is_wrong_with_the_metadata(files: tuple[Path, Path]) -> None:
    assert list(release.faults(files[1])) == []


def test_a_build_without_an_address_is_found(tmp_path: Path) -> None:
    """As the tree is, links are relative and there are no URLs."""
    (wheel,) = release.built(ROOT, tmp_path, "--wheel")
    told = list(release.faults(wheel))
    assert "no project URL Changelog" in told
    assert "a link leads nowhere on an index: CONTRIBUTING.md" in told


def test_links_become_absolute() -> None:
    """A picture is fetched raw; what has an address already, or a place on the page, stays."""
    page = "![a](docs/a.svg) [b](B.md) [c](#c) [d](https://d.example)"
    assert release.absolute(page, f"{URL}/blob/v1") == (
        f"![a]({URL}/raw/v1/docs/a.svg) [b]({URL}/blob/v1/B.md) [c](#c) [d](https://d.example)"
    )


def test_an_extra_has_something_behind_it() -> None:
    """Code of ours names it where it is missing, so each leads to something that runs."""
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    ways = (r"vegakit\[([a-z-]+)\]", r'extra = "([a-z-]+)" if', r'extra = .* else "([a-z-]+)"')
    # A row of the table of doors has its extras as keys, the first of which it needs most.
    doors = r'Door\(\w+, "\w+", \{"([a-z-]+)":'
    named = {name for way in (*ways, doors) for name in re.findall(way, source)}
    assert PROJECT["optional-dependencies"].keys() - {"all"} == named


def test_all_is_all_extras() -> None:
    (every,) = PROJECT["optional-dependencies"]["all"]
    listed = every.removeprefix("vegakit[").removesuffix("]").split(",")
    assert sorted(listed) == sorted(PROJECT["optional-dependencies"].keys() - {"all"})


def test_a_bound_has_a_reason() -> None:
    """Every package that a user gets is in the table of upper bounds, with its bound or none."""
    page = (ROOT / "docs" / "decisions" / "dependencies.md").read_text(encoding="utf-8")
    table = page.partition("## Upper bounds")[2].partition("\n## ")[0]
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for needed in (one for each in lists for one in each if not one.startswith("vegakit[")):
        name, bound = re.fullmatch(
            r"([\w.-]+)(?:\[.*\])?>=[\d.]+(?:,(<[\d.]+))?(?:;.*)?", needed
        ).groups()  # pyright: ignore[reportOptionalMemberAccess]
        family = "opentelemetry-sdk" if name.startswith("opentelemetry-") else name
        row = next(line for line in table.splitlines() if f"`{family}`" in line)
        assert (f"`{bound}`" if bound else "none") in row, needed


def pythons() -> Iterator[Path]:
    """Yield one interpreter of each version that we support and that this machine has."""
    found: dict[tuple[int, ...], Path] = {sys.version_info[:2]: Path(sys.executable)}
    for home in sorted(Path.home().glob(".pyenv/versions/3.*")):
        version = tuple(int(part) for part in home.name.split(".")[:2])
        if version >= (3, 11) and (home / "bin" / "python").exists():
            found.setdefault(version, home / "bin" / "python")
    yield from found.values()


@pytest.mark.parametrize("python", [*pythons()], ids=str)
def test_it_runs_where_it_is_installed(
    python: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    """With the hashed core lock in an empty environment; examples run from there without a key."""
    uv, env = str(Path(sys.executable).with_name("uv")), tmp_path / "env"
    for words in (
        f"venv --quiet --python {python} {env}",
        f"pip install --quiet --python {env} --require-hashes -r {ROOT}/locks/core.txt",
        f"pip install --quiet --python {env} --no-deps {files[1]}",
    ):
        subprocess.run([uv, *words.split()], check=True)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    said = {
        example: subprocess.run(
            [env / "bin" / "vega", "run", "--no-journal", "--quiet", *example.split()],
            cwd=tmp_path / "examples",
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        for example in EXAMPLES
    }
    assert {example: ran.stderr for example, ran in said.items() if ran.returncode} == {}
    assert all(ran.stdout.strip() for ran in said.values())


EXAMPLES = [
    "review.vega data/change.diff --model scripted:review.script.json",
    "triage.vega data/issues.json --model scripted:triage.script.json",
]
