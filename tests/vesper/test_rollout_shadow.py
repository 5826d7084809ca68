"""A path in the shadow performs nothing, counted where things happen."""

import pytest
from campaigns.rollout_shadow import shadow_runs

from vegakit.vesper.paths import WatchedTool


def test_a_shadow_does_nothing_in_any_way_to_reach_the_world() -> None:
    """Over HTTP, SQL, files, functions and sub-agents; `just rollouts full` does so 10,000 times,
    and the candidate asks for other things in four of five runs."""
    found = shadow_runs(50)
    assert (found.others, found.twice, found.missing) == (0, 0, 0)
    assert (found.shadow_runs, found.tried) == (50, 40)


@pytest.mark.parametrize("knows", [True, False])
def test_a_shadow_that_performs_is_found(knows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: its tools perform what the other path did not do, or also what it did."""
    planned = WatchedTool.__init__

    def performs(self: WatchedTool, inner: object, *, performs: bool) -> None:
        planned(self, inner, performs=True)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(WatchedTool, "__init__", performs)
    if not knows:
        monkeypatch.setattr("vegakit.vesper.paths.ToolLog.take", lambda _log, _what: None)
    found = shadow_runs(25)
    assert found.others > 0
    assert (found.twice > 0) or knows
