"""Where a setting came from, and how to say that it is wrong there.

Every message names the place, what came, what was expected, and what to write.
"""

import json
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from vegakit.config.names import Name, show_name, variable_of
from vegakit.config.schema import expected_of
from vegakit.config.secrecy import is_secret
from vegakit.errors import SettingsError
from vegakit.records import Json

__all__ = ["Source", "SourceKind", "badly_named", "not_a_table", "toml_of", "wrong"]

_LONGEST_SHOWN = 60


class SourceKind(StrEnum):
    """The later ones win."""

    DEFAULT = "default"
    USER = "user"
    PROJECT = "project"
    ENVIRONMENT = "environment"
    FLAG = "flag"


class Source(Struct, frozen=True):
    """`place` is a file or a variable; `line` is 0 where it is not known."""

    kind: SourceKind
    place: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.place or self.kind}{f':{self.line}' if self.line else ''}"


def wrong(
    source: Source,
    name: Name,
    value: Any,  # noqa: ANN401
    annotation: Any,  # noqa: ANN401
    problem: msgspec.ValidationError,
) -> SettingsError:
    expected, example = expected_of(annotation)
    return SettingsError(
        f"{source}: {show_name(name)} is {_came(name, value, problem)}; expected {expected}; "
        f"write {_assignment(source, name, example)}"
    )


def not_a_table(source: Source, name: Name) -> SettingsError:
    """Does not say what came: it may be a key in the wrong place."""
    return SettingsError(
        f"{source}: {show_name(name)} is not a table; "
        f"write [{show_name(name)}] and its settings below it"
    )


def badly_named(source: Source, name: Name, annotation: Any) -> SettingsError:  # noqa: ANN401
    expected, example = expected_of(annotation)
    return SettingsError(
        f"{source}: {name[-1]!r} in {show_name(name[:-1])} is not {expected}; "
        f"write it like {show_name((*name[:-1], str(example)))}"
    )


def toml_of(value: Json) -> str:
    """On one line; JSON's texts, numbers and lists are TOML's."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {toml_of(part)}' for key, part in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_of, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _came(name: Name, value: Any, problem: msgspec.ValidationError) -> str:  # noqa: ANN401
    if is_secret(name):
        return "something that is not shown here"
    if isinstance(value, list | dict):
        return f"wrong inside: {problem}"
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"


def _assignment(source: Source, name: Name, example: Json) -> str:
    if source.kind is not SourceKind.ENVIRONMENT or isinstance(example, dict):
        return f"{show_name(name[-1:])} = {toml_of(example)}"
    text = ",".join(map(str, example)) if isinstance(example, list) else example
    return f"{variable_of(name)}='{text}'"  # in double quotes a shell reads $10 as $1 and a zero
