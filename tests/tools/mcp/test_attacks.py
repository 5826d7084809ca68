"""Every known attack by an MCP server is carried out, and comes to nothing."""

from pathlib import Path

import pytest

from tests.tools.confined.attacks import known
from tests.tools.mcp.attacks import ATTACKS, flood_beside_others

KNOWN = known("mcp")
NOT_HERE = {"mcp-023": "is made on a server, and Vega offers none yet"}


@pytest.mark.parametrize("attack_id", ATTACKS)
async def test_an_attack_comes_to_nothing(attack_id: str, tmp_path: Path) -> None:
    """Refused, blocked, ended, or shown as what it is."""
    await ATTACKS[attack_id](tmp_path)


async def test_a_flood_leaves_others_their_turn(tmp_path: Path) -> None:
    """No turn of the loop takes a tenth of a second, though thousands of messages wait."""
    await flood_beside_others(tmp_path)


def test_every_known_attack_is_carried_out_or_said_to_be_elsewhere() -> None:
    """Never both."""
    print(f"mcp: {len(KNOWN)} known, {len(ATTACKS)} carried out, {len(NOT_HERE)} elsewhere")
    assert sorted([*ATTACKS, *NOT_HERE]) == sorted(KNOWN)
