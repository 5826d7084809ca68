"""The fixtures `vega` and `vega_replay` for pytest: `def test_reviewer(vega): …`.

Every pytest run loads this file where Vega is installed, so it imports nothing until a test
asks.
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from vegakit.testing.harness import Vega


@pytest.fixture
def vega() -> "Vega":
    """Agents answer as `vega.script(…)` says; `vega.run` or `await vega.call` asks them."""
    from vegakit.testing.harness import Vega

    return Vega()


@pytest.fixture
def vega_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> "Callable[[str | PathLike[str], str], None]":
    """`vega_replay("recorded.db")`: every runtime of this test answers from that journal, from its
    last run or the one named, and stops at the first call that differs from it."""

    from vegakit.config import ReplayTarget, replay_variables

    def replay(journal: "str | PathLike[str]", run: str = "") -> None:
        for name, value in replay_variables(ReplayTarget(str(journal), run)).items():
            monkeypatch.setenv(name, value)

    return replay
