"""A few programs with every window; thousands of them run by `just parallel`."""

from campaigns.parallel.searching import search, shown

PROGRAMS = range(20)


def test_parallel_runs_are_as_sequential_ones() -> None:
    looked = search(PROGRAMS, full=True)
    differing = [one for one in looked if one.compared.found]
    assert not differing, shown(differing)


def test_some_of_them_are_quicker_and_none_is_slower() -> None:
    """Else nothing ran ahead, and the test above holds of itself."""
    compared = [one.compared for one in search(PROGRAMS)]
    assert sum(one.parallel_ms < one.sequential_ms for one in compared) > len(compared) / 4
