"""Where files are, worked out from the environment alone."""

import io
from pathlib import Path

import pytest

from vegakit.config import wants_colour
from vegakit.config.layers import lines_of, read_file
from vegakit.config.places import find_settings_paths
from vegakit.errors import SettingsError


def test_the_platform_says_where(tmp_path: Path) -> None:
    """XDG's variables, Windows' variables, or the home directory."""
    root = tmp_path.resolve()
    home = {"HOME": str(root), "USERPROFILE": str(root)}
    unix = find_settings_paths(home, tmp_path, "linux")
    assert (unix.config_dir, unix.data_dir) == (root / ".config/vega", root / ".local/share/vega")
    moved = {"XDG_CONFIG_HOME": str(root / "c"), "XDG_DATA_HOME": str(root / "d")}
    xdg = find_settings_paths(home | moved, tmp_path, "darwin")
    assert (xdg.user_file, xdg.data_dir) == (root / "c/vega/vega.toml", root / "d/vega")
    windows = find_settings_paths(home | {"APPDATA": str(root / "a")}, tmp_path, "win32")
    assert (windows.config_dir, windows.data_dir) == (
        root / "a/vega",
        root / "AppData/Local/vega",
    )


def test_a_relative_home_is_no_home(tmp_path: Path) -> None:
    """Otherwise a repository could be somebody's home."""
    places = find_settings_paths({"HOME": "x", "XDG_CONFIG_HOME": "."}, tmp_path, "linux")
    assert (places.home, places.config_dir, places.user_file) == (None, None, None)


def test_lines_are_found_by_their_keys() -> None:
    """Tables, dotted keys and quoted ones; what cannot be told is left out."""
    text = '# c\n[a]\nb = 1\n"c.d".e = 2\n[ a."x:y" ] # t\nf = { g = 1 }\n[[h]]\n!! = 1\n[\n'
    lines = lines_of(text)
    assert lines[("a", "b")] == 3
    assert lines[("a", "c.d", "e")] == 4
    assert lines[("a", "x:y", "f")] == 6
    assert lines[("h",)] == 7


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """The system's own reason is passed on."""
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        read_file(tmp_path / "vega.toml")


def test_a_mark_that_editors_leave_is_no_harm(tmp_path: Path) -> None:
    """Some editors on Windows begin a file with one."""
    path = tmp_path / "vega.toml"
    path.write_bytes("\ufeff[models]\r\nfast = 'a:b'\r\n".encode())
    assert read_file(path).tables == {"models": {"fast": "a:b"}}


class Terminal(io.StringIO):
    def __init__(self, *, there: bool) -> None:
        super().__init__()
        self.there = there

    def isatty(self) -> bool:
        return self.there


@pytest.mark.parametrize(
    ("there", "when", "environment", "wanted"),
    [
        (True, "auto", {}, True),
        (False, "auto", {}, False),
        (True, "auto", {"NO_COLOR": "1"}, False),
        (True, "auto", {"TERM": "dumb"}, False),
        (False, "auto", {"FORCE_COLOR": "1"}, True),
        (False, "auto", {"FORCE_COLOR": "0"}, False),
        (True, "auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (False, "auto", {"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        (False, "always", {"NO_COLOR": "1"}, True),
        (True, "never", {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_is_for_terminals(
    there: bool, when: str, environment: dict[str, str], wanted: bool
) -> None:
    """Unless somebody said otherwise; a flag goes before the variables."""
    assert wants_colour(Terminal(there=there), when, environment) is wanted
