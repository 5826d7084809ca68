"""What people complain about in coding agents: each trajectory of the campaign, with ours alone."""

import json
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from campaigns.code_complaints import complaints
from campaigns.code_complaints.agents import Order, Sage
from campaigns.code_complaints.bench import WATCH, Bench, Ran
from campaigns.code_complaints.trajectory import COMPLAINTS, PENDING, judge

from vegakit.cli import main

assert complaints.__all__, "importing them enters them into the table"


def test_there_are_enough_and_each_names_its_threads() -> None:
    assert len(COMPLAINTS) >= 25
    assert all(" #" in trajectory.threads for trajectory in COMPLAINTS.values())
    assert PENDING.keys() <= COMPLAINTS.keys()


def test_a_command_can_be_interrupted_however_the_campaign_was_started(tmp_path: Path) -> None:
    """Behind `&` of a shell, too, where Ctrl-C is ignored."""
    result = tmp_path / "result"
    asks = "import signal; exit(signal.getsignal(signal.SIGINT) != signal.default_int_handler)"
    watched = [sys.executable, "-SI", str(WATCH), str(result), "60", sys.executable, "-c", asks]
    ignoring = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *watched]
    subprocess.run(ignoring, stdin=subprocess.DEVNULL, check=True)
    assert json.loads(result.read_text())["status"] == 0


class Inside(Bench):
    """Starts the command in this process, which is quicker, where nobody kills it."""

    def ask(self, prompt: str, **how: Any) -> Ran:
        if how.get("when"):
            return super().ask(prompt, **how)
        known = {name: value for name, value in how.items() if name in Order._fields}
        out, err = StringIO(), StringIO()
        with (
            patch.dict(os.environ, self.environment, clear=True),
            chdir(self.folder),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            status = main(["code", *self.agent.words(Order(prompt, **known))])
        return Ran(status, out.getvalue(), err.getvalue(), "", [], 0, 0, 0, 0, 0)


OWN_PROCESS = {"orphans_after_the_end", "background_job", "a_million_lines"}
"""What these leave behind, or take, is seen from outside."""


def _entered(name: str) -> object:
    marks = [pytest.mark.xfail(reason=PENDING[name])] if name in PENDING else []
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [*map(_entered, COMPLAINTS)])
def test_sage_holds(name: str, tmp_path: Path) -> None:
    """What is pending must fail: one that holds is taken out of that table."""
    kind = Bench if name in OWN_PROCESS else Inside
    verdict = judge(Sage(), COMPLAINTS[name], tmp_path, kind)
    assert verdict.passed, verdict.cell
