"""Names that variables and parameters may have."""

import ast

from vegakit.lang.python.context import Body, File
from vegakit.lang.python.words import RESERVED

__all__ = ["new_name", "own_name"]


def new_name(body: Body, node: ast.AST, name: str) -> None:
    """A variable has a name of its own."""
    own_name(body.file, node, name, "a variable")


def own_name(file: File, node: ast.AST, name: str, what: str) -> None:
    if name in RESERVED or file.is_declared(name):
        taken = "a builtin of Python" if name in RESERVED else "declared at the top of the file"
        file.refuse(
            "python-shadow",
            node,
            f"`{name}` is {taken}, {what} cannot have its name",
            f"choose another name, such as `{name}_`",
        )
