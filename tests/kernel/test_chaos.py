"""The campaign of dying servers: a short storm, and what its checks must see."""

import threading
from pathlib import Path

from campaigns.kernel_chaos import figures, storm
from campaigns.kernel_histories import Move, Reply, are_moves_linearizable, is_linearizable


def test_a_short_storm_loses_and_doubles_nothing(tmp_path: Path) -> None:
    before = threading.active_count()
    found = figures(storm(5, 3, tmp_path))
    # A client that goes on asking would be in the way of all tests after this one.
    assert threading.active_count() == before
    assert [figure for figure in found if not figure.holds] == []


def test_replies_that_no_counter_gives_are_seen() -> None:
    first, second = Reply(0.0, 1.0, 9), Reply(2.0, 3.0, 8)
    assert is_linearizable([first, second])
    assert is_linearizable([Reply(0.0, 3.0, 8), Reply(1.0, 2.0, 9)])
    # The same twice: an update was lost.
    assert not is_linearizable([first, Reply(2.0, 3.0, 9)])
    # What began after another was answered comes before it: a reply of the past.
    assert not is_linearizable([Reply(0.0, 1.0, 8), Reply(2.0, 3.0, 9)])


def test_moves_that_no_process_makes_are_seen() -> None:
    allowed = {"running": ("waiting",), "waiting": ("running",)}
    told = [(1, "running", "waiting"), (4, "waiting", "running")]
    first, second = Move(0.0, 1.0, "waiting", 1), Move(2.0, 3.0, "running", 4)
    late, both = Move(1.2, 1.8, "waiting", None), Move(0.5, 2.5, "running", None)
    assert are_moves_linearizable([first, second, late, both], told, allowed)
    # A move that was acknowledged and is not told, or not as it was asked for.
    assert not are_moves_linearizable([Move(0.0, 1.0, "waiting", 2)], told, allowed)
    assert not are_moves_linearizable([Move(0.0, 1.0, "running", 1)], told, allowed)
    # One that began when another was over is told before it.
    early = Move(-2.0, -1.0, "running", 4)
    assert not are_moves_linearizable([first, early], told, allowed)
    # A state from which nobody moved, and a refusal of what was allowed all the time.
    assert not are_moves_linearizable([], [told[0], told[0]], allowed)
    refused = Move(1.2, 1.8, "running", None)
    assert not are_moves_linearizable([first, second, refused], told, allowed)
