"""A few programs with every window; thousands of them run by `just parallel`."""

from pathlib import Path

import pytest
from campaigns.parallel.comparing import compare
from campaigns.parallel.searching import search, shown

PROGRAMS = range(20)
DIFFERED = sorted((Path(__file__).parent / "differed").glob("*.vega"))
"""Cut down from programs of a campaign, each with what was wrong."""


def test_parallel_runs_are_as_sequential_ones() -> None:
    looked = search(PROGRAMS, full=True)
    differing = [one for one in looked if one.compared.found]
    assert not differing, shown(differing)


@pytest.mark.parametrize("path", DIFFERED, ids=lambda path: path.stem)
def test_they_are_the_same_where_they_once_differed(path: Path) -> None:
    assert not compare(path.read_text(encoding="utf-8"), int(path.stem)).found


def test_some_of_them_are_quicker_and_none_is_slower() -> None:
    """Else nothing ran ahead, and the test above holds of itself."""
    compared = [one.compared for one in search(PROGRAMS)]
    assert sum(one.parallel_ms < one.sequential_ms for one in compared) > len(compared) / 4
