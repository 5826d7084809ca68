"""Writes docs/reference/python.md: examples from python_reference.md, the rest from the source.

python tools/python_reference.py            write the page
python tools/python_reference.py --check    exit 1 if the page is not up to date
"""

import inspect
import re
import sys
from enum import EnumType
from pathlib import Path
from typing import cast

import vegakit
from vegakit import vesper

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs/reference/python.md"
MOST_NAMES = 40
_MARK = re.compile(r"^<!-- (?:vesper\.)?(\w+) -->$", re.MULTILINE)
_OWN = re.compile(r"^<!-- (\w+) -->$", re.MULTILINE)


def documented() -> list[str]:
    """Return the names of the package itself that have an example, in the order of the page."""
    return _OWN.findall((HERE / "python_reference.md").read_text(encoding="utf-8"))


def page() -> str:
    """Return the page: each mark is replaced by the signature and the docstring of its name."""
    text = (HERE / "python_reference.md").read_text(encoding="utf-8")
    return _MARK.sub(lambda match: _entry(match[1]), text)


def _entry(name: str) -> str:
    found = getattr(vegakit if name in vegakit.__all__ else vesper, name)
    documented = " ".join((inspect.getdoc(found) or "").split())
    return "\n\n".join(part for part in (_signature(name, found), documented) if part)


def _is_error(found: object) -> bool:
    return isinstance(found, type) and issubclass(cast("type[object]", found), BaseException)


def _signature(name: str, found: object) -> str:
    """Return what a name takes. Errors are caught rather than made, members of an enumeration are
    named, and a program's words are not called outside of one."""
    if not callable(found) or _is_error(found) or isinstance(found, EnumType):
        return ""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return ""
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
    shown = ", ".join(_shown(one) for one in plain if not one.name.startswith("_"))
    return f"`{name}({shown})`"


def _shown(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return str(parameter)
    if isinstance(default, str):
        default = str(default)  # of an enumeration, what one writes
    plain = default is None or isinstance(default, str | int | float | tuple)
    return f"{parameter.name}={default!r}" if plain else f"{parameter.name}=…"


def main() -> int:
    """Write the page, or say that it is old."""
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text(encoding="utf-8") == page() else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
