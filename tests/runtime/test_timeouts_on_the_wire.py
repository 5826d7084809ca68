"""A provider that never answers sees exactly three requests a question.

At full size, with all other ways to fail: `python -m campaigns.money_retries 100`.
"""

import asyncio

import pytest
from campaigns.money_retries import WIRES, fail_for_ever


@pytest.mark.parametrize("wire", WIRES)
def test_a_timeout_is_an_attempt_like_another(wire: str) -> None:
    """Charged as reserved, since nobody knows whether it was billed."""
    counted = asyncio.run(fail_for_ever(wire, "timeout", 1, timeout_ms=3_000))
    assert counted.requests == 3
    assert counted.charged
