"""Every known attack by a path is carried out with every file tool, under the widest of grants."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from campaigns.races import race

from tests.tools.confined.attacks import Attack, known
from vegakit.errors import VegaError
from vegakit.policy import Grant
from vegakit.tools import Files, open_by_walk
from vegakit.tools.openat import OpenFolder, open_with_openat2

KNOWN = known("path")
RACE = KNOWN.pop("path-015")
SECRET = b"the secret"
WIDEST = Grant(("fs",), paths=("**", ".*", ".*/**", "**/.*", "**/.*/**"))


def prepared(attack: Attack, folder: Path) -> str:
    """The path to ask for, when all that it needs is there."""
    for place in ("ws", "ws-evil", "out"):
        (folder / place).mkdir()
    (folder / "out/secret").write_bytes(SECRET)
    (folder / "ws-evil/x").write_bytes(SECRET)
    places = {"WS": str(folder / "ws"), "OUT": str(folder / "out"), "PATH": os.defpath}
    subprocess.run(["sh", "-c", attack.get("pre", "")], env=places, check=True)
    path: str = eval(attack["gen"]) if "gen" in attack else attack["input"]
    return path.replace("$(basename $WS)", "ws").replace("$WS", places["WS"])


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """What is outside of the workspace."""
    outside = [path for place in ("out", "ws-evil") for path in (folder / place).rglob("*")]
    return {str(path): path.read_bytes() if path.is_file() else None for path in outside}


@pytest.mark.parametrize("way", [open_with_openat2, open_by_walk])
@pytest.mark.parametrize("attack", KNOWN.values(), ids=KNOWN)
async def test_an_attack_by_a_path_is_refused(
    attack: Attack, way: OpenFolder, tmp_path: Path
) -> None:
    """Nothing is read, written or listed by it; removing and looking touch nothing outside."""
    path = prepared(attack, tmp_path)
    before, inside = snapshot(tmp_path), sorted(os.walk(tmp_path / "ws"))
    files = Files(tmp_path / "ws", WIDEST, open_folder=way)
    for call in (files.read(path), files.write(path, b"PWNED"), files.list(path)):
        with pytest.raises(VegaError):
            await call
    assert sorted(os.walk(tmp_path / "ws")) == inside
    for call in (files.stat(path), files.remove(path)):
        with suppress(VegaError):
            await call
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("tool", ["read", "write"])
def test_the_attack_that_is_a_race_is_raced(tool: str) -> None:
    """More of them in their own tests."""
    assert RACE["pre"].startswith("race")
    assert race(tool, "folder", 200, open_by_walk).escapes == 0


def naive(attack: Attack, folder: Path) -> bool:
    """Whether opening the path as it is reads the secret."""
    path = folder / "ws" / prepared(attack, folder)
    return path.read_bytes() == SECRET


@pytest.mark.parametrize("attack_id", ["path-010", "path-011", "path-012", "path-014"])
def test_the_attacks_do_reach_the_secret_of_who_opens_by_path(
    attack_id: str, tmp_path: Path
) -> None:
    """So that the tests above can fail."""
    assert naive(KNOWN[attack_id], tmp_path)
