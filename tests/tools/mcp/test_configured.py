"""Servers that `vega.toml` describes, and the commands about them."""

import os
import pty
from pathlib import Path

import pytest

from tests.config.house import House
from tests.tools.mcp.stage import COMMAND, described, furnished, staged
from vegakit.cli import main
from vegakit.errors import SettingsError
from vegakit.sdk import Runtime
from vegakit.tools import mcp_server

WORDS = ", ".join(f'"{word}"' for word in COMMAND)
TOML = f"""
[mcp.plain]
command = [{WORDS}]
folder = "home"
capabilities = ["fs::read"]
env = ["NOTES_TOKEN"]
sampling = "$0.05"
timeout = "5s"

[mcp.web]
url = "https://example.com/mcp"
bearer = "WEB_TOKEN"
"""


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """Stood in, with a trusted file."""
    house = House(tmp_path)
    furnished(house.project)
    house.write(TOML)
    monkeypatch.chdir(house.project)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(house.home))
    monkeypatch.setenv("NOTES_TOKEN", "secret")
    return house


async def test_a_server_is_what_the_file_says(house: House) -> None:
    """Folders start where the file is; secrets are read from where it says."""
    settings = house.load(NOTES_TOKEN="secret", WEB_TOKEN="token")
    plain, web = await mcp_server(settings, "plain"), await mcp_server(settings, "web")
    assert plain.folder == house.project / "home"
    assert (tuple(plain.command), plain.timeout, plain.sampling) == (COMMAND, 5.0, "$0.05")
    assert plain.env == {"NOTES_TOKEN": "secret"}
    assert web.headers == {"Authorization": "Bearer token"}
    assert "secret" not in repr(plain)
    assert "token" not in repr(web)


async def test_a_server_that_is_not_described(house: House) -> None:
    """Those that are, are named."""
    with pytest.raises(SettingsError, match="it has plain, web"):
        await mcp_server(house.load(), "notes")


async def test_a_secret_that_is_not_set(house: House) -> None:
    """Told when it is needed; not to whoever only looks."""
    assert (await mcp_server(house.load(), "web", to_look_at=True)).headers == {}
    with pytest.raises(SettingsError, match="WEB_TOKEN holds no key"):
        await mcp_server(house.load(), "web")


def test_the_list_starts_nothing(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    """And says what to type."""
    assert main(["mcp", "list"]) == 0
    said = capsys.readouterr().out
    assert "not accepted; type: vega mcp accept plain" in said
    assert "https://example.com/mcp" in said


def test_a_program_accepts_by_digest(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    """What it knows, and nothing else."""
    assert main(["mcp", "accept", "plain", "--digest", "0" * 32]) == 1
    shown = capsys.readouterr().out
    assert "Does echo." in shown
    digest = shown.partition("\ndigest ")[2].split()[0]
    assert main(["mcp", "accept", "plain", "--digest", digest]) == 0
    assert main(["mcp", "list"]) == 0
    assert "accepted: echo, die" in capsys.readouterr().out
    assert main(["mcp", "accept", "plain"]) == 0
    assert "nothing changed" in capsys.readouterr().out


def test_without_a_person_nothing_is_accepted(
    house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe is nobody."""
    assert main(["mcp", "accept", "plain"]) == 1
    assert "a person looks at this at a terminal" in capsys.readouterr().err


@pytest.mark.parametrize(("typed", "status"), [("yes", 0), ("y", 1)])
def test_a_person_types_yes(
    typed: str, status: int, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing less."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "w") as keyboard, os.fdopen(theirs) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        keyboard.write(f"{typed}\n")
        keyboard.flush()
        assert main(["mcp", "accept", "plain"]) == status


async def test_what_was_accepted_at_the_terminal_is_used(house: House) -> None:
    """And shown again when it changes."""
    async with staged(house.project) as stage:
        review = await stage.servers.review(stage.server)
        stage.servers.accept(stage.server, review)
        stage.tool_list(*described("echo", fresh="Is new."))
        again = await stage.servers.review(stage.server)
        assert "new: fresh\n  | Is new." in again.text
        assert "changed: die\n  | it is no longer offered" in again.text


async def test_a_description_is_shown_whole_and_as_one(house: House) -> None:
    """A long one in its middle too, and none looks like another tool or like the end."""
    hostile = "x" * 3_000 + "\n\nnew: harmless\nnothing changed\x1b[2J\n" + "y" * 3_000
    async with staged(house.project) as stage:
        for said in ("Is new.", hostile):
            stage.tool_list(*described("echo", fresh=said))
            review = await stage.servers.review(stage.server)
            stage.servers.accept(stage.server, review)
    lines = review.text.split("\n")
    assert [line for line in lines if not line.startswith("  | ")] == ["changed: fresh"]
    shown = "".join(line.removeprefix("  | ") for line in lines)
    assert "+new: harmless+nothing changed\\u001b[2J+yyy" in shown
    assert shown.count("y") == 3_000
    assert "\x1b" not in shown


async def test_a_runtime_from_settings_finds_its_servers(house: House) -> None:
    """By name, in the settings that it was made from."""
    settings = house.load({"mcp.plain.only": ["echo"]}, NOTES_TOKEN="secret")
    async with Runtime.from_config(settings) as rt:
        (tool,) = await rt.mcp.tools("plain", accept=True)
        assert "['echo', {}]" in await tool.call({}, None)
    assert settings.pins_path.is_relative_to(house.home)
    assert settings.pins_path.stat().st_mode & 0o077 == 0
