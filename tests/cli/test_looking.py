"""`vega ps`, `tree`, `kill` and `logs`, as a person sees them."""

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cli.scene import ENTRIES, NOW, RUNTIME, VIEWS
from tests.runtime.viewing.conftest import watched
from vegakit.cli import main
from vegakit.cli.display import headings, limited, render_table, render_tree
from vegakit.cli.look import Look, Tone, cells
from vegakit.cli.processes import render_entry, render_killed
from vegakit.control import KillResult
from vegakit.money import Money, dollars

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")


@pytest.fixture(autouse=True)
def noon_in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times are shown by the clock of the machine."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


SEEN = limited(VIEWS, RUNTIME)


def test_the_table_says_what_each_does() -> None:
    """A column that has nothing to say is left out; what was written is not cut."""
    assert render_table(SEEN, NOW) == golden("ps")
    assert render_table(VIEWS[-1:], NOW).splitlines()[0].split() == [
        *"Process Kind State For Supervision Waiting for".split()
    ]


def test_the_tree_shows_who_started_whom() -> None:
    """Below two lines on the runtime itself."""
    assert "\n".join([*headings(RUNTIME), render_tree(SEEN, NOW)]) == golden("tree")


@pytest.mark.parametrize("width", [36, 40, 60, 80, 100, 140, 200])
def test_on_a_terminal_it_fits_and_has_all_its_money(width: int) -> None:
    """Whole columns give way; name, state, spent and left stay, and no amount is cut."""
    for render in (render_table, render_tree):
        lines = render(SEEN, NOW, Look(width=width)).splitlines()
        assert max(map(cells, lines)) <= width
        assert {"State", "Spent", "Left"} <= set(lines[0].split())
        for amount in ("$3.3900", "$2.1800", "$1.3200", "$1.2100", "$0.0001", "$6.5200"):
            assert amount in "\n".join(lines)


def test_colour_only_repeats_the_words() -> None:
    """Sign and state word have it, sentences never; without it the text is the same."""
    look = Look(colour=True, width=120)
    coloured = render_table(SEEN, NOW, look)
    assert look.paint("✗ stuck", Tone.BAD) in coloured
    uncoloured = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", coloured)
    assert uncoloured == render_table(SEEN, NOW, Look(width=120))


def test_a_log_is_lines_that_cannot_steer_a_terminal() -> None:
    """Time, process, what, and what it came to; the sign of a failure is red."""
    widest = max(len(entry.process) for entry in ENTRIES)
    lines = [render_entry(entry, widest) for entry in ENTRIES]
    assert "\n".join(lines) == golden("logs")
    look = Look(colour=True)
    assert look.paint("✗", Tone.BAD) in render_entry(ENTRIES[2], look=look)
    steering = replace(ENTRIES[2], note="\x1b[2J", process="\x1b[H")
    assert "\x1b" not in render_entry(steering)
    narrow = "\n".join(render_entry(entry, widest, Look(width=60)) for entry in ENTRIES)
    assert max(map(cells, narrow.splitlines())) <= 60
    assert "$0.0252" in narrow


def test_a_kill_says_what_is_left() -> None:
    """Also when that is not nothing."""
    assert render_killed(KillResult(("a", "a/b"), 0, 0, 0, ("a",))) == (
        "✓ ended: a, a/b\n"
        "  started again by its supervisor: a\n"
        "  try: vega kill --tree a\n"
        "  left: 0 processes, 0 tasks, 0 OS children"
    )
    assert render_killed(KillResult(("a",), 1, 2, 3)).endswith(
        "left: 1 process, 2 tasks, 3 OS children"
    )


def test_what_is_left_is_what_can_be_spent() -> None:
    """A wallet may hold more than the runtime around it still has."""
    tight = replace(RUNTIME, left=dollars("$0.25"))
    left = {view.path: view.left for view in limited(VIEWS, tight)}
    assert (left["team/coder"], left["digest"], left["inbox"]) == (dollars("$0.25"),) * 2 + (None,)


def test_what_is_left_of_a_quoted_run_is_what_it_still_comes_to() -> None:
    """Its cap may be far above that."""
    spent = max(view.spent for view in VIEWS)
    quoted = replace(RUNTIME, spent=spent, at_most=Money(spent + 70), left=dollars("$10"))
    left = {view.path: view.left for view in limited(VIEWS, quoted)}
    assert (left["digest"], left["inbox"]) == (Money(70), None)


def test_the_verbs_reach_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line, over a real socket."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("VEGA_OBSERVABLE_SOCKETS", str(tmp_path / "s"))
    assert main(["ps"]) == 1
    assert "error: no runtime can be looked into" in capsys.readouterr().err
    with watched(tmp_path / "s", "night") as process:
        assert main(["ps", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["runtime"]["os_pid"], len(told["processes"])) == (process.pid, 7)
        assert {"spent_usd", "left_usd", "reserved_usd"} <= told["runtime"].keys()
        assert main(["tree", "--json"]) == 0
        top = json.loads(capsys.readouterr().out)["processes"][0]
        assert (top["path"], top["children"][0]["parent"]) == ("team", "team")
        assert main(["tree", "--at", "night"]) == 0
        assert "│  └─ aide  function    ◐ working" in capsys.readouterr().out
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
