"""`vega demo crash`, as a person would call it: a real kill, and the provider's own count."""

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.test_demo import COMMAND, place
from vegakit.cli.demo.crash import TOPICS, CrashSummary
from vegakit.money import Money

SEEN = CrashSummary(7, 4, 2, 9, 0, Money(50), Money(7), Money(3), 0, "")


def test_a_killed_run_goes_on_and_buys_nothing_again(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*COMMAND, "crash", "--fast", "--json"],
        env=place(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    facts: dict[str, Any] = json.loads(ran.stdout)
    assert facts["questions"] == len(TOPICS) + 1
    assert facts["arrived"] + facts["cut_off"] == len(TOPICS)
    assert facts["requests"] == facts["questions"] + facts["cut_off"]
    assert facts["bought_again"] == 0
    assert 0 < facts["unknown_usd"] < facts["spent_usd"] <= facts["at_most_usd"]


@pytest.mark.parametrize(
    "wrong",
    [{"bought_again": 1}, {"requests": 10}, {"spent": Money(51)}, {"status": 1}, {"output": "no"}],
)
def test_a_demo_that_shows_something_else_says_so(wrong: dict[str, Any]) -> None:
    right = msgspec.structs.replace(SEEN, output="Six lines about the sky, each paid for once.")
    assert right.holds
    assert not msgspec.structs.replace(right, **wrong).holds
