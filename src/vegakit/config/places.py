"""Find where a user's settings and data lie, and the nearest settings of a project.

| what        | Linux, macOS                                    | Windows                    |
|-------------|-------------------------------------------------|----------------------------|
| user's file | `vega/vega.toml` in `$XDG_CONFIG_HOME`          | in `%APPDATA%`             |
|             | or `~/.config`                                  | or `~/AppData/Roaming`     |
| data        | `vega` in `$XDG_DATA_HOME` or `~/.local/share`  | in `%LOCALAPPDATA%`        |
|             |                                                 | or `~/AppData/Local`       |
| sockets     | `vega` in `$XDG_RUNTIME_DIR`, or `run` in data  | `run` in data              |

Without a home there is no user's file, and data is kept in `.vega` of the working directory.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

FILE_NAME = "vega.toml"
_UNIX = ("HOME", ("XDG_CONFIG_HOME", ".config"), ("XDG_DATA_HOME", ".local/share"))
_WINDOWS = ("USERPROFILE", ("APPDATA", "AppData/Roaming"), ("LOCALAPPDATA", "AppData/Local"))


class SettingsPaths(Struct, frozen=True):
    """Holds the places of a user's settings, data and sockets."""

    directory: Path
    home: Path | None
    config_dir: Path | None
    data_dir: Path
    sockets_dir: Path | None

    @property
    def user_file(self) -> Path | None:
        """Return the user's own file; None without a home."""
        return self.config_dir and self.config_dir / FILE_NAME


def user_data_dir(environment: Mapping[str, str] | None = None) -> Path:
    """Return where this user's data is kept when no settings are loaded, as for a plain
    `Runtime(journal="run.db")`: `$VEGA_DATA_DIR`, or `vega` in the home of data."""
    variables = os.environ if environment is None else environment
    chosen = variables.get("VEGA_DATA_DIR")
    return Path(chosen) if chosen else find_settings_paths(variables, Path.cwd()).data_dir


def user_config_dir(environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder of this user's own settings; None without a home."""
    variables = os.environ if environment is None else environment
    return find_settings_paths(variables, Path.cwd()).config_dir


def find_settings_paths(
    environment: Mapping[str, str], directory: Path, platform: str = sys.platform
) -> SettingsPaths:
    """Return where this environment and directory look for settings."""
    home_variable, config, data = _WINDOWS if platform == "win32" else _UNIX
    home = _directory(environment, home_variable)
    config_dir, data_dir = (
        _directory(environment, variable) or (home and home / below)
        for variable, below in (config, data)
    )
    runtime_dir = _directory(environment, "XDG_RUNTIME_DIR")
    return SettingsPaths(
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
