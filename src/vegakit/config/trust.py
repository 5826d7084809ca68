"""What a project file may set, and a program's file run, before its user trusts it.

A `vega.toml` comes along with a repository that somebody else wrote, and it is read before anybody
has looked at it. So by itself it may only choose among what the user has: models, limits, and a
smaller budget. Whatever else it sets (where keys and prompts are sent, what calls are taken to
cost, how much is spent, which files are written, which command is run) is refused until the user
trusts that exact file: its path and the hash of its bytes, recorded in the user's own directory.
A program in Python that runs code as soon as it is loaded needs the same trust before `vega run`
and `vega test` load it; one that only declares does not.
"""

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from vegakit.config.files import SettingsFile
from vegakit.config.layers import Layer
from vegakit.config.names import Name, show_name
from vegakit.errors import InvalidRecordError, SettingsError
from vegakit.money import parse_allowance
from vegakit.records import from_json

__all__ = ["check_code", "check_trust", "guarded", "record_trust"]

_FREE = {"models", "limits"}
_BUDGET: Name = ("budget", "default")
_RECORD = "trusted.json"
_MAX_NAMED = 5


def guarded(project: Layer, without: Layer) -> list[str]:
    """The names that need trust; `without` is what holds without the project file."""
    return [
        show_name(name)
        for name, setting in project.items()
        if name[0] not in _FREE
        and not (name == _BUDGET and _lowers(setting.value, without[name].value))
    ]


def _lowers(written: str, held: str) -> bool:
    new, old = parse_allowance(written), parse_allowance(held)
    return new.amount <= old.amount and new.period in {None, old.period}


def check_trust(file: SettingsFile, names: list[str], config_dir: Path | None) -> None:
    if not names or _trusted(config_dir).get(str(file.path)) == file.sha256:
        return
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    raise SettingsError(
        f"{file.path} sets {', '.join(names[:_MAX_NAMED])}{more}, and a file that came with a "
        "project may not decide where keys and prompts are sent, what is spent, what is run or "
        "which files are written; read it, and if you trust it, type: "
        f"vega config trust {shlex.quote(str(file.path))}"
    )


def check_code(path: Path, sha256: str, code: Sequence[str], config_dir: Path | None) -> None:
    if not code or _trusted(config_dir).get(str(path)) == sha256:
        return
    more = f" and {len(code) - _MAX_NAMED} more" if len(code) > _MAX_NAMED else ""
    raise SettingsError(
        f"{path} runs code of its own as soon as it is loaded, before the program and with all "
        f"your rights ({'; '.join(code[:_MAX_NAMED])}{more}); read it, and if you trust it, type: "
        f"vega config trust {shlex.quote(str(path))}"
    )


def record_trust(path: Path, sha256: str, config_dir: Path | None) -> None:
    """Replaces the record in one step, so that a reader never sees half of it."""
    if config_dir is None:
        raise SettingsError("trust is recorded in your home directory; set HOME and try again")
    record = {**_trusted(config_dir), str(path): sha256}
    fresh = config_dir / f"{_RECORD}.{os.getpid()}"
    try:
        config_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh.write_text(json.dumps(record, indent=2, sort_keys=True), encoding="utf-8")
        fresh.replace(config_dir / _RECORD)
    except OSError as error:
        raise SettingsError(f"trust could not be recorded in {config_dir}: {error}") from error


def _trusted(config_dir: Path | None) -> dict[str, str]:
    """A record that is not there or is damaged trusts nothing."""
    if config_dir is None:
        return {}
    try:
        return from_json(dict[str, str], (config_dir / _RECORD).read_bytes())
    except (OSError, InvalidRecordError):
        return {}
