"""The races can fail: each guard, taken away on purpose, is found out."""

import os
from collections.abc import Sequence

import pytest
from campaigns.races import TOOLS, race

from vegakit.tools import files as files_room, open_by_walk
from vegakit.tools.openat import check_plain


def follows_links(root: int, names: Sequence[str]) -> int:
    return os.open("/".join(names) or ".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)


def looks_away(*_: object) -> None:
    pass


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != "list"])
def test_opening_by_path_is_found_out(tool: str) -> None:
    """What opening beneath is there for."""
    assert any(race(tool, "folder", 100, follows_links).escapes for _ in range(20))


@pytest.mark.parametrize(("tool", "swap"), [("list", "folder"), ("read", "file")])
def test_following_the_last_name_is_found_out(
    tool: str, swap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `O_NOFOLLOW` is there for."""
    for flags in ("_READ", "_LIST"):
        monkeypatch.setattr(files_room, flags, getattr(files_room, flags) & ~os.O_NOFOLLOW)
    for check in ("check_plain", "check_inside"):
        monkeypatch.setattr(files_room, check, looks_away)
    assert any(race(tool, swap, 100, open_by_walk).escapes for _ in range(20))


def counts_names_alone(path: str, file: int, folder: int, name: str) -> None:
    check_plain(path, os.fstat(file))


def test_counting_names_alone_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the look at the name it was opened by is there for. `read` has the same guard, but its
    moment is so short that not every run meets it."""
    monkeypatch.setattr(files_room, "check_inside", counts_names_alone)
    assert any(race("stat", "name", 2_000, open_by_walk).escapes for _ in range(20))


@pytest.mark.parametrize("tool", ["read", "stat"])
def test_counting_no_names_is_found_out(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the look at the open file is there for."""
    for check in ("check_plain", "check_inside"):
        monkeypatch.setattr(files_room, check, looks_away)
    assert any(race(tool, "name", 500, open_by_walk).escapes for _ in range(20))
