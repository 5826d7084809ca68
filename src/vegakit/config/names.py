"""Names of settings: `budget.default`, `prices."openai:gpt-x".input`.

A name is written as a TOML key. Its environment variable is `VEGA_` and the words of the name in
capitals, joined by underscores: `VEGA_BUDGET_DEFAULT`, `VEGA_PROVIDERS_OPENAI_BASE_URL`.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, TypeAlias, get_args, get_origin

from msgspec.structs import fields

from vegakit.config.tables import Table, Tables
from vegakit.errors import SettingsError
from vegakit.records import Json

__all__ = [
    "ANY",
    "FOR_ONE_START",
    "Name",
    "dict_of",
    "is_key",
    "is_list",
    "name_of_variable",
    "nearest",
    "parse_name",
    "show_name",
    "table_of",
    "variable_of",
]

Name: TypeAlias = tuple[str, ...]
ANY = "*"
FOR_ONE_START = frozenset({"VEGA_JOURNAL_REPLAY", "VEGA_JOURNAL_RESUME"})
"""No settings: each is for one start of one program, and no file may say it."""
_LOOKS_LIKE = 0.75
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def show_name(name: Name) -> str:
    return ".".join(word if _BARE.fullmatch(word) else json.dumps(word) for word in name)


def parse_name(text: str) -> Name:
    """A name is a TOML key, so TOML's parser reads it."""
    if _BARE.fullmatch(text):
        return (text,)
    words: list[str] = []
    try:
        written: Json = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        written = None
    while isinstance(written, dict) and len(written) == 1:
        ((word, written),) = written.items()
        words.append(word)
    if written != 0 or "\n" in text:
        raise SettingsError(f"{text!r} is not the name of a setting; write it like budget.default")
    return tuple(words)


def is_key(name: Name) -> bool:
    """Whether it is where a provider's key is read."""
    return (name[0], *name[2:]) == ("providers", "key")


def nearest(word: str, known: list[str]) -> str:
    """The end of a message about an unknown word."""
    if close := get_close_matches(word, known, 1):
        return f"did you mean {close[0]}?"
    return f"there are: {', '.join(known)}"


def variable_of(name: Name) -> str:
    return "VEGA_" + "_".join(name).upper()


def name_of_variable(variable: str) -> Name | None:
    """None for a variable that is not ours; one that looks like ours but is none is refused."""
    if not variable.startswith("VEGA_") or variable in FOR_ONE_START:
        return None
    known = [variable_of(name) for _, name in _variables()]
    for pattern, name in _variables():
        if match := pattern.fullmatch(variable):
            free = iter(match.groups())
            return tuple(next(free).lower() if word == ANY else word for word in name)
    if get_close_matches(_first_word(variable), map(_first_word, known), 1, _LOOKS_LIKE):
        raise SettingsError(f"{variable} is not a setting; {nearest(variable, known)}")
    return None


def _first_word(variable: str) -> str:
    return variable.split("_")[1]


def table_of(annotation: Any) -> type[Table] | None:  # noqa: ANN401
    bare = _bare(annotation)
    return bare if isinstance(bare, type) and issubclass(bare, Table) else None


def dict_of(annotation: Any) -> tuple[Any, Any] | None:  # noqa: ANN401
    """Types of the keys and the values of a table whose keys are free."""
    bare = _bare(annotation)
    return get_args(bare) if get_origin(bare) is dict else None


@cache
def _variables() -> list[tuple[re.Pattern[str], Name]]:
    """One free word at most: what is named by a header or a model cannot be a variable."""
    names = sorted((n for n in _settings(Tables) if n.count(ANY) < 2), key=len, reverse=True)
    return [(re.compile(variable_of(n).replace(ANY, "([A-Z0-9_]+?)")), n) for n in names]


def _settings(annotation: Any, at: Name = ()) -> Iterator[Name]:  # noqa: ANN401
    if table := table_of(annotation):
        for field in fields(table):
            yield from _settings(field.type, (*at, field.encode_name))
    elif pair := dict_of(annotation):
        yield from _settings(pair[1], (*at, ANY))
    else:
        yield at


def is_list(annotation: Any) -> bool:  # noqa: ANN401
    bare = _bare(annotation)
    return any(get_origin(part) is tuple for part in (bare, *get_args(bare)))


def _bare(annotation: Any) -> Any:  # noqa: ANN401
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
