"""How the two front ends spell what stands in the tables: names, types, settings and blocks."""

from collections.abc import Callable

from msgspec import Struct

from vegakit.lang.checking import fields

__all__ = ["PYTHON", "VEGA", "Style"]


class Style(Struct, frozen=True):
    """`space` is the head of a space of names, `block` a block of settings; `apart` stands between
    settings. `unsaid` are functions that a card leaves out."""

    space: Callable[[str], str]
    type: Callable[[str], str]
    setting: Callable[[str, str], str]
    value: Callable[[fields.Kind], str]
    block: Callable[[str, str], str]
    apart: str
    unsaid: frozenset[str]


_RARE = frozenset(
    "str::len list::len map::len str::contains list::contains map::has file::attach link "
    "process::yield process::self process::exit trace::span trace::event "
    "trace::set_attribute".split()
)
"""`len` and `in` do the same, or few programs need them."""

_PYTHONS_OWN = frozenset(
    "len range str int float print fail math::abs math::round math::min math::max list::sort "
    "str::trim str::lower str::upper str::split str::join str::starts_with str::ends_with "
    "str::replace str::slice list::slice map::keys map::values list::sum list::without_nulls "
    "time::seconds time::of_seconds str::pad_left str::pad_right".split()
)
"""Python has words for it, or few programs need it."""

_PYTHON_TYPES = {
    "any": "Any",
    "money": "Money",
    "duration": "Duration",
    "file": "File",
    "process": "Process",
}
_PYTHON_BLOCKS = {"circuit_breaker": "breaker", "rate_limit": "rate"}
"""Arguments of an agent that are called otherwise than their block."""


def _vega_value(kind: fields.Kind) -> str:
    match kind:
        case fields.Fraction(least=least, most=most):
            return f"{least:g}..{most:g}"
        case fields.Number():
            return "3"
        case fields.Amount():
            return "$0.10"
        case fields.Time():
            return "30s"
        case fields.OneOf(words=words):
            return "|".join(words)
        case fields.Words(words=words):
            return f"[{', '.join(words)}]"
        case fields.Growth():
            return "exponential(100ms, 2.0, 5s)"
        case fields.Literal(bare=bare):
            return "fast" if bare else '"text"'


def _python_value(kind: fields.Kind) -> str:
    match kind:
        case fields.Fraction() | fields.Number():
            return _vega_value(kind)
        case fields.Words(words=words):
            return "[" + ", ".join(f'"{word}"' for word in words) + "]"
        case fields.Growth():
            return 'vega.exponential("100ms", 2.0, "5s")'
        case fields.Literal(bare=False):
            return '"text"'
        case _:
            return f'"{_vega_value(kind)}"'


def _python_type(text: str) -> str:
    if text.endswith("?"):
        return f"{_python_type(text[:-1])} | None"
    if text.startswith("["):
        return f"list[{_python_type(text[1:-1])}]"
    if text.startswith("{str: "):
        return f"dict[str, {_python_type(text[6:-1])}]"
    return _PYTHON_TYPES.get(text, text)


def _python_block(name: str, settings: str) -> str:
    return f"{_PYTHON_BLOCKS.get(name, name)}=vega.{name}({settings})"


VEGA = Style(
    space=lambda name: f"{name}::" if name else "everywhere:",
    type=lambda text: text,
    setting=lambda name, value: f"{name} {value}",
    value=_vega_value,
    block=lambda name, settings: f"{name} {{ {settings} }}",
    apart="  ",
    unsaid=_RARE,
)
PYTHON = Style(
    space=lambda name: f"vega.{name}:" if name else "vega:",
    type=_python_type,
    setting=lambda name, value: f"{name}={value}",
    value=_python_value,
    block=_python_block,
    apart=", ",
    unsaid=_RARE | _PYTHONS_OWN,
)
