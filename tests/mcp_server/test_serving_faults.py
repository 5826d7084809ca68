"""Faults are planted in what holds clients back; what the other tests look for is then there."""

from pathlib import Path

import pytest

from tests.mcp_server.stage import OUTSIDE, staged
from tests.mcp_server.test_http import asked_with, over_http
from tests.mcp_server.test_widening import WIDE_PROGRAMS
from vegakit.server import ServerPolicy, mcp_http as http, operations as desk
from vegakit.server.operations import Project


@pytest.mark.parametrize("name", ["files left open", "all files"])
async def test_a_charter_that_nobody_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A program with more rights asks its model."""
    monkeypatch.setattr(ServerPolicy, "outside", lambda self, manifest: [])
    async with staged(tmp_path) as stage, stage.client() as call:
        await call("run", source=WIDE_PROGRAMS[name])
        assert stage.model.requests != []


async def test_a_program_is_held_to_the_charter_though_nobody_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are opened under what the server was granted."""
    monkeypatch.setattr(ServerPolicy, "outside", lambda self, manifest: [])
    source = WIDE_PROGRAMS["all files"].replace("src/a.txt", "lib/shout.vega")
    async with staged(tmp_path) as stage, stage.client() as call:
        said = await call("run", source=source)
        assert said.page["error"].startswith("CapabilityDenied")
        assert stage.model.requests == []


async def test_a_quote_that_nobody_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that may cost more than there is begins."""
    real = desk.ProgramGrant

    def rich(most: int, *rest: object, **more: object) -> object:
        return real(most * 1_000_000, *rest, **more)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(desk, "ProgramGrant", rich)
    async with staged(tmp_path) as stage, stage.client() as call:
        said = await call("run", source=WIDE_PROGRAMS["money"])
        assert "refused (cost)" not in said.text
        assert "refused (room)" in said.text


@pytest.mark.parametrize("path", ["../elsewhere/a.vega", "link.vega", "linked/a.vega"])
async def test_files_that_are_opened_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """What is outside of the project comes out."""

    async def content(self: Project, name: str) -> str:
        return (self.root / name).read_text()

    monkeypatch.setattr(Project, "_content", content)
    async with staged(tmp_path) as stage, stage.client() as call:
        assert OUTSIDE in (await call("run", path=path)).text


async def test_a_token_that_nobody_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has none is answered."""
    monkeypatch.setattr(http._TokenGuard, "_is_known", lambda self, scope: True)
    async with staged(tmp_path) as stage, over_http(stage) as url:
        assert (await asked_with(url))[0] != 401
