"""The journal and the ledger on PostgreSQL, chosen by settings: as a person would."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.test_killed_programs import PROGRAM, prepared
from tests.store.postgres import asked, own_schema, url_of

RUN = ["run", "main.vega", "--model", "scripted:says.json", "--quiet"]
ONE_CALL = 'agent A { model fast }\nfn main() -> str { return A <- "hello"; }\n'
PASSWORD = "tell-nobody-this"


@pytest.fixture
def url() -> Generator[str]:
    with own_schema() as schema:
        yield re.sub("(?<=.)@", f":{PASSWORD}@", url_of(schema))


def schema_of(url: str) -> str:
    return url.rpartition("=")[2]


def vega(folder: Path, settings: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "vegakit", *words],
        cwd=folder,
        env={**os.environ, "VEGA_DATA_DIR": str(folder / "data"), **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def killed(folder: Path, settings: dict[str, str], after: int, *words: str) -> list[str]:
    """What it had printed when it was killed."""
    with subprocess.Popen(
        [sys.executable, "-m", "vegakit", *RUN, *words],
        cwd=folder,
        env={**os.environ, "VEGA_DATA_DIR": str(folder / "data"), **settings},
        stdout=subprocess.PIPE,
        text=True,
    ) as life:
        assert life.stdout is not None
        said = [life.stdout.readline().strip() for _ in range(after)]
        life.send_signal(signal.SIGKILL)
    return said


def spent(url: str) -> list[int]:
    """Of the accounts; the quotes of runs are scopes inside of them."""
    wanted = "SELECT settled FROM scopes WHERE parent IS NULL ORDER BY id"
    return [row[0] for row in asked(schema_of(url), wanted)]


def test_a_killed_run_goes_on_and_pays_for_nothing_twice(tmp_path: Path, url: str) -> None:
    """Its script begins anew with each life: what had arrived was not asked again."""
    prepared(tmp_path)
    settings = {"VEGA_JOURNAL_URL": url}
    assert killed(tmp_path, settings, 2) == ["first", "second"]
    paid = sum(spent(url))
    assert "unfinished" in vega(tmp_path, settings, "runs").stdout
    resumed = vega(tmp_path, settings, "resume")
    assert resumed.stdout.splitlines() == ["first", "second", "first", "second", "done"]
    assert "2 calls recorded" in resumed.stderr
    assert spent(url) == [2 * paid]
    assert "unfinished" not in vega(tmp_path, settings, "runs").stdout
    replayed = vega(tmp_path, settings, "replay", "")
    assert replayed.stdout.splitlines() == resumed.stdout.splitlines()
    assert vega(tmp_path, settings, "trace").returncode == 0


def test_a_run_that_is_carried_on_is_left_alone(tmp_path: Path, url: str) -> None:
    """Its owner holds it on the server, so every machine sees that it runs."""
    prepared(tmp_path)
    (tmp_path / "main.vega").write_text(PROGRAM.replace("5s", "600s"))
    settings = {"VEGA_JOURNAL_URL": url}
    with subprocess.Popen(
        [sys.executable, "-m", "vegakit", *RUN],
        cwd=tmp_path,
        env={**os.environ, "VEGA_DATA_DIR": str(tmp_path / "data"), **settings},
        stdout=subprocess.PIPE,
        text=True,
    ) as life:
        assert life.stdout is not None
        life.stdout.readline()
        assert "running" in vega(tmp_path, settings, "runs").stdout
        refused = vega(tmp_path, settings, "resume")
        assert "is running\n  wait until it has ended" in refused.stderr
        life.kill()


def test_machines_share_a_budget(tmp_path: Path, url: str) -> None:
    """Each has files of its own, and what all of them spend is in one account."""
    settings = {"VEGA_LEDGER_URL": url, "VEGA_BUDGET_DEFAULT": "$5/day"}
    accounts: list[list[int]] = []
    for machine in ("one", "two"):
        folder = tmp_path / machine
        folder.mkdir()
        prepared(folder)
        (folder / "main.vega").write_text(ONE_CALL)
        assert vega(folder, settings, *RUN).stdout == "first\n"
        accounts.append(spent(url))
    [[first], [both]] = accounts
    assert both == 2 * first > 0


def test_the_runs_of_another_user_are_not_shown(tmp_path: Path, url: str) -> None:
    """What they sealed cannot be checked, and tells which command to start."""
    prepared(tmp_path)
    settings = {"VEGA_JOURNAL_URL": url}
    killed(tmp_path, settings, 1)
    other = {**settings, "VEGA_DATA_DIR": str(tmp_path / "theirs")}
    assert "holds no run yet" in vega(tmp_path, other, "runs").stderr
    assert "holds no run yet" in vega(tmp_path, other, "resume").stderr


def test_a_planted_run_is_refused(tmp_path: Path, url: str) -> None:
    """Whoever may write to the server could have any command started."""
    prepared(tmp_path)
    settings = {"VEGA_JOURNAL_URL": url}
    killed(tmp_path, settings, 1)
    plant = "UPDATE runs SET run = replace(run, 'main.vega', 'evil.vega') RETURNING 1"
    assert asked(schema_of(url), plant)
    for command in ("runs", "resume"):
        refused = vega(tmp_path, settings, command)
        assert refused.returncode == 1
        assert "does not fit its seal" in refused.stderr
        assert "?schema=NAME" in refused.stderr


def test_nobody_is_shown_the_password(tmp_path: Path, url: str) -> None:
    """Neither in the settings, nor in a message, nor in the command of a run."""
    prepared(tmp_path)
    wrong = re.sub(r":[0-9]+/", ":1/", url)
    shown = [vega(tmp_path, {"VEGA_LEDGER_URL": url, "VEGA_JOURNAL_URL": url}, "config")]
    shown += [vega(tmp_path, {"VEGA_JOURNAL_URL": wrong}, *command) for command in (RUN, ["runs"])]
    for strange in (
        f"mysql://a:{PASSWORD}@b",
        f"postgresql://a:{PASSWORD}%zz@b/c",
        f"postgresql://a:pa/{PASSWORD}@127.0.0.1:1/c",
    ):
        shown.append(vega(tmp_path, {"VEGA_LEDGER_URL": strange}, *RUN))
    shown.append(vega(tmp_path, {"VEGA_LEDGER_URL": f"a:{PASSWORD}"}, "config"))
    killed(tmp_path, {}, 1, "--journal", url)
    shown.append(vega(tmp_path, {}, "runs", url))
    shown.append(vega(tmp_path, {}, "runs", url, "--json"))
    shown.append(vega(tmp_path, {}, "resume", url))
    for ran in shown:
        assert ran.stdout or ran.stderr
        assert PASSWORD not in ran.stdout + ran.stderr, ran.args
    assert "…@" in shown[0].stdout
    assert "start the server, or check host, port and network" in shown[1].stderr
    assert "write the path of a file, or one of postgresql://…" in shown[3].stderr
    assert "%40 %2F %3F %23 %25" in shown[4].stderr


def test_a_missing_driver_says_what_to_install(tmp_path: Path, url: str) -> None:
    """As where vegakit was installed without it."""
    prepared(tmp_path)
    (tmp_path / "psycopg.py").write_text("raise ImportError('no psycopg here')")
    ran = vega(tmp_path, {"VEGA_LEDGER_URL": url, "PYTHONPATH": str(tmp_path)}, *RUN)
    assert "pip install 'vegakit[postgres]'" in ran.stderr
