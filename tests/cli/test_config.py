"""`vega config`, as a person would call it."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from vegakit.cli import main
from vegakit.cli.config import page, render_settings
from vegakit.cli.look import Look
from vegakit.config import SettingRow, config_schema

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory and a home that exist for one test only."""
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "VEGA_TRUSTED_FOLDERS"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(tmp_path.resolve()))
    directory = tmp_path.resolve() / "project"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def test_it_prints_name_value_and_source(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In columns, without colours when nobody looks."""
    (project / "vega.toml").write_text('[models]\nfast = "a:b"')
    assert main(["trust", "--yes"]) == 0
    assert main(["config"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["models.fast", "a:b", f"{project / 'vega.toml'}:2"] in lines
    assert ["budget.default", "$10", "default"] in lines


@pytest.mark.usefixtures("project")
def test_it_prints_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """The same rows."""
    assert main(["config", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"name": "budget.default", "value": "$10", "source": "default"} in rows


@pytest.mark.usefixtures("project")
def test_it_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """As published."""
    assert main(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == config_schema()


def test_what_was_set_stands_out() -> None:
    """Its name, on a terminal."""
    rows = [SettingRow("a", "1", "default"), SettingRow("b.c", "22", "flag")]
    assert render_settings(rows).splitlines()[1:] == [
        "a        1      default",
        "b.c      22     flag",
    ]
    coloured = render_settings(rows, Look(colour=True)).splitlines()
    assert ["\x1b[1m" in line for line in coloured] == [False, False, True]


def test_the_page_is_up_to_date() -> None:
    """Make it anew: python -m vegakit.cli.config > docs/reference/configuration.md"""
    written = REPOSITORY / "docs" / "reference" / "configuration.md"
    assert written.read_text(encoding="utf-8") == page()


def test_the_page_is_made_by_a_command() -> None:
    """It prints the page and nothing else."""
    command = [sys.executable, "-m", "vegakit.cli.config"]
    ran = subprocess.run(command, capture_output=True, check=True)
    assert io.TextIOWrapper(io.BytesIO(ran.stdout), encoding="utf-8").read() == page()
