"""What a newcomer types in their first minutes, and that the pages show what they see."""

import difflib
import tempfile
from pathlib import Path

import pytest
from campaigns.first_five_minutes import PAGE, README, masked, missing_lines, play, written

pytestmark = pytest.mark.timeout(600)


def different(seen: str, shown: str) -> list[str]:
    lines = difflib.unified_diff(masked(shown).splitlines(), masked(seen).splitlines(), n=0)
    return list(lines)


def test_the_pages_show_what_is_seen(wheel: Path) -> None:
    """Once more after a change of what is printed: `just first-five-minutes --write`."""
    with tempfile.TemporaryDirectory() as folder:  # a short name: long ones are broken in two
        steps = play(wheel, Path(folder))
    assert different(written(steps), PAGE.read_text(encoding="utf-8")) == []
    readme = README.read_text(encoding="utf-8")
    assert missing_lines(readme, steps) == []
    told = readme.replace("0 answers that had arrived", "1 answer that had arrived")
    assert missing_lines(told + "```text\n$ vega dmeo\n```\n", steps) == [
        "  again  1 answer that had arrived were paid for again",
        "vega dmeo",
    ]
