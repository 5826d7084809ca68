"""`vega ps`, `tree`, `kill` and `logs`, as a person sees them."""

import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cli.scene import ENTRIES, NOW, RUNTIME, VIEWS
from tests.runtime.viewing.conftest import watched
from vegakit.cli import main
from vegakit.cli.display import amount, duration, headings, render_table, render_tree
from vegakit.cli.processes import render_entry, render_killed
from vegakit.control import KillResult
from vegakit.money import Money, dollars

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")


def test_the_table_says_what_each_does() -> None:
    """A column that has nothing to say is left out; what was written is not cut."""
    assert render_table(VIEWS, NOW) == golden("ps")
    assert render_table(VIEWS[-1:], NOW).splitlines()[0].split() == [
        *"ID KIND STATE FOR HEALTH SUPERVISION WAITING FOR".split()
    ]


def test_the_tree_shows_who_started_whom() -> None:
    """Below two lines on the runtime itself."""
    assert "\n".join([*headings(RUNTIME), render_tree(VIEWS, NOW)]) == golden("tree")


def test_on_a_terminal_it_fits_and_has_colours() -> None:
    """The last column gives way, and without colours the text is the same."""
    narrow = render_table(VIEWS, NOW, width=120)
    assert max(map(len, narrow.splitlines())) == 120
    coloured = render_table(VIEWS, NOW, colour=True, width=120)
    assert "\x1b[31mstuck  \x1b[0m" in coloured
    for mark in ("\x1b[0m", *(f"\x1b[{code}m" for code in (2, 31, 32, 33, 36))):
        coloured = coloured.replace(mark, "")
    assert [line.rstrip() for line in coloured.splitlines()] == narrow.splitlines()


def test_a_log_is_lines_that_cannot_steer_a_terminal() -> None:
    """Time, process, what, and what it came to; failures are red."""
    widest = max(len(entry.process) for entry in ENTRIES)
    lines = [render_entry(entry, widest) for entry in ENTRIES]
    assert "\n".join(lines) == golden("logs")
    assert render_entry(ENTRIES[2], colour=True).startswith("\x1b[31m")
    steering = replace(ENTRIES[2], note="\x1b[2J", process="\x1b[H")
    assert "\x1b" not in render_entry(steering)


def test_a_kill_says_what_is_left() -> None:
    """Also when that is not nothing."""
    assert render_killed(KillResult(("a", "a/b"), 0, 0, 0, ("a",))) == (
        "ended: a, a/b\n"
        "started again by its supervisor: a; for good: vega kill --tree\n"
        "left: 0 processes, 0 tasks, 0 OS children"
    )
    assert render_killed(KillResult(("a",), 1, 2, 3)).endswith(
        "left: 1 processes, 2 tasks, 3 OS children"
    )


@pytest.mark.parametrize(
    ("ms", "said"),
    [(0, "0 ms"), (999, "999 ms"), (1_000, "1 s"), (59_999, "59 s"), (3_600_000, "1 h")],
)
def test_a_duration_is_its_largest_unit(ms: int, said: str) -> None:
    """Never rounded up."""
    assert duration(ms) == said


def test_an_amount_is_never_more_than_there_is() -> None:
    """Cents from a dollar on; below it, all that there is."""
    shown = [amount(money) for money in (Money(1_999_999_999), dollars("$0.0043"), None)]
    assert shown == ["$1.99", "$0.0043", "–"]


def test_the_verbs_reach_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line, over a real socket."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("VEGA_VIEW_SOCKETS", str(tmp_path / "s"))
    assert main(["ps"]) == 1
    assert "vega ps: no runtime can be looked into" in capsys.readouterr().err
    with watched(tmp_path / "s", "night") as process:
        assert main(["ps", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["runtime"]["os_pid"], len(told["processes"])) == (process.pid, 7)
        assert main(["tree", "--at", "night"]) == 0
        assert "│  │  └─ aide  function    running" in capsys.readouterr().out
        assert main(["logs", "critic", "--at", str(process.pid)]) == 0
        assert "team/critic  ask        critic" in capsys.readouterr().out
        assert main(["logs", "critic", "--json"]) == 0
        first = json.loads(capsys.readouterr().out.splitlines()[0])
        assert (first["process"], first["what"]) == ("team/critic", "spawned")
        assert main(["kill", "--tree", "team"]) == 0
        assert capsys.readouterr().out.endswith("left: 0 processes, 0 tasks, 0 OS children\n")
        assert main(["ps"]) == 0
        assert "team" not in capsys.readouterr().out


def test_top_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where Textual is missing."""
    monkeypatch.setitem(sys.modules, "textual", None)
    assert main(["top"]) == 1
    assert "pip install 'vegakit[tui]'" in capsys.readouterr().err
