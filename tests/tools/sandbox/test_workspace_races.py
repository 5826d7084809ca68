"""Blind tries: commands start while others in the same workspace swap what is guarded."""

from pathlib import Path

import pytest
from campaigns.workspace_races import blind_tries

TRIES = 500
"""`just races` makes 10,000."""


@pytest.mark.timeout(900)
async def test_no_swap_leads_a_command_out(tmp_path: Path) -> None:
    """And most commands run, so that it is not for that."""
    told = await blind_tries(TRIES, tmp_path)
    assert (told.hits, told.changed) == (0, 0)
    assert told.swaps > 0
    assert told.refused < TRIES / 2
