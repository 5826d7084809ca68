"""Known attacks, by their class."""

import json
from pathlib import Path
from typing import Any, TypeAlias

Attack: TypeAlias = dict[str, Any]
FOLDER = Path(__file__).parents[2] / "data/attacks"


def known(kind: str) -> dict[str, Attack]:
    lines = (FOLDER / f"{kind}.jsonl").read_bytes().splitlines()
    # The standard library also reads half a surrogate pair, which is one of the attacks.
    found: list[Attack] = [json.loads(line) for line in lines]
    return {attack["id"]: attack for attack in found}
