"""Swaps between check and use lead nobody out."""

import os
from pathlib import Path

import pytest
from campaigns.races import SWAPS, TOOLS, Races, race_each_way

from vegakit.errors import CapabilityDenied
from vegakit.tools import open_by_walk
from vegakit.tools.openat import OpenFolder, check_inside, check_plain, open_with_openat2

CALLS, MOST_ROUNDS = 1_000, 10


@pytest.mark.parametrize("way", [open_with_openat2, open_by_walk])
@pytest.mark.parametrize("tool", TOOLS)
def test_no_swap_leads_out(tool: str, way: OpenFolder) -> None:
    """By either way. Some calls met the link and some did not, so it was a race; on a machine that
    lets only one of the two run for a while, it may take longer until it is one."""
    races = Races()
    for _ in range(MOST_ROUNDS):
        races += race_each_way(tool, CALLS, way)
        if min(races.passed, races.refused, races.swaps) > 0:
            break
    assert races.escapes == 0
    assert min(races.passed, races.refused, races.swaps) > 0


def test_every_kind_of_swap_is_raced() -> None:
    """Folders, files, and names of files outside."""
    assert set(SWAPS) == {"folder", "file", "name"}


def test_a_name_that_went_away_is_not_inside(tmp_path: Path) -> None:
    """The count alone says one: it counts the name outside. Nor does making the name anew help."""
    (tmp_path / "outside").write_bytes(b"secret")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/f").hardlink_to(tmp_path / "outside")
    folder = os.open(tmp_path / "root", os.O_RDONLY)
    file = os.open("f", os.O_RDONLY, dir_fd=folder)
    (tmp_path / "root/f").unlink()
    check_plain("f", os.fstat(file))
    with pytest.raises(CapabilityDenied, match="swapped"):
        check_inside("f", file, folder, "f")
    (tmp_path / "root/f").hardlink_to(tmp_path / "outside")
    with pytest.raises(CapabilityDenied, match="one of 2 names"):
        check_inside("f", file, folder, "f")
    os.close(file)
    os.close(folder)
