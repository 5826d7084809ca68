"""Where settings are written: the user's file and the nearest project file.

| what        | Linux, macOS                                    | Windows                    |
|-------------|-------------------------------------------------|----------------------------|
| user's file | `vega/vega.toml` in `$XDG_CONFIG_HOME`          | in `%APPDATA%`             |
|             | or `~/.config`                                  | or `~/AppData/Roaming`     |
| data        | `vega` in `$XDG_DATA_HOME` or `~/.local/share`  | in `%LOCALAPPDATA%`        |
|             |                                                 | or `~/AppData/Local`       |
| sockets     | `vega` in `$XDG_RUNTIME_DIR`, or `run` in data  | `run` in data              |

Without a home there is no user's file, and data is kept in `.vega` of the working directory.
A small file of short lines cannot keep the TOML parser busy for long.
"""

import hashlib
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from vegakit.config.names import Name, parse_name
from vegakit.errors import SettingsError

__all__ = [
    "FILE_NAME",
    "Places",
    "SettingsFile",
    "find_places",
    "lines_of",
    "read_file",
    "sha256_of",
    "user_data_dir",
]

FILE_NAME = "vega.toml"
_MAX_BYTES = 65_536
_MAX_LINE = 500
_UNIX = ("HOME", ("XDG_CONFIG_HOME", ".config"), ("XDG_DATA_HOME", ".local/share"))
_WINDOWS = ("USERPROFILE", ("APPDATA", "AppData/Roaming"), ("LOCALAPPDATA", "AppData/Local"))
_START_OF_LINE = re.compile(r"\s*(?:\[+(?P<table>[^\]]{1,200})\]|(?P<key>[^=#\[]{1,200})=)")


class Places(Struct, frozen=True):
    directory: Path
    home: Path | None
    config_dir: Path | None
    data_dir: Path
    sockets_dir: Path | None

    @property
    def user_file(self) -> Path | None:
        return self.config_dir and self.config_dir / FILE_NAME

    @property
    def project_file(self) -> Path | None:
        """The nearest upward; the search ends at the home directory."""
        for place in (self.directory, *self.directory.parents):
            file = place / FILE_NAME
            if file.is_file() and file != self.user_file:
                return file
            if place == self.home:
                break
        return None


def user_data_dir(environment: Mapping[str, str] | None = None) -> Path:
    """Return where this user's data is kept when no settings are loaded, as for a plain
    `Runtime(journal="run.db")`: `$VEGA_DATA_DIR`, or `vega` in the home of data."""
    variables = os.environ if environment is None else environment
    chosen = variables.get("VEGA_DATA_DIR")
    return Path(chosen) if chosen else find_places(variables, Path.cwd()).data_dir


class SettingsFile(Struct, frozen=True):
    """Read once: the same bytes are hashed, parsed and quoted."""

    path: Path
    text: str
    sha256: str
    tables: dict[str, Any]


def find_places(
    environment: Mapping[str, str], directory: Path, platform: str = sys.platform
) -> Places:
    home_variable, config, data = _WINDOWS if platform == "win32" else _UNIX
    home = _directory(environment, home_variable)
    config_dir, data_dir = (
        _directory(environment, variable) or (home and home / below)
        for variable, below in (config, data)
    )
    runtime_dir = _directory(environment, "XDG_RUNTIME_DIR")
    return Places(
        directory.resolve(),
        home,
        config_dir and config_dir / "vega",
        data_dir / "vega" if data_dir else directory.resolve() / ".vega",
        runtime_dir and runtime_dir / "vega",
    )


def _directory(environment: Mapping[str, str], variable: str) -> Path | None:
    """A relative one is ignored: it would make every repository somebody's home."""
    path = Path(environment.get(variable, ""))
    return path.resolve() if path.is_absolute() else None


def read_file(path: Path) -> SettingsFile:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        text = raw.decode("utf-8-sig")
        _check_size(raw, text)
        return SettingsFile(path, text, hashlib.sha256(raw).hexdigest(), tomllib.loads(text))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path} cannot be read as TOML: {error}") from error


def sha256_of(path: Path) -> str:
    """Of its text, as a program is read."""
    try:
        return hashlib.sha256(path.read_text(encoding="utf-8").encode()).hexdigest()
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read: {error}; give the path of a file") from error


def _check_size(raw: bytes, text: str) -> None:
    if len(raw) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES} bytes; make it smaller")
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _MAX_LINE:
            raise ValueError(f"line {number} is longer than {_MAX_LINE} characters; break it")


def lines_of(text: str) -> dict[Name, int]:
    """Where each table and setting is written, as far as a glance at the lines can tell."""
    table: Name = ()
    lines: dict[Name, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name = _name_at(line, table)
        table = name if line.lstrip().startswith("[") else table
        lines.setdefault(name, number)
    return lines


def _name_at(line: str, table: Name) -> Name:
    start = _START_OF_LINE.match(line)
    if start is None:
        return ()
    try:
        if start["table"]:
            return parse_name(start["table"])
        return (*table, *parse_name(start["key"]))
    except SettingsError:
        return ()
