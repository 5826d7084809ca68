"""The tables of the language, as short as a model can still read them.

`trim/lower(text) -> str` are two functions of one shape, `to?: int` may be left out, and what most
functions of a space take first is said once, in its head.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from vegakit.lang.cards.shapes import Shape, shape_of
from vegakit.lang.cards.styles import Style
from vegakit.lang.catching import CATCHABLE
from vegakit.lang.checking import fields
from vegakit.lang.library import LIBRARY, Row
from vegakit.lang.python.words import FUNCTIONS, METHODS

__all__ = ["LATER", "library", "settings", "tables_in"]

LATER = frozenset({"on_exceed"})
"""Settings that are written and understood, and not built."""


def tables_in(style: Style) -> dict[str, str]:
    """What stands in a page for a mark such as `<library>`."""
    return {
        "library": library(style),
        "agent": settings(style, fields.AGENT),
        "blocks": style.apart.join(
            style.block(name, settings(style, known)) for name, known in fields.BLOCKS.items()
        ),
        "errors": " ".join(CATCHABLE),
        "own": " ".join((*FUNCTIONS, *(f".{name}" for name in METHODS))),
    }


def library(style: Style, rows: Iterable[Row] = LIBRARY.values()) -> str:
    """A line for each space of names, beginning with what stands in none."""
    spaces: dict[str, list[Row]] = {}
    for row in rows:
        if row.name not in style.unsaid:
            spaces.setdefault(row.name.rpartition("::")[0], []).append(row)
    return "\n".join(_space(style, name, rows) for name, rows in spaces.items())


def _space(style: Style, name: str, rows: list[Row]) -> str:
    shapes = [shape_of(row, style.type) for row in rows]
    firsts = Counter(shape.params[0] for shape in shapes if shape.params)
    first, count = firsts.most_common(1)[0] if firsts else ("", 0)
    common = first if name and count > 2 else ""
    alike: dict[str, list[str]] = {}
    for shape in shapes:
        alike.setdefault(_rest(shape, common), []).append(shape.name)
    told = "; ".join(f"{'/'.join(names)}{rest}" for rest, names in alike.items())
    head = f"{style.space(name)} ({common})" if common else style.space(name)
    return f"{head} {told}"


def _rest(shape: Shape, common: str) -> str:
    params = [
        param.partition(":")[0] if param == common and at == 0 else param
        for at, param in enumerate(shape.params)
    ]
    result = f" -> {shape.result}" if shape.result else ""
    needs = f" needs {shape.capability}" if shape.capability else ""
    return f"({', '.join(params)}){result}{needs}"


def settings(style: Style, known: Mapping[str, fields.Kind]) -> str:
    return style.apart.join(
        style.setting(name, style.value(kind)) for name, kind in known.items() if name not in LATER
    )
