"""The text of a file as Python reads it, within bounds."""

import ast
import re
import warnings

from vegakit.lang.python.context import File
from vegakit.lang.steps import took
from vegakit.lang.tree import Node

__all__ = ["parsed", "too_deep"]

_MOST_CHARS, _MOST_NODES = 200_000, 30_000
_HALF = re.compile("[\ud800-\udfff]")
_SYNTAX = "mend it as Python asks: python -m py_compile FILE"


def parsed(file: File) -> ast.Module | None:
    if len(file.text) > _MOST_CHARS:
        file.findings.report(
            "too-large",
            f"a program in Python has at most {_MOST_CHARS:,} characters",
            0,
            1,
            "split it, or move what is not part of the program elsewhere",
        )
        return None
    # Python reads on without counting, and what stands in braces in a text it reads one by one.
    took(len(file.text) // 16 + 14 * file.text.count("{"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(file.text)
        return module if _is_text(file, module) else None
    except SyntaxError as error:
        at = file.places.at(error.lineno or 1, 0) + max((error.offset or 1) - 1, 0)
        at = min(at, len(file.text))
        file.findings.report(
            "python-syntax", f"this is not Python: {error.msg}", at, at + 1, _SYNTAX
        )
    except (ValueError, RecursionError, MemoryError):
        too_deep(file)
    return None


def _is_text(file: File, module: ast.Module) -> bool:
    """Half a character, such as "\\ud800", cannot be written down."""
    for number, node in enumerate(ast.walk(module)):
        took(6)  # and as much again in the passes that follow
        if number > _MOST_NODES:
            file.report(
                "too-large",
                Node(0, 1),
                f"a program in Python has at most {_MOST_NODES:,} names, numbers and operators",
                "split it",
            )
            return False
        match node:
            case ast.Constant(value=str() as text) if _HALF.search(text):
                file.report(
                    "python-literal", node, "this text holds half a character", "write it whole"
                )
                return False
            case _:
                pass
    return True


def too_deep(file: File) -> None:
    file.findings.report(
        "too-deep", "this is nested too deeply to be read", 0, 1, "give parts of it names"
    )
