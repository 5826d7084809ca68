"""The fixture `vega` for pytest: `def test_reviewer(vega): …`.

Every pytest run loads this file where Vega is installed, so it imports nothing until a test asks.
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vegakit.testing.vega import Vega

__all__ = ["vega"]


@pytest.fixture
def vega() -> "Vega":
    """Agents answer as `vega.script(…)` says; `vega.run` or `await vega.call` asks them."""
    from vegakit.testing.vega import Vega

    return Vega()
