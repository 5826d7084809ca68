"""Hostile folders against commands of the installed wheel: a portion of what `just trust full`
plays in full, and that each harm which is planted is seen."""

from pathlib import Path

import pytest
from campaigns.trust import FAULTS, HARMS, bites, play_fault, play_folder, sample
from campaigns.trust_folders import BAITS, COMMANDS, WAYS, Folder, folders

pytestmark = pytest.mark.timeout(600)

PORTION = [
    *sample()[: len(COMMANDS)],
    *((folder, "run") for folder in folders() if str(folder) == "rights of a program, module"),
]
"""One folder for each column, and a cell that broke once."""
BITING = ("base URLs", "extensions")


def test_the_table_is_whole() -> None:
    rows = [*folders()]
    assert len(rows) >= 60
    assert len(COMMANDS) == 12
    assert {row.way for row in rows} == {*WAYS}
    assert len({bait.name for bait in BAITS}) == len(BAITS)
    assert {command for _, command in PORTION} == {*COMMANDS}


@pytest.mark.parametrize(("folder", "command"), PORTION, ids=map(str, range(len(PORTION))))
def test_a_hostile_folder_does_no_harm(wheel: Path, folder: Folder, command: str) -> None:
    (cell,) = play_folder(wheel, folder, [command])
    assert cell.harms == [], folder


def test_each_planted_harm_is_seen(wheel: Path) -> None:
    seen = {kind: play_fault(wheel, fault) for kind, fault in FAULTS.items()}
    assert {kind: [harm.partition(":")[0] for harm in harms] for kind, harms in seen.items()} == {
        kind: [kind] for kind in HARMS
    }


@pytest.mark.parametrize("bait", BITING)
def test_a_folder_that_is_trusted_does_what_it_says(wheel: Path, bait: str) -> None:
    """So nothing but trust keeps the harm away."""
    assert bites(wheel, bait)
