"""What is said to a newcomer who does something wrong: kept, read, and said again.

To keep another text, type: python -m campaigns.wrong_uses --write; then read the difference.
"""

import os
import signal
import subprocess
import sys

import pytest
from campaigns.wrong_uses.page import (
    KEPT,
    TRACEBACK,
    Said,
    as_said,
    documented,
    faults,
    pages,
    said,
)
from campaigns.wrong_uses.stage import Stage, place
from campaigns.wrong_uses.table import GROUPS, SCRIPT, WRONG, Wrong

TYPED = [
    "an option that is misspelt",
    "a program with a mistake",
    "no key",
    "a runtime that is not open",
]
"""Typed as a person types it: what the stage does must be what `vega` and `python` do."""


def kept() -> dict[str, str]:
    return pages(KEPT.read_text(encoding="utf-8"))


def test_every_wrong_use_is_kept_once() -> None:
    """In the order of the table, and there are enough of them."""
    names = [wrong.name for wrong in WRONG]
    assert [*kept()] == names
    assert len(names) == len(set(names)) >= 60


@pytest.mark.parametrize("group", GROUPS)
def test_a_wrong_use_is_told_as_it_is_kept(group: str) -> None:
    """In a process of its own, in a clean folder, with clean variables; nothing is wrong with any
    of the messages."""
    stage, before = Stage(), kept()
    try:
        found = [said(wrong, stage) for wrong in GROUPS[group]]
    finally:
        stage.close()
    assert [fault for one in found for fault in faults(one)] == []
    assert {one.wrong.name: one.text for one in found} == {
        wrong.name: before[wrong.name] for wrong in GROUPS[group]
    }


@pytest.mark.parametrize("wrong", [one for one in WRONG if one.name in TYPED], ids=lambda w: w.name)
def test_the_stage_does_what_a_person_types(wrong: Wrong) -> None:
    words = [SCRIPT] if wrong.script else ["-m", "vegakit", *wrong.words]
    with place(wrong) as here:
        ran = subprocess.run(
            [sys.executable, *words],
            cwd=here.work,
            env=here.variables(wrong),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        typed = as_said(wrong, ran.returncode, ran.stdout, here)
    assert typed.text == kept()[wrong.name]


def test_statuses_are_documented() -> None:
    """Those that the table of wrong uses expects, and no others but success, a run that needs
    consent, and signals."""
    signals = {signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM}
    by_signals = {128 + number for number in signals}
    assert documented() == {wrong.status for wrong in WRONG} | {0, 3} | by_signals


COMMAND = Wrong("it", ["run"])
PROGRAM = Wrong("it", script="…", error="StoreError")
BAD = {
    "its status is 0, not 1": Said(COMMAND, 0, "$ vega run\nerror: no; write one\n[status 0]\n"),
    "status 4 is no documented failure": Said(COMMAND, 4, "$ vega run\nerror: write\n[status 4]\n"),
    "it shows a traceback": Said(
        COMMAND, 1, f"$ vega run\n{TRACEBACK}\nerror: write\n[status 1]\n"
    ),
    "it does not say what to do": Said(COMMAND, 1, "$ vega run\nerror: it failed\n[status 1]\n"),
    "it is longer than 900 characters": Said(
        COMMAND, 1, f"$ vega run\nerror: write {'x' * 900}\n[status 1]\n"
    ),
    "it does not say error or refused": Said(COMMAND, 1, "$ vega run\nwrite one\n[status 1]\n"),
    "it does not say StoreError": Said(
        PROGRAM, 1, "$ python main.py\nKeyError: write\n[status 1]\n"
    ),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_message_is_found(fault: str) -> None:
    """These tests can fail, each by its own rule."""
    assert f"it: {fault}" in list(faults(BAD[fault]))


def test_no_variable_of_ours_reaches_a_wrong_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of whoever runs the tests must not make a wrong use right."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "mine")
    (wrong,) = (one for one in WRONG if one.name == "no key")
    with place(wrong) as here:
        assert here.variables(wrong).keys() == {"HOME", "PATH", "TZ", "VEGA_TRUSTED_FOLDERS"}
        assert os.environ["ANTHROPIC_API_KEY"] == "mine"
