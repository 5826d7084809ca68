"""The layers settings come from: files, environment and flags, each as checked values by name.

A `vega.toml` comes with a repository that somebody else wrote and is read before anybody has
looked at it. So by itself it may only lower the budget; anything else counts in a trusted folder.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, TypeAlias, cast
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from vegakit.config.names import (
    TRACES_ENDPOINT,
    Name,
    SettingSource,
    SourceKind,
    bad_name_error,
    dict_of,
    is_key,
    is_list,
    name_of_variable,
    not_a_table_error,
    one_of,
    parse_name,
    plain,
    show_name,
    table_of,
    wrong_value_error,
)
from vegakit.config.tables import Tables
from vegakit.errors import SettingsError, did_you_mean
from vegakit.money import parse_allowance

# A small file of short lines cannot keep the TOML parser busy for long.


_MAX_BYTES = 65_536
_MAX_LINE = 500
_START_OF_LINE = re.compile(r"\s*(?:\[+(?P<table>[^\]]{1,200})\]|(?P<key>[^=#\[]{1,200})=)")


class SettingsFile(Struct, frozen=True):
    """Read once: the same bytes are parsed and quoted."""

    path: Path
    text: str
    tables: dict[str, Any]


def read_file(path: Path) -> SettingsFile:
    """Read a settings file, which must be TOML and small."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        text = raw.decode("utf-8-sig")
        _check_size(raw, text)
        return SettingsFile(path, text, tomllib.loads(text))
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{path} is not UTF-8 text: {error.reason}; save it as UTF-8"
        ) from error
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} cannot be read as TOML: {error}; {_TOML_RULE}") from error


_TOML_RULE = 'correct that place: text stands in quotes, such as default = "$5"'


def _check_size(raw: bytes, text: str) -> None:
    if len(raw) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES} bytes; make it smaller")
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _MAX_LINE:
            raise ValueError(f"line {number} is longer than {_MAX_LINE} characters; break it")


def lines_of(text: str) -> dict[Name, int]:
    """Return the line of each table and setting, counted from 1, as far as a glance at the lines
    can tell."""
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


# One place that settings come from, as checked values by name.
#
#     a tree of tables  ── along the types of `Tables` ──▶  {name: Setting(value, source)}
#
# An unknown word or a value of another type is refused here, with the place it stands at, what was
# expected, and what to write.


class Setting(Struct, frozen=True):
    """A checked value, and where it came from."""

    value: Any
    source: SettingSource


Layer: TypeAlias = dict[Name, Setting]
Where: TypeAlias = Callable[[Name], SettingSource]


def layer_of(written: object, where: Where) -> Layer:
    """Return the checked settings of a tree of tables, by name."""
    return dict(_walk(Tables, written, (), where))


def default_layer() -> Layer:
    """Return the settings that hold when nothing is written."""
    return layer_of(plain(Tables()), lambda _: SettingSource(SourceKind.DEFAULT))


def environment_layer(environment: Mapping[str, str]) -> Layer:
    """An empty variable is one that is not set. Our own go before OpenTelemetry's."""
    layer = _opentelemetry_layer(environment)
    for variable in sorted(environment):
        name = name_of_variable(variable) if environment[variable] else None
        if name is not None:
            source = SettingSource(SourceKind.ENVIRONMENT, variable)
            layer |= layer_of(_nested(name, environment[variable]), lambda _, s=source: s)
    return layer


# OpenTelemetry's own variables are settings of ours: `vega config` shows them with the rest. They
# are meant for all programs of a shell, so that one which we cannot read is no error here.


_OTLP: Name = ("telemetry", "otlp")
_OPENTELEMETRY: dict[Name, tuple[str, ...]] = {
    # the first that is set counts
    _OTLP: (TRACES_ENDPOINT, "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ("telemetry", "otlp_protocol"): (
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ),
    ("telemetry", "otlp_headers"): (
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_HEADERS",
    ),
    ("telemetry", "service_name"): ("OTEL_SERVICE_NAME",),
    ("telemetry", "resource_attributes"): ("OTEL_RESOURCE_ATTRIBUTES",),
}


def _opentelemetry_layer(environment: Mapping[str, str]) -> Layer:
    layer: Layer = {}
    for _, found in _opentelemetry_settings(environment):
        layer |= found if isinstance(found, dict) else {}
    return layer


def _opentelemetry_settings(
    environment: Mapping[str, str],
) -> Iterator[tuple[Name, Layer | SettingsError]]:
    """Yield each setting that a variable says, or why it cannot be read."""
    for name, variables in _OPENTELEMETRY.items():
        variable = next((one for one in variables if environment.get(one, "").strip()), None)
        if variable is not None:
            source = SettingSource(SourceKind.ENVIRONMENT, variable)
            value = _opentelemetry_value(name, environment[variable].strip())
            try:
                yield name, layer_of(_nested(name, value), lambda _, s=source: s)
            except SettingsError as error:
                yield name, error


def unreadable_variables(layer: Layer, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is wrong with OpenTelemetry's variables, as far as it matters: another place may
    say the setting, and without a collector only a wrong address does."""
    if _is_disabled(environment):
        return ()

    def is_set(name: Name) -> bool:
        return name in layer and layer[name].source.kind is not SourceKind.DEFAULT

    wrong = {
        name: str(found)
        for name, found in _opentelemetry_settings(environment)
        if isinstance(found, SettingsError) and not is_set(name)
    }
    return tuple(why for name, why in wrong.items() if name == _OTLP or is_set(_OTLP))


def _opentelemetry_value(name: Name, text: str) -> object:
    match name[1]:
        case "otlp":  # gRPC's clients take an address without a scheme, too
            return text if "://" in text else f"http://{text}"
        case "otlp_protocol":  # who takes JSON takes Protobuf at the same address
            return "http/protobuf" if text == "http/json" else text
        case "otlp_headers" | "resource_attributes":
            pairs = (pair.partition("=") for pair in text.split(","))
            return {key.strip(): unquote(value.strip()) for key, _, value in pairs if key.strip()}
        case _:
            return text


def without_disabled(layer: Layer, environment: Mapping[str, str]) -> Layer:
    """Return the layer without a collector if OpenTelemetry's variables switch its SDK or traces
    off, whoever names the collector."""
    if _is_disabled(environment):
        return {name: setting for name, setting in layer.items() if name != _OTLP}
    return layer


def _is_disabled(environment: Mapping[str, str]) -> bool:
    """Return whether spans shall not go to a collector. `OTEL_TRACES_EXPORTER` is a list of where
    they go, such as `console`; names of ours in it begin with `otlp`."""
    exporters = environment.get("OTEL_TRACES_EXPORTER", "").lower().split(",")
    chosen = [one.strip() for one in exporters if one.strip()]
    is_elsewhere = bool(chosen) and not any(one.startswith("otlp") for one in chosen)
    return is_elsewhere or environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def flag_layer(flags: Mapping[str, object]) -> Layer:
    """Return the settings of flags, by dotted names or as a tree; None is a flag that was not
    given."""
    layer: Layer = {}
    for text, value in flags.items():
        layer |= layer_of(
            _nested(parse_name(text), value), lambda _: SettingSource(SourceKind.FLAG)
        )
    return layer


def _nested(name: Name, value: object) -> object:
    for word in reversed(name):
        value = {word: value}
    return value


def _walk(annotation: Any, value: Any, name: Name, where: Where) -> Iterator[tuple[Name, Setting]]:  # noqa: ANN401
    if value is None:
        return
    if table_of(annotation) is None and dict_of(annotation) is None:
        yield name, Setting(_checked(annotation, value, name, where), where(name))
        return
    if not isinstance(value, Mapping):
        raise not_a_table_error(where(name), name)
    for word, inner in cast("Mapping[str, Any]", value).items():
        inner_name = (*name, word)
        yield from _walk(_type_of(annotation, inner_name, where), inner, inner_name, where)


def _type_of(annotation: Any, name: Name, where: Where) -> Any:  # noqa: ANN401
    """Of the value under the last word of `name`, if the table may have such a word."""
    if pair := dict_of(annotation):
        try:
            msgspec.convert(name[-1], pair[0])
        except msgspec.ValidationError:
            raise bad_name_error(where(name), name, pair[0]) from None
        return pair[1]
    known = {field.encode_name: field.type for field in fields(table_of(annotation) or Tables)}
    if name[-1] not in known:
        hint = did_you_mean(name[-1], known)
        raise SettingsError(f"{where(name)}: there is no setting {show_name(name)}; {hint}")
    return known[name[-1]]


def _checked(annotation: Any, value: Any, name: Name, where: Where) -> Any:  # noqa: ANN401
    """A text may stand for a number or, with commas, for a list where its type is known so."""
    if callable(value) and is_key(name):  # given in code
        return value
    if isinstance(value, PurePath):
        value = str(value)
    lax = where(name).kind in {SourceKind.ENVIRONMENT, SourceKind.FLAG}
    if isinstance(value, str) and (item := one_of(annotation)) is not None:
        if lax and "," in value:
            value = value.split(",")
        else:
            annotation = item
    elif lax and isinstance(value, str) and is_list(annotation):
        value = value.split(",")
    try:
        return plain(msgspec.convert(value, annotation, strict=not lax))
    except msgspec.ValidationError as problem:
        raise wrong_value_error(where(name), name, value, annotation, problem) from None


# What a project file may set in a folder that its user has not trusted: a smaller budget. What else
# it sets counts once the folder is trusted. Some of it starts or decides without being named again:
# addresses, servers, permissions, models of providers that the user does not use, and what weakens
# the cap: prices, a larger budget, other places of ledger and journal. That is digested when the
# folder is trusted.


_BUDGET: Name = ("budget", "default")
_STARTS = set(
    "providers mcp permissions telemetry prices budget ledger journal cache audit data_dir".split()
)


def lowered_budget(project: Layer, own: Layer) -> Layer:
    """Return the budget of a project file, if it is smaller than what holds without the file."""
    setting = project.get(_BUDGET)
    if setting is None or not _lowers(setting.value, own[_BUDGET].value):
        return {}
    return {_BUDGET: setting}


def _lowers(written: str, held: str) -> bool:
    new, old = parse_allowance(written), parse_allowance(held)
    return new.amount <= old.amount and new.period in {None, old.period}


def names_that_start(project: Layer, own: Layer) -> list[Name]:
    """Return the settings of a project file that start or decide something unasked."""
    named = {model.partition(":")[0] for name in own for model in _models_of(name, own[name].value)}
    written = {name for name in own if own[name].source.kind is SourceKind.USER}
    providers = named | {name[1] for name in written if name[0] == "providers"}
    return [
        name
        for name, setting in project.items()
        if (name[0] in _STARTS and name not in lowered_budget(project, own))
        or any(m.partition(":")[0] not in providers for m in _models_of(name, setting.value))
    ]


def _models_of(name: Name, value: Any) -> list[str]:  # noqa: ANN401
    if name[0] != "models":
        return []
    return [value] if isinstance(value, str) else list(value)
