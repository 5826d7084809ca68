"""`vega demo`, as a person would call it: what it promises is there, and it is true."""

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from vegakit.cli import demo, main
from vegakit.cli.demo.screen import LiveScreen
from vegakit.cli.look import Look
from vegakit.events import CallKind
from vegakit.money import NANOS
from vegakit.telemetry import TracedRun, load_runs

COMMAND = [sys.executable, "-m", "vegakit", "demo"]
CONTROL = re.compile(r"[^\n -~\u00a0-\uffff]")
STYLE = re.compile(r"\x1b\[[\d;]*m")


def place(directory: Path, **more: str) -> dict[str, str]:
    """An environment whose home and data are in `directory`."""
    there = str(directory)
    own = {"HOME": there, "USERPROFILE": there, "VEGA_DATA_DIR": there, "PYTHONUTF8": "1"}
    return {**os.environ, **own, **more}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """At its own pace, piped, from another directory."""
    there = tmp_path_factory.mktemp("played")
    ran = subprocess.run(
        COMMAND, cwd=there, env=place(there), capture_output=True, check=True, timeout=60
    )
    assert ran.stderr == b""
    return there, ran.stdout.decode()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, value in place(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def facts_of(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["demo", "--fast", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "promise",
    [
        r"✗ reviewer    crashed: KeyError: 'score'\n",
        r"↻ reviewer    back in \d+\.\d ms: same message, same wallet \(\$0\.00\d+ used\)\n",
        r"⊘ illustrator agent illustrator: the next call could cost \$0\.10013, which is more than",
        r"left for release/illustrator; raise its wallet or budget, or lower max_tokens\n",
        r"◌ announcer   its breaker opened: 3 failures in a row\n",
        r"⊘ announcer   agent announcer has failed too often and is left alone for \d+ ms more;",
        r"✓ announcer   its breaker closed: the provider is back\n",
        r"├─ reviewer         ✓ approved +↻ 1  \$0\.00078\n",
        r"├─ illustrator      ⊘ refused, nothing sent +\$0\.00000\n",
        r"restart  reviewer: KeyError: 'score', back in \d+\.\d ms, same message, same wallet\n",
        r"breaker  announcer: opened 1×, then 1 call not sent, closed 1×\n",
        r"money    \$0\.03546 of \$1, nothing wasted; ledger, wallets and traces agree\n",
        r"time     \d\.\d s; one call after another takes \d+\.\d s: -?\d+\.\d s saved\n",
        r"left     0 processes, 0 tasks\n",
    ],
)
def test_what_is_promised_is_shown(promise: str, played: tuple[Path, str]) -> None:
    """In plain words."""
    assert re.search(promise, played[1])


def test_a_pipe_gets_plain_text(played: tuple[Path, str]) -> None:
    """No colours, no cursor, and one line for each event."""
    assert CONTROL.findall(played[1]) == []
    assert len(re.findall(r"^ +\d\.\d s  . \w", played[1], re.MULTILINE)) == 17


def test_what_to_type_next_works(
    played: tuple[Path, str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trace is where it says, and has the crash in it."""
    (words,) = re.findall(r"next +vega (trace \w+)  ", played[1])
    monkeypatch.setenv("VEGA_DATA_DIR", str(played[0]))
    shown = subprocess.run(
        [*COMMAND[:-1], *words.split()], capture_output=True, check=True, cwd=here
    ).stdout.decode()
    assert re.search(r"^span release .* \$0\.0355$", shown, re.MULTILINE)
    assert "event reviewer crashed: crashed: KeyError: 'score'" in shown
    assert f"trace    {played[0] / 'traces.jsonl'}" in played[1]


@pytest.mark.usefixtures("here")
def test_the_books_agree_with_the_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """Added up here once more, agent by agent."""
    facts = facts_of(capsys)
    (run,) = load_runs(Path(facts["trace_file"]), facts["trace_id"])
    spent = Counter[str]()
    for call in run.billed:
        spent["reviewer" if call.agent == "critic" else call.agent] += call.cost
    members = {m["path"].rpartition("/")[2]: m["spent_usd"] for m in facts["members"]}
    assert members == {"illustrator": 0} | {
        name: cost / NANOS for name, cost in spent.items() if cost
    }
    assert set(facts["books"].values()) == {sum(spent.values()) / NANOS} == {0.03546}
    assert facts["wasted_usd"] == 0


@pytest.mark.usefixtures("here")
def test_each_misfortune_happened_once(capsys: pytest.CaptureFixture[str]) -> None:
    """As the trace has it, too: three calls failed, and the two that were refused were not sent."""
    facts = facts_of(capsys)
    (run,) = load_runs(Path(facts["trace_file"]), facts["trace_id"])
    seen = facts["seen"]
    assert (seen["restarts"], seen["breaker_opened"], seen["breaker_closed"]) == (1, 1, 1)
    assert [m["restarts"] for m in facts["members"] if "reviewer" in m["path"]] == [1]
    models = [call for call in run.calls if call.kind is CallKind.MODEL]
    assert Counter(call.status for call in models) == {"ok": 9, "failed": 3}
    assert not [call for call in models if call.agent == "illustrator"]


@pytest.mark.usefixtures("here")
def test_nothing_is_left_running(capsys: pytest.CaptureFixture[str]) -> None:
    """No process, no task, no thread."""
    before = {*threading.enumerate()}
    facts = facts_of(capsys)
    assert (facts["processes_left"], facts["tasks_left"]) == (0, 0)
    assert {*threading.enumerate()} <= before


@pytest.mark.usefixtures("here")
def test_books_that_disagree_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A call that the trace has lost costs the demo its good end."""

    def forgetful(path: Path, wanted: str) -> list[TracedRun]:
        (run,) = load_runs(path, wanted)
        return [TracedRun(run.trace_id, [call for call in run.calls if call.agent != "critic"])]

    monkeypatch.setattr(demo, "load_runs", forgetful)
    assert main(["demo", "--fast"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "but wallets say $0.03546, traces $0.03468" in told


def test_settings_that_cannot_be_read_do_not_stop_it(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trace is then elsewhere, and what to type says where."""
    monkeypatch.setattr(tempfile, "tempdir", str(here))
    (here / "vega.toml").write_text("nonsense = 1")
    words = facts_of(capsys)["trace_command"].split()
    assert words[-2] == "--file"
    assert main(words[1:]) == 0
    assert "$0.0355" in capsys.readouterr().out


@pytest.mark.usefixtures("here")
def test_in_a_terminal_only_the_last_tree_remains() -> None:
    """The frames before it are wiped away, the events stay, and the cursor comes back."""
    out = io.StringIO()
    asyncio.run(demo.play(LiveScreen(out, Look(colour=True, width=80)), 0.05))
    written = STYLE.sub("", out.getvalue())
    screen = shown_by_a_terminal(written)
    assert written.count("└─ announcer") > 3
    assert sum("└─ announcer" in line for line in screen) == 1
    assert sum("its breaker opened" in line for line in screen) == 1
    assert max(map(len, screen)) <= 80
    assert written.rpartition("\x1b[?25")[2].startswith("h")


def shown_by_a_terminal(written: str) -> list[str]:
    """One that knows lines, `up`, `wipe` and the cursor's two signs."""
    screen, row = [""], 0
    for piece in re.split(r"(\n|\r|\x1b\[\d+A|\x1b\[J|\x1b\[\?25[lh])", written):
        if piece == "\n":
            row += 1
            screen.extend([""] * (row + 1 - len(screen)))
        elif piece.endswith("A") and piece.startswith("\x1b"):
            row -= int(piece[2:-1])
        elif piece == "\x1b[J":
            screen[row:] = [""]
        elif not piece.startswith(("\r", "\x1b")):
            screen[row] += piece
    return screen


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_colours_unless_told_otherwise(
    no_colour: str, *, coloured: bool, tmp_path: Path
) -> None:
    """NO_COLOR takes the colours, and leaves the moving screen."""
    import pty

    ours, theirs = pty.openpty()
    environment = place(tmp_path, TERM="xterm", NO_COLOR=no_colour, COLUMNS="80", LINES="24")
    command = [*COMMAND, "--fast"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=theirs) as running:
        os.close(theirs)
        written = b"".join(iter(lambda: read(ours), b""))
    os.close(ours)
    assert running.returncode == 0
    assert (re.search(rb"\x1b\[[0-9;]+m", written) is not None) == coloured


def read(terminal: int) -> bytes:
    """Linux answers the end of a terminal with an error."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_an_interrupt_ends_it_quietly(tmp_path: Path) -> None:
    """No traceback, and the status that shells expect."""
    with subprocess.Popen(
        COMMAND, cwd=tmp_path, env=place(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        while b"release  " not in running.stdout.readline():
            pass
        running.send_signal(signal.SIGINT)
        _, complaints = running.communicate(timeout=30)
    assert (running.returncode, complaints) == (130, b"")


def test_a_reader_may_leave_early(tmp_path: Path) -> None:
    """As `head` does: it plays to its end, without a traceback."""
    with subprocess.Popen(
        [*COMMAND, "--fast"],
        cwd=tmp_path,
        env=place(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0
