"""Known attacks, by their class."""

from pathlib import Path
from typing import Any, TypeAlias

import msgspec

Attack: TypeAlias = dict[str, Any]
FOLDER = Path(__file__).parents[2] / "data/attacks"


def known(kind: str) -> dict[str, Attack]:
    lines = (FOLDER / f"{kind}.jsonl").read_bytes().splitlines()
    found: list[Attack] = [msgspec.json.decode(line) for line in lines]
    return {attack["id"]: attack for attack in found}
