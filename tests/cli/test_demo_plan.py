"""`vega demo plan`, as a person would call it: a plan is priced, refused, corrected, and run."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_demo import COMMAND, place
from vegakit.cli import main
from vegakit.cli.demo import plan as demo_plan
from vegakit.cli.look import Look
from vegakit.money import dollars

PLAN = [*COMMAND, "plan", "--fast"]


def test_the_facts_hold(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing before acceptance, nothing above the quote, all of it in the ledger, nothing left."""
    assert main(["demo", "plan", "--fast", "--json"]) == 0
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert facts["refusal"].startswith("refused (cost), nothing was run")
    assert "Most expensive is line 3" in facts["refusal"]
    assert facts["asked"] == 0
    assert facts["calls"] == facts["account"]["calls"] == 360
    assert dollars(facts["account"]["spent"]) < dollars(facts["account"]["quote"]) < dollars("$1")
    assert facts["spent_usd"] == facts["ledger_usd"]
    assert facts["alone_s"] > facts["wall_s"]
    assert facts["processes_left"] == 0


def test_a_pipe_gets_plain_lines(tmp_path: Path) -> None:
    """In order: the plan, its most expensive line, the refusal, the fixed plan, the account."""
    ran = subprocess.run(
        PLAN, env=place(tmp_path), cwd=tmp_path, capture_output=True, check=True, timeout=60
    )
    text = ran.stdout.decode()
    assert ran.stderr == b""
    assert "\x1b" not in text
    assert "\r" not in text
    told = [
        "◂ most expensive",
        "refused, it may cost $",
        "fixes it",
        "accepted, typical $",
        "quote  ",
        "answer",
    ]
    assert [text.index(each) for each in told] == sorted(text.index(each) for each in told)
    assert re.search(r"3 │ +async analyst .*◂ most expensive", text)
    assert max(map(len, text.splitlines())) <= 100


async def test_a_terminal_sees_it_move() -> None:
    """The bar is wiped away at the end, and the cursor is back."""
    out = io.StringIO()
    screen = demo_plan.PlanScreen(out, Look(colour=True, width=100, moves=True))
    facts = await demo_plan.play(screen, 0.3)
    assert facts.holds
    text = out.getvalue()
    assert "\x1b[?25l" in text
    assert text.rindex("\x1b[?25h") > text.rindex("█")
    assert "of 355 skimmed" in text


def test_a_reader_that_leaves_is_no_failure(tmp_path: Path) -> None:
    """As `head` does."""
    shell = f"{' '.join(PLAN)} | head -n 3"
    ran = subprocess.run(
        ["bash", "-o", "pipefail", "-c", shell],
        env=place(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert b"Traceback" not in ran.stderr
    assert sys.executable in shell
