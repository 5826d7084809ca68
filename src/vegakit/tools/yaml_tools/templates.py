"""Words and URLs with `{parameter}` in them. `{{` and `}}` stand for the braces themselves.

| template                       | value                     | becomes                             |
|--------------------------------|---------------------------|-------------------------------------|
| `[grep, "{text}", src]`        | `a; rm -rf /`             | one word: no shell reads it         |
| the same                       | `-f`, `@list`, `A=b`      | refused: no value begins an option  |
| `[sed, -n, "{script}", a]`     | `w x`                     | refused: sed would write a file     |
| `"--regexp={text}"`            | `-f`                      | `--regexp=-f`                       |
| `"{paths}"`, an array          | `[a, b]`                  | two words                           |
| `https://host/items/{item}?q=` | `../x?y#z`                | `..%2Fx%3Fy%23z`                    |
| the same                       | `..`, `.`, nothing        | refused: it would be another path   |
"""

from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any, TypeAlias
from urllib.parse import quote

from vegakit.errors import CapabilityDenied
from vegakit.policy import Denied, Grant, RunCommand, decide, risky_word
from vegakit.tools.functions import ToolArgumentsError

__all__ = ["Template", "filled_url", "filled_words", "template_of"]

Template: TypeAlias = tuple[tuple[str, str | None], ...]
"""Literal text, and the parameter after it."""

_ONE_PLAIN = Grant(("process::exec",), commands=("program *",))


def template_of(text: str) -> Template | str:
    """Or what is wrong with it."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        return f"{text[:80]!a}: {error}; write {{{{ for a brace that is meant"
    for _, name, form, conversion in parts:
        if name is not None and (form or conversion or not name.isidentifier()):
            return f"{text[:80]!a}: braces hold the name of a parameter, as in {{path}}"
    return tuple((literal, name) for literal, name, _, _ in parts)


def filled_words(templates: Sequence[Template], values: Mapping[str, Any]) -> tuple[str, ...]:
    words: list[str] = []
    given: list[int] = []
    for template in templates:
        made = _words(template, values)
        if template and template[0][0] == "":
            given += range(len(words), len(words) + len(made))
        words += made
    for at in given:
        _check_plain(words[at])
    risky = risky_word(tuple(words), given)
    if risky is not None:
        raise CapabilityDenied(
            f"with {risky[:80]!a} {words[0]} writes or runs something else; give another value"
        )
    return tuple(words)


def filled_url(template: Template, values: Mapping[str, Any]) -> str:
    url = _filled(template, values, _quoted)
    before = _filled(template, dict.fromkeys(values, "{}"), str)
    for was, name in zip(_path(before), _path(url), strict=True):
        if was != name and name in {"", ".", ".."}:
            raise ToolArgumentsError(
                f"the value {name!r} would name another path; give a name that is one"
            )
    return url


def _words(template: Template, values: Mapping[str, Any]) -> list[str]:
    match template:
        case (("", str(name)),) if isinstance(values[name], tuple):
            return [_text(part) for part in values[name]]
        case _:
            return [_filled(template, values, _text)]


def _filled(template: Template, values: Mapping[str, Any], spell: Callable[[Any], str]) -> str:
    return "".join(
        literal + ("" if name is None else spell(values[name])) for literal, name in template
    )


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(value: str | float | bool) -> str:
    return quote(_text(value), safe="")


def _path(url: str) -> list[str]:
    return url.partition("?")[0].partition("#")[0].split("/")


def _check_plain(word: str) -> None:
    """`*` in a rule is one plain argument, and so is a value that begins a word."""
    if isinstance(decide(_ONE_PLAIN, RunCommand(("program", word))), Denied):
        raise CapabilityDenied(
            f"{word[:80]!a} is no plain argument: it is empty, holds a control character, or "
            "begins like an option (-, +), a list (@) or an assignment (NAME=); give another value"
        )
