"""Load settings from every place they may come from; later places win.

    default ─▶ user's file ─▶ project file, if trusted ─▶ VEGA_* ─▶ flags ─▶ Settings

Relative paths start at the directory of the file that names them, else at the working directory.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby, takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, fields, replace

from vegakit.config.layers import (
    Layer,
    Setting,
    SettingsFile,
    default_layer,
    environment_layer,
    flag_layer,
    layer_of,
    lines_of,
    lowered_budget,
    names_that_start,
    read_file,
    unreadable_variables,
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
from vegakit.config.places import FILE_NAME, SettingsPaths, find_settings_paths, user_data_dir
from vegakit.config.settings import Settings, UserBudget, budget_rule
from vegakit.config.tables import BudgetTable, PriceTable, Tables
from vegakit.config.trust import (
    INSTRUCTION_FILES,
    SKILL_FOLDERS,
    digest_of,
    extension_digests,
    find_trust,
    may_steer,
    steering_names,
    trust_command,
    warn_once,
    why_ignored,
    why_unused,
)
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
_MAX_NAMED = 5
_TEXTS = {*INSTRUCTION_FILES, *SKILL_FOLDERS}
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
    layer |= _project_settings(paths, layer, variables)
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
    if (user is not None and user.is_file()) or _project_path(paths, variables) is not None:
        with suppress(SettingsError):
            return load(environment=variables).sockets_path
    if chosen := variables.get(variable_of(_SOCKETS)):
        return Path(chosen).expanduser()
    return paths.sockets_dir or user_data_dir(variables) / _IN_DATA[_SOCKETS]


def project_folder(directory: Path) -> Path:
    """Return the nearest folder upward with a file of settings or a repository, below the home; if
    there is none, the folder itself. Trust is asked for this folder."""
    paths = find_settings_paths(os.environ, directory)
    for place in (paths.directory, *paths.directory.parents):
        if place == paths.home:
            break
        marks = (place / FILE_NAME, place / ".git")
        if any(mark.exists() and not why_ignored(mark) for mark in marks):
            return place
    return paths.directory


class FolderContent(Struct, frozen=True):
    """Holds what a folder would change if it is trusted: the `settings` of its file as text, the
    digests of what `starts` there unasked, and the `texts` that instruct agents."""

    folder: Path
    settings: dict[str, str]
    starts: dict[str, str]
    texts: list[str]


def folder_content(folder: Path, *, environment: Mapping[str, str] = os.environ) -> FolderContent:
    """Return what a folder would change if it is trusted."""
    paths = find_settings_paths(environment, folder)
    settings = dict[str, str]()
    starts = dict[str, str]()
    if (paths.directory / FILE_NAME).is_file():
        file = read_file(paths.directory / FILE_NAME)
        own = _user_settings(paths)
        project = _of_file(file, SourceKind.PROJECT, paths)
        free = lowered_budget(project, own)
        settings = {show_name(n): toml_of(project[n].value) for n in project if n not in free}
        starts = _setting_digests(file, own)
    texts = [name for name in steering_names(paths.directory) if name in _TEXTS]
    starts |= extension_digests(paths.directory)
    return FolderContent(paths.directory, settings, starts, texts)


def changed_starts(
    content: FolderContent, environment: Mapping[str, str] = os.environ
) -> list[str]:
    """Return what starts in a folder and is not what the user accepted."""
    trust = find_trust(content.folder, environment)
    return [
        name
        for name, digest in content.starts.items()
        if trust is None or not trust.accepts(name, digest)
    ]


def check_python_trusted(path: Path) -> None:
    """Raise unless the user trusts the folder of a file of Python."""
    folder = path.parent.resolve()
    if find_trust(folder) is None:
        command = trust_command(project_folder(folder))
        raise SettingsError(
            f"{folder / path.name} is not loaded: you have not trusted its folder; it holds "
            "Python, which runs with all your rights as soon as it is loaded, and Vega cannot know "
            "what it does; read it, and if you trust the folder, type: "
            f"{command}, or run it once with --trust"
        )


def _project_settings(paths: SettingsPaths, own: Layer, variables: Mapping[str, str]) -> Layer:
    """Return what the project's file sets: all of it in a trusted folder that starts only what the
    user accepted, and elsewhere a smaller budget."""
    path = _project_path(paths, variables)
    if path is None:
        return {}
    trust = find_trust(path.parent, variables)
    project: Layer = {}
    digests: dict[str, str] = {}
    try:
        file = read_file(path)
        project = _of_file(file, SourceKind.PROJECT, paths)
        digests = _setting_digests(file, own)
    except SettingsError:
        if trust is not None:
            raise
    # A stranger may exchange the file between two looks.
    if not may_steer(path, variables):
        return {}
    if trust is None:
        budget = lowered_budget(project, own)
        if not project or len(budget) < len(project):
            warn_once(why_unused(path.parent, [FILE_NAME], variables))
        return budget
    changed = [name for name, digest in digests.items() if not trust.accepts(name, digest)]
    if changed:
        raise SettingsError(
            f"{path} sets {', '.join(changed[:_MAX_NAMED])}, which changed since you trusted its "
            "folder, and decides where keys and prompts are sent, or what runs and may be done; "
            f"to see it and accept it, type: {trust_command(path.parent)}"
        )
    return project


def _setting_digests(file: SettingsFile, own: Layer) -> dict[str, str]:
    """Return the digests of the settings that start or decide something unasked. Paths are as the
    file writes them, so that they are the same in a worktree."""
    layer = layer_of(file.tables, lambda _: SettingSource(SourceKind.PROJECT, str(file.path)))
    return {
        (shown := show_name(name)): digest_of(shown, msgspec.json.encode(layer[name].value))
        for name in names_that_start(layer, own)
    }


def _project_path(paths: SettingsPaths, variables: Mapping[str, str]) -> Path | None:
    """Return the nearest project file upward that may steer; the log names those that may not."""
    return next((path for path in _project_paths(paths) if may_steer(path, variables)), None)


def _project_paths(paths: SettingsPaths) -> Iterator[Path]:
    """Yield the project files from the directory upward; the search ends at the home."""
    for place in (paths.directory, *paths.directory.parents):
        path = place / FILE_NAME
        if path.is_file() and path != paths.user_file:
            yield path
        if place == paths.home:
            break


def ignored_settings(directory: Path) -> list[str]:
    """Return why project files that would be read are not used, for commands that show no log."""
    paths = find_settings_paths(os.environ, directory)
    reasons = (
        why_ignored(path) or why_unused(path.parent, [FILE_NAME]) for path in _project_paths(paths)
    )
    return list(takewhile(bool, reasons))


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
