"""`vega rollout` as a person types it: real processes, default settings, a clean folder."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from campaigns.screens import Place, captured, faults

from tests.durability.commands import Ended
from tests.patience import wait_until
from vegakit.cli import main
from vegakit.cli.look import Look
from vegakit.cli.rollout_page import render_status
from vegakit.concurrency import SteadyClock
from vegakit.contracts import (
    Evidence,
    EvidenceHistory,
    EvidencePoint,
    PairedTally,
    Rollout,
    RolloutRule,
    StageChange,
    Tally,
)
from vegakit.records import to_json
from vegakit.store import SqliteStore
from vegakit.testing import Hang, Provider, Script
from vegakit.vesper import RolloutRecord, RolloutStatus, open_rollouts
from vegakit.vesper.evidence import HISTORIES, STATES, RecordedChange, RolloutSubject

NUMBERS = """\
from vegakit.vesper import RolloutRule, by_field, rollout


async def double(number, more=0):
    return 2 * number + more


async def shift(number, more=0):
    return (number << 1) + more if number != 13 else "thirteen"


def doubled(rt):
    return rollout(rt, "double", reference=double, candidate=shift, rule=RolloutRule(calibration=0))


def parity(rt):
    return rollout(
        rt, "parity", reference=double, candidate=shift, rule=RolloutRule(calibration=0),
        input_class=lambda number: "odd" if number % 2 else "even",
    )


def nothing(rt):
    return "rollout"


def needs_more(rt, other):
    return doubled(rt)
"""
PROGRAM = """\
import asyncio, sys
from numbers_of import doubled
from vegakit import Runtime


async def main():
    async with Runtime.from_config() as rt, doubled(rt) as double:
        await double(1)
        await double.settle()
        print(double.status().mode, flush=True)
        for line in sys.stdin:
            await double(2)
            print(double.status().mode, flush=True)


asyncio.run(main())
"""


class Person:
    """A person with a home and a folder, which is trusted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        (self.folder / "numbers_of.py").write_text(NUMBERS)
        passed = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        self.variables = {"HOME": str(folder), "TZ": "UTC", "OPENAI_API_KEY": "a-key", **passed}
        self.variables["VEGA_TRUSTED_FOLDERS"] = str(folder)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def vega(self, *words: str) -> Ended:
        process = self.start("-m", "vegakit", *words)
        out, err = process.communicate("", timeout=120)
        return Ended(process.returncode, out, err)

    def rollout(self, *words: str) -> Ended:
        return self.vega("rollout", *words)

    def json(self, *words: str) -> Any:
        ended = self.rollout(*words, "--json")
        assert ended.status == 0, ended
        return json.loads(ended.out)


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_nothing_is_kept_at_first(person: Person) -> None:
    """Looking makes no file, and says what to type."""
    listed = person.rollout("list")
    assert (listed.status, listed.err) == (0, "")
    assert "vega rollout start FILE.py:NAME" in listed.out
    assert person.json("list") == []
    assert "no rollout is kept in" in person.rollout("status").err
    assert not [*person.folder.parent.rglob("vega.db")]


def test_inputs_make_evidence_before_production(person: Person) -> None:
    """A line is a call; what differs is shown, and counted apart from production."""
    (person.folder / "in.jsonl").write_text('1\n[2, 3]\n{"number": 4, "more": 1}\n\n13\n')
    started = person.rollout("start", "numbers_of.py:doubled", "--inputs", "in.jsonl")
    assert started.status == 1, started
    assert "4 inputs: 3 agree, 1 differ\n  5: 13\n     reference  26\n" in started.out
    assert "candidate  thirteen\n" in started.out
    assert "Generated    4 compared, 1 differ; counted apart" in started.out
    [status] = person.json("status", "double")
    assert status["generated"] == {"runs": 4, "failures": 1}
    assert status["production"] == {"runs": 0, "failures": 0}
    assert (status["mode"], status["stage"]) == ("shadow", 1)
    ended = person.rollout("start", "numbers_of.py:doubled", "--inputs", "in.jsonl", "--json")
    again = json.loads(ended.out)
    assert (again["is_new"], again["agree"], again["differ"]) == (False, 3, 1)
    assert again["status"][0]["generated"] == {"runs": 8, "failures": 2}
    (person.folder / "in.jsonl").write_text("1\n2\n")
    assert person.rollout("start", "numbers_of.py:doubled", "--inputs", "in.jsonl").status == 0
    told = person.rollout("status", "double", "--class", "zz").err
    assert "rollout double has no input classes, so none 'zz'" in told


def test_inputs_that_cannot_be_compared_are_no_success(person: Person) -> None:
    """Nobody has shown anything then."""
    (person.folder / "in.jsonl").write_text('[1, "a"]\n')
    started = person.rollout("start", "numbers_of.py:doubled", "--inputs", "in.jsonl")
    assert "1 input: 0 agree, 0 differ, 1 could not be compared" in started.out
    assert started.status == 1


def test_a_person_steers_what_a_program_runs(person: Person) -> None:
    """Both with default settings: the program takes a decision up by itself."""
    (person.folder / "program.py").write_text(PROGRAM)
    with person.start("program.py") as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stdout.readline() == "shadow\n"
        [status] = person.json("status")
        assert status["production"] == {"runs": 1, "failures": 0}
        assert status["subject"]["candidate"] == "shift"
        stopped = person.rollout("stop", "double", "--reason", "a holiday")
        assert stopped.status == 0, stopped
        assert stopped.err == ""
        mode = "shadow\n"
        while mode == "shadow\n":  # until its news is a second old
            running.stdin.write("go on\n")
            running.stdin.flush()
            mode = running.stdout.readline()
        assert mode == "reference_only\n"
        running.stdin.close()
        assert running.wait(60) == 0
    [change] = person.json("status")[0]["changes"]
    assert change["change"]["reason"] == "a holiday"
    assert change["change"]["by"]


def test_promotion_to_direct_tells_how_long_faults_stay(person: Person) -> None:
    """Before it is done; and who decided what is kept, in its order, in the store that is named."""
    own = ("--store", "own.db")
    person.json("start", "numbers_of.py:doubled", *own)
    for _ in range(3):
        assert person.rollout("promote", *own).err == ""
    last = person.rollout("promote", "double", *own)
    assert "1 % of calls is found after 29,956 calls" in last.err
    assert last.out.startswith("✓ rollout double: promoted to direct_only, by ")
    demoted = person.json("demote", "--reason", "too early", *own)
    assert (demoted[0]["after"], demoted[0]["reason"]) == ("dual_verify", "too early")
    [status] = person.json("list", *own)
    assert {"fault": 0.01, "calls": 29956} in status["detection"]
    assert [each["change"]["after"] for each in status["changes"]] == [2, 3, 4, 5, 4]
    page = person.rollout("status", *own).out
    assert "Held         too early; to let it go on, type: vega rollout promote double" in page
    assert "\x1b" not in page
    assert person.json("list") == [], "nothing of it is in the journal of the user"


def test_input_classes_are_steered_apart(person: Person) -> None:
    """Promoting asks which one; stopping stops all of them."""
    (person.folder / "in.jsonl").write_text("1\n2\n")
    person.json("start", "numbers_of.py:parity", "--inputs", "in.jsonl")
    which = person.rollout("promote", "parity")
    assert which.status == 1
    assert "type: vega rollout promote parity --class even" in which.err.replace("try", "type")
    person.json("promote", "parity", "--class", "odd")
    stages = {one["input_class"]: one["stage"] for one in person.json("status", "parity")}
    assert stages == {"even": 1, "odd": 2}
    assert len(person.json("stop", "parity")) == 2
    assert [one["mode"] for one in person.json("list")] == ["reference_only"] * 2


class Hook(BaseHTTPRequestHandler):
    heard: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        self.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        return


def test_a_decision_at_the_terminal_is_told_to_a_webhook(person: Person) -> None:
    """The command ends when it is."""
    person.json("start", "numbers_of.py:doubled")
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.handle_request).start()
        url = f"http://127.0.0.1:{server.server_port}/hook"
        person.json("promote", "--reason", "looked", "--webhook", url)
    [heard] = Hook.heard
    assert (heard["rollout"], heard["after"], heard["reason"]) == ("double", "canary", "looked")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["start", "numbers_of.py"], "vega rollout start review.py:review"),
        (["start", "none.py:doubled"], "there is no file none.py"),
        (
            ["start", "numbers_of.py:missing"],
            "has no function 'missing' its functions are: double, ",
        ),
        (["start", "numbers_of.py:nothing"], "returned str and no rollout"),
        (["start", "numbers_of.py:needs_more"], "cannot be called with a runtime"),
        (["start", "bad.py:x"], "bad.py, line 1, is no Python"),
        (["start", "numbers_of.py:doubled", "--inputs", "none.jsonl"], "none.jsonl cannot be read"),
        (["start", "numbers_of.py:doubled", "--inputs", "bad.py"], "bad.py, line 1, is no JSON"),
        (["start", "numbers_of.py:doubled", "--at-once", "0"], "at least one call"),
        (["status", "none"], "no rollout is kept in"),
        (["list", "--store", "typo/x.db"], "there is no store at typo/x.db"),
        (["pause"], "none of start, status, promote"),
    ],
)
def test_wrong_uses_are_told(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is wrong, and what to type."""
    person = Person(tmp_path)
    (person.folder / "bad.py").write_text("def x(:\n")
    monkeypatch.chdir(person.folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("VEGA_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    with suppress(SystemExit):  # which ends wrong usage
        assert main(["rollout", *words]) == 1
    assert said in " ".join(capsys.readouterr().err.split())


SETTINGS = """
[models]
fast = "openai:test"
[providers.openai]
base_url = "{url}/v1"
[prices."openai:test"]
input = "$1"
output = "$1"
"""
AGENTS = """\
from vegakit import Agent
from vegakit.vesper import rollout

large = Agent("sorter", model="fast", instructions="Sort.", max_tokens=20)
small = Agent("sorter", model="fast", instructions="Sort the letter.", max_tokens=20)


def sort(rt):
    return rollout(rt, "sort", reference=large, candidate=small)
"""


def test_a_start_that_was_killed_goes_on(person: Person) -> None:
    """Answers that had come are not bought again, and no input is counted twice."""
    script: Script = {"one": "invoice", "two": ["invoice", Hang(), "letter"]}
    with Provider(script).in_thread() as provider:
        (person.folder / "vega.toml").write_text(SETTINGS.format(url=provider.url))
        (person.folder / "sort.py").write_text(AGENTS)
        (person.folder / "in.jsonl").write_text('"one"\n"two"\n')
        words = ("start", "sort.py:sort", "--inputs", "in.jsonl", "--at-once", "1")
        with person.start("-m", "vegakit", "rollout", *words) as started:
            wait_until(lambda: len(provider.requests) >= 4 or started.poll() is not None)
            assert started.poll() is None, started.communicate()
            started.kill()
        gone_on = person.vega("resume")
        assert gone_on.status == 1, "an input differs"
        asked = [request.text for request in provider.requests]
    assert asked == ["one", "one", "two", "two", "two"]
    [status] = person.json("status")
    assert status["generated"] == {"runs": 2, "failures": 1}
    assert status["subject"]["reference"] == 'sorter (fast), prompt "Sort."'


def test_a_start_is_quoted_before_anybody_is_asked(person: Person) -> None:
    """At most, typically and when it pays; what was quoted for the inputs is what they may cost."""
    with Provider({"": "invoice"}).in_thread() as provider:
        settings = SETTINGS.format(url=provider.url).replace(
            "[providers", 'large = "openai:l"\n[providers'
        )
        (person.folder / "vega.toml").write_text(
            f'{settings}[prices."openai:l"]\ninput = "$9"\noutput = "$9"\n'
        )
        (person.folder / "sort.py").write_text(AGENTS.replace('"fast"', '"large"', 1))
        (person.folder / "in.jsonl").write_text('"one"\n{"prompt": "two"}\n')
        (person.folder / "away.jsonl").write_text('"never asked"\n')
        started = person.rollout("start", "sort.py:sort", "--inputs", "in.jsonl")
        assert started.status == 0, started
        quoted, _, rest = started.out.partition("\n\n")
        lines = quoted.splitlines()
        assert lines[0].startswith("verification of sort: at most $")
        assert ", typical $" in lines[0]
        assert "nobody was asked yet" in lines[1]
        assert lines[-2].startswith("the candidate pays for it after ")
        assert lines[-1].startswith("comparing these 2 inputs: at most $")
        assert rest.startswith("✓ 2 inputs: 2 agree, 0 differ, for $")
        asked = len(provider.requests)
        words = ("start", "sort.py:sort", "--inputs", "away.jsonl", "--budget", "$0.000001")
        refused = person.rollout(*words, "--json")
        assert refused.status == 1, "nothing could be compared"
        too_small = json.loads(refused.out)
        assert len(provider.requests) == asked, "the wallet refused what it cannot hold"
        assert (too_small["unknown"], too_small["spent_usd"]) == (1, 0)
        assert too_small["quote"]["examples_at_most_usd"] == 1e-6
        again = person.json("start", "sort.py:sort", "--inputs", "in.jsonl")
    quote = again["quote"]
    assert quote["answers"] == 2, "now it is known what answers cost"
    assert 0 < quote["examples_typical_usd"] < quote["examples_at_most_usd"]
    assert 0 < again["spent_usd"] <= quote["examples_at_most_usd"]
    assert quote["break_even_calls"] > quote["stages"][-1]["calls"] > 0
    assert quote["typical_usd"] < quote["at_most_usd"]


# The page.


def stored(place: Path, *, noisy: bool = False, breaches: int = 0) -> None:
    """A rollout with a long history, as a program would have kept it."""
    evidence = Evidence(
        "0123456789ab",
        production=Tally(20_000, 400 if noisy else breaches),
        breaches=breaches,
        noise=Tally(100, 2 if noisy else 0),
        pairs=PairedTally(400, 19_200, 400) if noisy else PairedTally(),
    )
    machine = Rollout("review", RolloutRule(), evidence, stage=4)
    changes = [
        RecordedChange(runs * 1000, StageChange(n, n + 1, f"after {runs:,} runs"), runs)
        for n, runs in ((1, 1_000), (2, 3_000), (3, 9_000))
    ]
    subject = RolloutSubject("reviewer (large)", "reviewer (small)", "exact")
    record = RolloutRecord(machine, changes=changes, subject=subject, at_ms=20_000_000)
    history = EvidenceHistory()
    for runs in range(80, 20_001, 80):
        pairs = PairedTally(runs // 50, runs - 2 * (runs // 50), runs // 50)
        failures = runs // 50 if noisy else 0
        history.add(
            EvidencePoint(runs * 1000, Tally(runs, failures), pairs if noisy else PairedTally())
        )

    async def put() -> None:
        store = SqliteStore(place)
        key = "review/0123456789ab/"
        await store.put(STATES, key, to_json(record), expected=0)
        await store.put(HISTORIES, key, to_json(history), expected=0)
        await store.aclose()

    asyncio.run(put())


def status_in(place: Path) -> RolloutStatus:
    async def read() -> RolloutStatus:
        async with open_rollouts(str(place), SteadyClock()) as kept:
            [found] = await kept.named("review")
            return await kept.status(found)

    return asyncio.run(read())


@pytest.mark.parametrize("noisy", [False, True])
def test_the_picture_shows_the_bound_between_the_thresholds(tmp_path: Path, noisy: bool) -> None:
    """It rises with the evidence, to the row that its last value belongs to."""
    stored(tmp_path / "s.db", noisy=noisy)
    page = [*render_status(status_in(tmp_path / "s.db"), Look(width=80))]
    rows = [line[8:] for line in page if len(line) > 7 and line[7] in "┤│"]
    assert len(rows) == 11
    heights = [
        [n for n, row in enumerate(rows) if row[at : at + 1] in tuple("─┌┘│┐└")]
        for at in range(5, 50)
    ]
    highest = [min(each) for each in heights if each]
    assert len(highest) > 30
    assert highest == sorted(highest, reverse=True), "more evidence, and the bound is higher"
    levels = [line for line in page if "┤" in line]
    last = ["dual_verify, direct_only"] if noisy else ["direct_only", "dual_verify"]
    assert all(
        line.endswith(f" {name}") for line, name in zip(levels, [*last, "canary"], strict=True)
    )
    [axis] = [line for line in page if line[7:8] == "└"]
    assert axis.count("▸") == 3
    assert any("20,000" in line and "10,000" in line for line in page)
    assert ("Wilson's ·" in "".join(page[:6])) != noisy


def test_the_page_tells_of_breaches(tmp_path: Path) -> None:
    """It offers no promotion, and the stage looks held."""
    stored(tmp_path / "s.db", breaches=3)
    status = status_in(tmp_path / "s.db")
    page = "\n".join(render_status(status, Look(width=None)))
    assert "Breaches     3; change the candidate, which then starts from nothing" in page
    assert "which this candidate cannot enter: it broke its contract in 3 of 20,000 comp" in page
    assert "vega rollout promote" not in page
    assert "! dual_verify" in page


def test_the_page_fits_every_terminal(tmp_path: Path) -> None:
    """No line is too wide at 80 and 140 columns; ASCII is ASCII, and a pipe gets no picture."""
    person = Person(tmp_path)
    stored(person.folder / "s.db")
    secret = {"XDG_DATA_HOME": os.environ["XDG_DATA_HOME"]}
    here = Place(person.folder, person.variables | secret | {"TERM": "xterm-256color"})
    words = ["rollout", "status", "--store", "s.db"]
    shown = {
        "80 columns": captured(here, words, 80, {"NO_COLOR": "1"}).text,
        "140 columns": captured(here, words, 140, {"NO_COLOR": "1"}).text,
        "80 columns, ASCII": captured(
            here, words, 80, {"NO_COLOR": "1", "PYTHONIOENCODING": "ascii"}
        ).text,
        "pipe": captured(here, words, None, {}).text,
    }
    assert list(faults(shown)) == []
    assert "0.9999 ┤" in shown["140 columns"]
    assert "0.9999 |" in shown["80 columns, ASCII"]
    assert "┤" not in shown["pipe"]
    for text in shown.values():
        assert "20,000 compared, 0 differ" in " ".join(text.split())
    for width in (20, 40, 60):
        page = [*render_status(status_in(person.folder / "s.db"), Look(width=width))]
        assert page, width
