"""Settings from every place they may come from; the later ones win.

    default ─▶ user's file ─▶ project file, if trusted ─▶ VEGA_* ─▶ flags ─▶ Settings

Relative paths start at the directory of the file that names them, else at the working directory.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec.structs import replace

from vegakit.config.building import settings_of
from vegakit.config.files import (
    FILE_NAME,
    Places,
    SettingsFile,
    find_places,
    lines_of,
    read_file,
    sha256_of,
)
from vegakit.config.layers import (
    Layer,
    Setting,
    default_layer,
    environment_layer,
    flag_layer,
    layer_of,
)
from vegakit.config.names import Name
from vegakit.config.settings import Settings
from vegakit.config.sources import Source, SourceKind
from vegakit.config.trust import check_code, check_trust, guarded, record_trust
from vegakit.errors import SettingsError

__all__ = ["check_code_trusted", "load", "trust"]

_NOTHING: Mapping[str, object] = MappingProxyType({})
_DATA: Name = ("data_dir",)
_SOCKETS: Name = ("view", "sockets")
_AUDIT: Name = ("audit", "path")
_JOURNAL: Name = ("journal", "path")
_LEDGER: Name = ("ledger", "path")
_IN_DATA: dict[Name, str] = {
    _JOURNAL: "vega.db",
    ("telemetry", "jsonl"): "traces.jsonl",
    _SOCKETS: "run",
}


def load(
    flags: Mapping[str, object] = _NOTHING,
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Settings:
    """`flags` come by dotted name or as a tree: `{"budget.default": "$5"}`."""
    variables = os.environ if environment is None else environment
    places = find_places(variables, directory or Path.cwd())
    layer = _user_settings(places)
    if (path := places.project_file) is not None:
        file = read_file(path)
        project = _of_file(file, SourceKind.PROJECT, places)
        check_trust(file, guarded(project, layer), places.config_dir)
        layer |= project
    for given in (environment_layer(variables), flag_layer(flags)):
        layer |= _anchored(given, places.directory, places.home)
    return settings_of(_with_files_in_place(layer, places), variables)


def trust(
    path: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> tuple[Path, list[str]]:
    """Records that the user trusts a file, by default the project's; answers what it then sets. Of
    a program in Python it is the code that runs when it is loaded."""
    variables = os.environ if environment is None else environment
    places = find_places(variables, directory or Path.cwd())
    chosen = places.directory / path if path else places.project_file
    if chosen is None:
        raise SettingsError(f"no {FILE_NAME} in {places.directory} or above; name the file")
    whole = chosen.parent.resolve() / chosen.name
    if whole.suffix == ".py":
        record_trust(whole, sha256_of(whole), places.config_dir)
        return whole, []
    file = read_file(whole)
    project = _of_file(file, SourceKind.PROJECT, places)
    record_trust(file.path, file.sha256, places.config_dir)
    return file.path, guarded(project, _user_settings(places))


def check_code_trusted(path: Path, text: str, code: Sequence[str]) -> None:
    """Raises if the file runs code when it is loaded and the user does not trust it as it is."""
    places = find_places(os.environ, Path.cwd())
    whole = path.parent.resolve() / path.name
    check_code(whole, hashlib.sha256(text.encode()).hexdigest(), code, places.config_dir)


def _user_settings(places: Places) -> Layer:
    """What holds before the project has its say."""
    file = places.user_file
    if file is None or not file.is_file():
        return default_layer()
    return default_layer() | _of_file(read_file(file), SourceKind.USER, places)


def _of_file(file: SettingsFile, kind: SourceKind, places: Places) -> Layer:
    lines = lines_of(file.text)

    def where(name: Name) -> Source:
        shortened = (name[:length] for length in range(len(name), 0, -1))
        line = next((lines[part] for part in shortened if part in lines), 0)
        return Source(kind, str(file.path), line)

    return _anchored(layer_of(file.tables, where), file.path.parent, places.home)


def _anchored(layer: Layer, base: Path, home: Path | None) -> Layer:
    for name in {_DATA, _AUDIT, _LEDGER, *_IN_DATA} & layer.keys():
        first, _, rest = str(layer[name].value).partition("/")
        start = home / rest if first == "~" and home else base / layer[name].value
        if layer[name].value:
            layer[name] = replace(layer[name], value=str(start))
    return layer


def _with_files_in_place(layer: Layer, places: Places) -> Layer:
    default = Source(SourceKind.DEFAULT)
    layer.setdefault(_DATA, Setting(str(places.data_dir), default))
    if places.sockets_dir is not None:
        layer.setdefault(_SOCKETS, Setting(str(places.sockets_dir), default))
    for name, file in _IN_DATA.items():
        layer.setdefault(name, Setting(str(Path(layer[_DATA].value) / file), default))
    layer.setdefault(_LEDGER, Setting(layer[_JOURNAL].value, default))
    return layer
