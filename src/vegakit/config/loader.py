"""Load settings from every place they may come from; later places win.

    default ─▶ user's file ─▶ project file, if trusted ─▶ VEGA_* ─▶ flags ─▶ Settings

Relative paths start at the directory of the file that names them, else at the working directory.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby, takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import asdict, fields, replace

from vegakit.config.layers import (
    FILE_NAME,
    Layer,
    Setting,
    SettingsFile,
    SettingsPaths,
    check_python,
    check_trust,
    default_layer,
    environment_layer,
    extension_files,
    find_settings_paths,
    flag_layer,
    layer_of,
    lines_of,
    names_needing_trust,
    read_file,
    record_trust,
    sha256_of,
    trusted_files,
    unreadable_variables,
    user_data_dir,
    without_disabled,
)
from vegakit.config.names import (
    KeyFinder,
    Name,
    SettingSource,
    SourceKind,
    show_name,
    toml_of,
    variable_of,
)
from vegakit.config.owners import may_steer, stranger_of, trust_of_owner, why_ignored
from vegakit.config.settings import Settings, UserBudget, budget_rule
from vegakit.config.tables import BudgetTable, PriceTable, Tables
from vegakit.errors import SettingsError, UserError
from vegakit.policy import ScopeRule

# Checked values by name, put together; what is wrong only together is found here.


def settings_of(
    layer: Layer, environment: Mapping[str, str], user_rule: ScopeRule | None = None
) -> Settings:
    """Return the settings of a layer, and refuse what is wrong only together. `user_rule` is the
    budget of the user's own file, if it has a period."""
    functions = {name[1]: layer[name].value for name in layer if callable(layer[name].value)}
    tree = _tree({name: s.value for name, s in layer.items() if not callable(s.value)})
    for model, table in tree.get("prices", {}).items():
        _check_complete(layer, ("prices", model), table)
    settings = Settings(
        **asdict(msgspec.convert(tree, Tables)),
        sources={show_name(name): layer[name].source for name in sorted(layer)},
        keys=KeyFinder(environment, functions),
        user_rule=user_rule,
        unreadable=unreadable_variables(layer, environment),
    )
    _check_rules(settings, layer)
    return settings


def _tree(values: Mapping[Name, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, value in values.items():
        table = tree
        for word in name[:-1]:
            table = table.setdefault(word, {})
        table[name[-1]] = value
    return tree


def _check_complete(layer: Layer, name: Name, table: Mapping[str, Any]) -> None:
    for field in fields(PriceTable):
        if field.required and field.name not in table:
            raise SettingsError(
                f"{_place_of(layer, name)}: {show_name((*name, field.name))} is missing; "
                f'write {field.name} = "$2.50", in dollars per million tokens'
            )


def _check_rules(settings: Settings, layer: Layer) -> None:
    """Numbers that are right one by one may be wrong together; the rules themselves know."""
    for name in settings.limits:
        _check(layer, ("limits", name), lambda name=name: settings.limits_for(name))
    for model in settings.prices:
        _check(layer, ("prices", model), lambda model=model: settings.price(model))
    _check(layer, ("budget",), lambda: settings.budget_rule)
    _check(layer, ("permissions", "rules"), lambda: settings.permission_rules)


def _check(layer: Layer, name: Name, build: Callable[[], object]) -> None:
    try:
        build()
    except UserError as error:
        raise SettingsError(f"{_place_of(layer, name)}: {show_name(name)}: {error}") from error


def _place_of(layer: Layer, name: Name) -> str:
    sources = [setting.source for at, setting in layer.items() if at[: len(name)] == name]
    written = [source for source in sources if source.kind is not SourceKind.DEFAULT]
    return str((written or sources)[-1])


# Settings from every place they may come from; the later ones win.
#
#     default ─▶ user's file ─▶ project file, if trusted ─▶ VEGA_* ─▶ flags ─▶ Settings
#
# Relative paths start at the directory of the file that names them, else at the working directory.


_NOTHING: Mapping[str, object] = MappingProxyType({})
_DATA: Name = ("data_dir",)
_SOCKETS: Name = ("observable", "sockets")
_AUDIT: Name = ("audit", "path")
_CACHE: Name = ("cache", "path")
_CA_BUNDLE = "ca_bundle"
_JOURNAL: Name = ("journal", "path")
_JOURNAL_URL: Name = ("journal", "url")
_LEDGER: Name = ("ledger", "path")
_KERNEL: Name = ("serve", "store")
_JSON_TRACES: Name = ("telemetry", "jsonl")
_SQLITE_TRACES: Name = ("telemetry", "sqlite")
_IN_MEMORY = ":memory:"
_IN_DATA: dict[Name, str] = {
    _JOURNAL: "vega.db",
    _JSON_TRACES: "traces.jsonl",
    _KERNEL: "kernel.db",
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
    paths = find_settings_paths(variables, directory or Path.cwd())
    layer = _user_settings(paths)
    user_rule = _user_rule(layer)
    if (file := _project_file(paths)) is not None:
        project = _of_file(file, SourceKind.PROJECT, paths)
        check_trust(file, names_needing_trust(project, layer), paths.config_dir)
        layer |= project
    for given in (environment_layer(variables), flag_layer(flags)):
        layer |= _anchored(given, paths.directory, paths.home)
    layer = without_disabled(layer, variables)
    return settings_of(_with_files_in_place(layer, paths), variables, user_rule)


def user_budget(environment: Mapping[str, str] | None = None) -> UserBudget | None:
    """Return the budget that holds for all runs of this user together, for a runtime that was made
    without settings. Where the user has no file, nothing is loaded; project files have no say."""
    variables = os.environ if environment is None else environment
    paths = find_settings_paths(variables, Path.cwd())
    if paths.user_file is None or not paths.user_file.is_file():
        return None
    layer = _user_settings(paths)
    if (user_rule := _user_rule(layer)) is None:
        return None
    layer |= _anchored(environment_layer(variables), paths.directory, paths.home)
    return settings_of(_with_files_in_place(layer, paths), variables, user_rule).user_budget


def sockets_dir(environment: Mapping[str, str] | None = None) -> Path | None:
    """Return where the runtimes of this user listen, or None if the settings say nowhere. It never
    fails: settings that cannot be read are for whoever needs them, and every runtime asks this.
    Where no file is, nothing is loaded."""
    variables = os.environ if environment is None else environment
    paths = find_settings_paths(variables, Path.cwd())
    user = paths.user_file
    if (user is not None and user.is_file()) or _project_path(paths) is not None:
        with suppress(SettingsError):
            return load(environment=variables).sockets_path
    if chosen := variables.get(variable_of(_SOCKETS)):
        return Path(chosen).expanduser()
    return paths.sockets_dir or user_data_dir(variables) / _IN_DATA[_SOCKETS]


def trust(
    path: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> tuple[Path, list[str]]:
    """Record that the user trusts a file, by default the project's; return what it then sets. A
    file of Python may be loaded then; of `.vega`, each file that extends the coding agent is
    trusted."""
    variables = os.environ if environment is None else environment
    paths = find_settings_paths(variables, directory or Path.cwd())
    chosen = paths.directory / path if path else _project_path(paths)
    if chosen is None:
        raise SettingsError(f"no {FILE_NAME} in {paths.directory} or above; name the file")
    whole = chosen.parent.resolve() / chosen.name
    if (extensions := extension_files(whole)) is not None:
        record_trust({one: sha256_of(one) for one in extensions}, paths.config_dir)
        return whole, [str(one.relative_to(whole.parent)) for one in extensions]
    if whole.is_dir():
        record_trust({whole: trust_of_owner(_owner_to_trust(whole))}, paths.config_dir)
        return whole, []
    if whole.suffix != ".toml":
        record_trust({whole: sha256_of(whole)}, paths.config_dir)
        return whole, []
    file = read_file(whole)
    project = _of_file(file, SourceKind.PROJECT, paths)
    record_trust({file.path: file.sha256}, paths.config_dir)
    return file.path, names_needing_trust(project, _user_settings(paths))


def _owner_to_trust(folder: Path) -> int:
    owner = stranger_of(folder)
    if owner is None:
        raise SettingsError(
            f"{folder} is a folder of yours or of root, whose files count already; to trust a file "
            "in it, name the file"
        )
    return owner


def carry_trust(source: Path, to: Path) -> None:
    """Trust the files of another work tree of a project that are, byte by byte, what the user
    trusts in this one."""
    config_dir = find_settings_paths(os.environ, Path.cwd()).config_dir
    found: dict[Path, str] = {}
    for path, sha256 in trusted_files(config_dir).items():
        if path.is_relative_to(source):
            copy = to.resolve() / path.relative_to(source)
            if copy.is_file() and not copy.is_symlink() and sha256_of(copy) == sha256:
                found[copy] = sha256
    if found:
        record_trust(found, config_dir)


def check_python_trusted(path: Path, content: bytes) -> None:
    """Raise unless the user trusts a file of Python with this content."""
    paths = find_settings_paths(os.environ, Path.cwd())
    whole = path.parent.resolve() / path.name
    check_python(whole, hashlib.sha256(content).hexdigest(), paths.config_dir)


def check_answers_trusted(settings: Settings) -> None:
    """Raises if a project file that the user does not trust as it is names a file of answers as a
    model: whoever wrote the project would then write what an agent says and does there. Programs
    may have such models unasked, since they come from the project, too."""
    named: dict[str, list[str]] = {}
    for alias, models in settings.models.items():
        source = settings.sources.get(f"models.{alias}")
        said = [models] if isinstance(models, str) else models
        is_scripted = any(str(model).startswith("scripted:") for model in said)
        if source is not None and source.kind is SourceKind.PROJECT and is_scripted:
            named.setdefault(source.place, []).append(f"models.{alias}")
    for place, names in named.items():
        config_dir = find_settings_paths(os.environ, Path.cwd()).config_dir
        check_trust(read_file(Path(place)), names, config_dir)


def _project_path(paths: SettingsPaths) -> Path | None:
    """Return the nearest project file upward that may steer; the log names those that may not."""
    places = _project_paths(paths)
    return next((path for path in places if may_steer(path, config_dir=paths.config_dir)), None)


def _project_paths(paths: SettingsPaths) -> Iterator[Path]:
    """Yield the project files from the directory upward; the search ends at the home."""
    for place in (paths.directory, *paths.directory.parents):
        path = place / FILE_NAME
        if path.is_file() and path != paths.user_file:
            yield path
        if place == paths.home:
            break


def ignored_settings(directory: Path) -> list[str]:
    """Return why project files that would be read are ignored, for whoever shows no log."""
    paths = find_settings_paths(os.environ, directory)
    reasons = (why_ignored(path, config_dir=paths.config_dir) for path in _project_paths(paths))
    return list(takewhile(bool, reasons))


def _project_file(paths: SettingsPaths) -> SettingsFile | None:
    path = _project_path(paths)
    if path is None:
        return None
    file = read_file(path)
    # The bytes that are used are looked at again: a stranger may exchange them between two looks.
    return file if may_steer(path, file.sha256, paths.config_dir) else None


def _user_settings(paths: SettingsPaths) -> Layer:
    """What holds before the project has its say."""
    file = paths.user_file
    if file is None or not file.is_file():
        return default_layer()
    return default_layer() | _of_file(read_file(file), SourceKind.USER, paths)


def _user_rule(layer: Layer) -> ScopeRule | None:
    """Return the budget of the user's own settings, if it has a period: only then is it one budget
    for all runs, which another one for a single run does not replace."""
    tree = _tree({name: one.value for name, one in layer.items() if name[0] == "budget"})
    try:
        rule = budget_rule(msgspec.convert(tree["budget"], BudgetTable))
    except UserError:  # told with its place, when the settings are put together
        return None
    return None if rule.period is None else rule


def _of_file(file: SettingsFile, kind: SourceKind, paths: SettingsPaths) -> Layer:
    lines = lines_of(file.text)

    def where(name: Name) -> SettingSource:
        shortened = (name[:length] for length in range(len(name), 0, -1))
        line = next((lines[part] for part in shortened if part in lines), 0)
        return SettingSource(kind, str(file.path), line)

    return _anchored(layer_of(file.tables, where), file.path.parent, paths.home)


def _anchored(layer: Layer, base: Path, home: Path | None) -> Layer:
    bundles = {name for name in layer if name[0] == "providers" and name[-1] == _CA_BUNDLE}
    files = {_DATA, _AUDIT, _CACHE, _LEDGER, _SQLITE_TRACES, *_IN_DATA} & layer.keys()
    for name in bundles | files:
        written = str(layer[name].value)
        first, _, rest = written.partition("/")
        start = home / rest if first == "~" and home else base / written
        is_file = "://" not in written and written != _IN_MEMORY
        if written and is_file:
            layer[name] = replace(layer[name], value=str(start))
    return layer


def _with_files_in_place(layer: Layer, paths: SettingsPaths) -> Layer:
    default = SettingSource(SourceKind.DEFAULT)
    layer.setdefault(_DATA, Setting(str(paths.data_dir), default))
    if paths.sockets_dir is not None:
        layer.setdefault(_SOCKETS, Setting(str(paths.sockets_dir), default))
    if _SQLITE_TRACES in layer and layer[_SQLITE_TRACES].value:
        layer.setdefault(_JSON_TRACES, Setting("", default))  # each call is written once
    for name, file in _IN_DATA.items():
        layer.setdefault(name, Setting(str(Path(layer[_DATA].value) / file), default))
    if _JOURNAL_URL not in layer:  # on a server the ledger is beside the journal, in no file
        layer.setdefault(_LEDGER, Setting(layer[_JOURNAL].value, default))
    return layer


# The settings that hold when nothing is written, as one would write them.


def default_toml() -> str:
    """Return the settings that hold when nothing is written, as one would write them."""
    tables = groupby(default_layer().items(), key=lambda item: item[0][:-1])
    return "\n\n".join(
        "\n".join(
            [
                f"[{show_name(table)}]",
                *(f"{show_name(name[-1:])} = {toml_of(setting.value)}" for name, setting in items),
            ]
        )
        for table, items in tables
    )
