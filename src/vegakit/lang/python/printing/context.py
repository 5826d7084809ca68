"""What the printers share: the checked program, the lines made so far, names that are taken."""

import keyword
from collections.abc import Generator
from contextlib import contextmanager

from vegakit.lang.checked import Checked
from vegakit.lang.diagnostics import Diagnostic
from vegakit.lang.python.words import RESERVED, VEGA_ERRORS
from vegakit.lang.tree import Node
from vegakit.lang.types import Type

__all__ = ["NoFormError", "Printer", "Scope"]

_TAKEN = frozenset(
    "Agent Annotated Any BaseModel Literal Max parallel program session spawn tool vega"
    " self".split()
)


class NoFormError(Exception):
    """What stands there has no form in Python."""

    def __init__(self, node: Node, what: str, help: str = "") -> None:  # noqa: A002
        super().__init__(what)
        self.node, self.what, self.help = node, what, help


class Scope:
    """Variables of a block by their names in Vega: as they are called in Python."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.reasons: dict[str, bool] = {}


class Printer:
    """`natural` are variables that are never below zero, `shared` the lines of this function where
    a list may not be changed in place: both are read off a first try."""

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.unit = checked.units[checked.main]
        self.lines: list[str] = []
        self.level = 0
        self.imports: dict[str, set[str]] = {}
        self.scopes: list[Scope] = []
        self.natural: set[str] = set()
        self.shared: set[int] = set()
        self.begins = 0
        self.is_quoted = False

    def type(self, node: Node) -> Type | None:
        return self.checked.types.get(id(node))

    def uses(self, name: str, module: str = "vegakit") -> str:
        self.imports.setdefault(module, set()).add(name)
        return name

    def line(self, text: str) -> None:
        self.lines.append(f"{'    ' * self.level}{text}" if text else "")

    @contextmanager
    def indented(self) -> Generator[None]:
        self.level += 1
        yield
        self.level -= 1

    @contextmanager
    def scope(self) -> Generator[Scope]:
        self.scopes.append(Scope())
        yield self.scopes[-1]
        self.scopes.pop()

    def declare(self, name: str, node: Node) -> str:
        """Under a name that no variable around it has."""
        made, count = self.fit(name, node), 1
        while any(made in scope.names.values() for scope in self.scopes):
            count += 1
            made = f"{name}_{count}"
        self.scopes[-1].names[name] = made
        return made

    def fit(self, name: str, node: Node) -> str:
        if keyword.iskeyword(name) or name in RESERVED or name in _TAKEN or name in VEGA_ERRORS:
            return f"{name}_"
        if "::" in name:
            raise NoFormError(node, f"`{name}` is of another file", "join the files first")
        return name

    def named(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope.names:
                return scope.names[name]
        return name

    def reason(self, name: str) -> bool | None:
        """Whether the text of a caught error is the same in Python; None for other variables."""
        for scope in reversed(self.scopes):
            if name in scope.reasons:
                return scope.reasons[name]
            if name in scope.names:
                return None
        return None

    def no_form(self, error: NoFormError) -> Diagnostic:
        node = error.node
        return Diagnostic(
            "no-form",
            f"this cannot be written in the other language: {error.what}",
            self.unit.path,
            node.at,
            node.end,
            error.help,
        )
