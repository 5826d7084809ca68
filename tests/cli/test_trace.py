"""`vega trace`, as a person would call it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.telemetry.calls import ASK, CALLS, FIRST, LAST, call, paid
from tests.telemetry.canaries import CANARIES
from vegakit.cli import main
from vegakit.cli.look import Look, Tone, cells
from vegakit.cli.trace import render_calls
from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.host import Agent
from vegakit.ids import SpanId, TraceId
from vegakit.money import Money
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.telemetry import line_of

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
    assert head.split() == [*"Trace Started Agent State Took Calls Tokens Cost".split()]
    assert first.split()[-4:] == ["s", "1", "1,042", "$0.0043"]
    assert last.startswith("abababababab")
    assert main(["trace", "--last", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("abababababab")


def test_it_shows_one_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the beginning of its id."""
    assert main(["trace", "aaa", "--file", write(project / "t", ONE, TWO)]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == [*"Call Agent State Took Tokens Cost".split()]
    assert line == "model anthropic:claude  Coder  ✓      2.3 s  150 → 892  $0.0043"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trace"], "no run was traced yet: there is no "),
        (["trace", "--file", "."], ". cannot be read: "),
        (["trace", "--file", "empty"], "empty holds no run yet\n  run an agent first"),
        (["trace", "c", "--file", "two"], "begins with 'c'\n  try: vega trace"),
        (
            ["trace", "a", "--file", "two"],
            "2 runs begin with 'a'\n  type more of one of: aaaaaaaaa, ",
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
    assert main(["trace"]) == 1
    assert "nothing is traced" in capsys.readouterr().err


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("count", ["0", "-1", "x"])
def test_a_count_is_a_count(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    """From one upward."""
    with pytest.raises(SystemExit):
        main(["trace", "--last", count])
    assert "expected a number from 1" in capsys.readouterr().err


TREE = """\
Call                       Agent  State          Took       Tokens     Cost
ask Coder                         ✓             5.0 s  300 → 1,784  $0.0086
├─ model anthropic:claude  Coder  ✓ retried 2×  2.3 s    150 → 892  $0.0043
├─ tool read               Coder  ✗ failed      12 ms
│  │  no such file
│  └─ event opened
└─ model anthropic:claude  Coder  ✓             2.3 s    150 → 892  $0.0043"""


def test_a_run_is_a_tree() -> None:
    """In the order of time; sums stand above, and nothing is counted twice."""
    assert render_calls(CALLS) == TREE


def test_an_answer_from_the_cache_says_so() -> None:
    """It took no tokens and cost nothing."""
    given = structs.replace(
        ONE, cached=True, input_tokens=0, output_tokens=0, cost=Money(0), retries=0
    )
    assert render_calls([given]).splitlines()[1].split() == [
        *("model", "anthropic:claude", "Coder", "✓", "cached", "2.3", "s"),
    ]


def test_failures_have_a_colour() -> None:
    """Only their sign and word."""
    look = Look(colour=True)
    assert look.paint("✗ failed", Tone.BAD) in render_calls(CALLS, look)


@pytest.mark.parametrize("width", [50, 60, 80, 140])
def test_a_long_text_moves_no_column(width: int) -> None:
    """It is broken below its row, and amounts stay whole."""
    long = call(
        3,
        kind=CallKind.TOOL,
        name="read_" + "x" * 200,
        parent_span=ASK.span_id,
        status=CallStatus.FAILED,
        error="because " * 20,
    )
    lines = render_calls([FIRST, long, LAST, ASK], Look(width=width)).splitlines()
    assert max(map(cells, lines)) <= width
    assert sum("$0.0043" in line for line in lines) == 2
    ends = {cells(line.rstrip()) for line in lines if line.endswith(("$0.0043", "$0.0086"))}
    assert len(ends) == 1


def test_a_model_cannot_steer_the_terminal() -> None:
    """Nor fill it."""
    text = render_calls([call(name="\x1b[2J\r" + "x" * 1000, error="\x07")])
    assert text.replace("\n", "").isprintable()
    assert len(text) < 500


def test_a_key_is_hidden_before_a_text_is_cut() -> None:
    """Half a key is a secret too."""
    met, secret = CANARIES["anthropic"]
    text = render_calls([call(error="x" * 185 + f" {met}")])
    assert secret[:8] not in text


def test_calls_without_their_parent_stand_at_the_top() -> None:
    """It is still running, or was not recorded."""
    lines = render_calls([LAST, FIRST]).splitlines()[1:]
    assert all(line.startswith("model anthropic:claude") for line in lines)


def test_deep_trees_and_circles_end() -> None:
    """A damaged file cannot hang the command."""
    chain = [
        call(n, kind=CallKind.SPAN, name="s", parent_span=SpanId(f"{n - 1:016x}"))
        for n in range(1, 3000)
    ]
    assert len(render_calls(chain).splitlines()) == 3000
    circle = [call(1, parent_span=SpanId(f"{2:016x}")), call(2, parent_span=SpanId(f"{1:016x}"))]
    assert render_calls(circle) == ""
    assert render_calls([]) == ""


def test_a_run_for_programs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same tree, money in dollars with all digits."""
    path = write(project / "t", *CALLS)
    assert main(["trace", "aaa", "--file", path, "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert (page["cost_usd"], page["calls"]) == (0.0086, 3)
    [top] = page["tree"]
    assert (top["agent"], top["cost_usd"]) == ("Coder", 0.0086)
    assert [child["kind"] for child in top["children"]] == ["model", "tool", "model"]
    assert main(["trace", "--file", path, "--json"]) == 0
    assert "tree" not in json.loads(capsys.readouterr().out)[0]


def test_it_shows_a_recorded_run_by_the_id_that_vega_runs_prints(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With all that was asked in it; a run that is not recorded has no such id."""
    one, two = (structs.replace(made, run="01a1e3fbe7ca") for made in (ONE, TWO))
    other = structs.replace(ONE, run="01a1e3ffffff", trace_id=TraceId("c" * 32))
    file = write(project / "t", one, two, other)
    assert main(["trace", "01a1e3fb", "--file", file]) == 0
    first, second = capsys.readouterr().out.split("\n\n")
    assert "model anthropic:claude" in first
    assert "model other" in second
    assert main(["trace", "01a1e3", "--file", file]) == 1
    told = capsys.readouterr().err
    assert "2 runs begin with '01a1e3'" in told
    assert "type more of one of: 01a1e3fbe7ca, 01a1e3ffffff\n" in told


def test_a_recorded_run_is_traced_under_its_id(tmp_path: Path) -> None:
    """Every call of it."""
    calls: list[CallTraced] = []

    class Sink:
        def record(self, call: CallTraced) -> None:
            calls.append(call)

        async def aclose(self) -> None:
            pass

    async def work() -> str:
        async with Runtime(trace=Sink(), journal=tmp_path / "run.db") as rt:
            await rt.ask(Agent("a", model=ScriptedModel("yes")), "?")
            return rt.program.id

    run = asyncio.run(work())
    assert [call.run for call in calls] == [run, run]


@pytest.mark.parametrize(
    ("facts", "is_told"),
    [
        ({"error": "rejected"}, True),
        ({"error": "rejected: no such model"}, False),
        ({"error": "rejected", "content": {"messages": []}}, False),
        ({}, False),
    ],
)
def test_it_says_how_to_see_the_words_of_an_error(
    facts: dict[str, Any], is_told: bool, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where they are not recorded."""
    path = write(project / "t", call(status=CallStatus.FAILED, **facts))
    assert main(["trace", "aaa", "--file", path]) == 0
    assert ("\n\nerrors by name only; " in capsys.readouterr().out) is is_told


def test_words_that_were_recorded_are_shown(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For people and for programs."""
    words = "AgentFailed: the map is empty"
    failed = call(kind=CallKind.ASK, status=CallStatus.FAILED, error=words, content=["a prompt"])
    path = write(project / "t", failed)
    assert main(["trace", "aaa", "--file", path]) == 0
    assert words in capsys.readouterr().out
    assert main(["trace", "aaa", "--file", path, "--json"]) == 0
    [top] = json.loads(capsys.readouterr().out)["tree"]
    assert (top["error"], top["content"]) == (words, ["a prompt"])
