"""The campaign of dying servers: a short storm, and what its checks must see."""

from pathlib import Path

from campaigns.kernel_chaos import Reply, figures, is_linearizable, storm


def test_a_short_storm_loses_and_doubles_nothing(tmp_path: Path) -> None:
    found = figures(storm(5, 3, tmp_path))
    assert [figure for figure in found if not figure.holds] == []


def test_replies_that_no_counter_gives_are_seen() -> None:
    first, second = Reply(0.0, 1.0, 9), Reply(2.0, 3.0, 8)
    assert is_linearizable([first, second])
    assert is_linearizable([Reply(0.0, 3.0, 8), Reply(1.0, 2.0, 9)])
    # The same twice: an update was lost.
    assert not is_linearizable([first, Reply(2.0, 3.0, 9)])
    # What began after another was answered comes before it: a reply of the past.
    assert not is_linearizable([Reply(0.0, 1.0, 8), Reply(2.0, 3.0, 9)])
