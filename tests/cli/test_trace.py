"""`vega trace`, as a person would call it."""

from pathlib import Path

import pytest

from tests.telemetry.calls import call, paid
from vegakit.cli import main
from vegakit.events import CallTraced
from vegakit.ids import TraceId
from vegakit.telemetry.jsonl import line_of

ONE = paid(1)
TWO = call(2, trace_id=TraceId("ab" * 16), name="other")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory that exists for one test only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("VEGA_DATA_DIR", str(tmp_path / "made"))
    return tmp_path


def write(path: Path, *calls: CallTraced) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(map(line_of, calls)))
    return str(path)


def test_it_lists_the_last_runs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the file that the settings name; the latest stands last."""
    write(project / "made" / "traces.jsonl", ONE, TWO)
    assert main(["trace"]) == 0
    head, first, last = capsys.readouterr().out.splitlines()
    assert head.split() == ["ID", "STARTED", "AGENT", "STATUS", "CALLS", "TOKENS", "COST"]
    assert first.split()[-4:] == ["ok", "1", "1,042", "$0.0043"]
    assert last.startswith("abababababab")
    assert main(["trace", "--last", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        head.replace("AGENT            ", "AGENT  "),
        last,
    ]


def test_it_shows_one_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the beginning of its id."""
    assert main(["trace", "aaa", "--file", write(project / "t", ONE, TWO)]) == 0
    assert capsys.readouterr().out == "model anthropic:claude  2.34 s  150 → 892  $0.0043\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trace"], "no run was traced yet: there is no "),
        (["trace", "--file", "."], ". cannot be read: "),
        (["trace", "--file", "empty"], "empty holds no run yet; run an agent first"),
        (["trace", "c", "--file", "two"], "begins with 'c'; to see them, type: vega trace"),
        (
            ["trace", "a", "--file", "two"],
            "2 runs begin with 'a'; type more of one of: aaaaaaaaa, ",
        ),
    ],
)
def test_what_went_wrong_and_what_to_type(
    words: list[str], message: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, and status 1."""
    write(project / "two", ONE, TWO)
    write(project / "empty")
    assert main(words) == 1
    assert message in capsys.readouterr().err


def test_a_whole_id_is_never_ambiguous(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Even if another begins with it."""
    longer = call(2, trace_id=TraceId("a" * 33))
    assert main(["trace", "a" * 32, "--file", write(project / "t", ONE, longer)]) == 0
    assert "$0.0043" in capsys.readouterr().out


@pytest.mark.usefixtures("project")
def test_traces_may_be_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    """Then the command says how to turn them on."""
    (project / "vega.toml").write_text('[telemetry]\njsonl = ""')
    main(["config", "trust"])
    assert main(["trace"]) == 1
    assert "nothing is traced" in capsys.readouterr().err


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("count", ["0", "-1", "x"])
def test_a_count_is_a_count(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    """From one upward."""
    with pytest.raises(SystemExit):
        main(["trace", "--last", count])
    assert "expected a number from 1" in capsys.readouterr().err
