"""A second process in the same workspace reaches neither the host nor what the person runs next."""

from pathlib import Path

import pytest

from tests.tools.confined.attacks import known
from tests.tools.sandbox.stage import boxed
from tests.tools.sandbox.workspace_attacks import (
    CANARY,
    came_through,
    carried_out,
    furnish,
    is_possible,
)
from vegakit.tools.sandbox import quarantine as setting_aside, workspace

KNOWN = [attack for attack in known("workspace").values() if is_possible(attack)]
WAYS = sorted({attack["way"] for attack in KNOWN})


def test_there_are_enough_of_them() -> None:
    """Of every kind that was thought of."""
    assert len(known("workspace")) >= 60
    assert {"swap", "exchange", "hard link", "mount", "fifo", "look", "twin"} < {*WAYS}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", WAYS)
async def test_none_comes_through(way: str) -> None:
    assert await came_through([attack for attack in KNOWN if attack["way"] == way]) == []


@pytest.mark.timeout(300)
async def test_they_come_through_where_nothing_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the tests above can fail: without the list of names most plants work."""
    monkeypatch.setattr(workspace, "kind_of", lambda *_: None)
    monkeypatch.setattr(workspace, "ABSENT_FOLDERS", ())
    monkeypatch.setattr(workspace, "ABSENT_FILES", ())
    monkeypatch.setattr(workspace, "is_repository", lambda _: False)
    monkeypatch.setattr(setting_aside, "is_repository", lambda _: False)
    tried = [known("workspace")[name] for name in known("workspace") if _is_plain(name)]
    held = []
    for number, attack in enumerate(tried):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        if not await carried_out(attack, folder):
            held.append(attack["id"])
    assert held == []


def _is_plain(name: str) -> bool:
    why = known("workspace")[name]["why"]
    return why in {"HEAD and commondir", "bash, the workspace being a home", "server.key is read"}


async def test_the_stage_is_as_a_person_has_it(tmp_path: Path) -> None:
    """With secrets to read and links that lead out."""
    async with boxed(tmp_path) as box:
        furnish(box, {})
        assert (box.workspace / "config/.env").read_text() == CANARY
        assert (box.workspace / "linked").stat().st_nlink == 2
