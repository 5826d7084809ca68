"""Every known attack on a budget is carried out, by its name, and none overruns it."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.runtime import attacks_on_bills, attacks_on_caps, attacks_on_settling
from tests.runtime.attacks import ATTACKS

CARRIED_OUT_BY = (attacks_on_bills, attacks_on_caps, attacks_on_settling)
CORPUS = Path(__file__).parents[1] / "data/attacks/budget.jsonl"
KNOWN = [msgspec.json.decode(line)["id"] for line in CORPUS.read_bytes().splitlines()]
NOT_YET: dict[str, str] = {}
"""Attacks on parts that are not built yet, with the reason in words."""


@pytest.mark.parametrize("attack_id", KNOWN)
def test_an_attack_overruns_nothing(attack_id: str, tmp_path: Path) -> None:
    """Whatever is tried."""
    if reason := NOT_YET.get(attack_id):
        pytest.skip(reason)
    asyncio.run(ATTACKS[attack_id](tmp_path))


def test_every_known_attack_is_carried_out_or_said_to_wait() -> None:
    """Never both, and none that nobody knows."""
    assert sorted([*ATTACKS, *NOT_YET]) == sorted(KNOWN)
    assert all(NOT_YET.values())
