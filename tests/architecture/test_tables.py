"""A table keyed by kinds of nodes, types, events or requests has a row for every kind.

A missing row would be a KeyError in the middle of somebody's program. Tables are found, not
listed: every mapping of a module or class in `lang`, `vm` and `program` whose keys are members of
one union, and every dict that a function there writes out with such keys.
"""

import ast
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_args

import vegakit.lang
import vegakit.program
import vegakit.vm
from vegakit.lang import Op, Type
from vegakit.lang.syntax import tree
from vegakit.program import Action, Body, Event
from vegakit.vm import FiberRequest
from vegakit.vm.machine import _OPS  # pyright: ignore[reportPrivateUsage]
from vegakit.vm.module_facts import COLD, HOT

INSIDE_ANOTHER = {"FormattedValue", "Interpolation"}
"""Of Python's expressions: their only place is in an f-string or t-string, which reads them."""

UNIONS: dict[str, frozenset[Any]] = {
    "tree.Expr": frozenset(get_args(tree.Expr)),
    "tree.Stmt": frozenset(get_args(tree.Stmt)),
    "tree.Decl": frozenset(get_args(tree.Decl)),
    "tree.TypeExpr": frozenset(get_args(tree.TypeExpr)),
    "lang.Type": frozenset(get_args(Type)),
    "vm.FiberRequest": frozenset(get_args(FiberRequest)),
    "program.Body": frozenset(get_args(Body)),
    "program.Event": frozenset(get_args(Event)),
    "program.Action": frozenset(get_args(Action)),
    "ast.stmt": frozenset(ast.stmt.__subclasses__()),
    "ast.expr": frozenset(
        one for one in ast.expr.__subclasses__() if one.__name__ not in INSIDE_ANOTHER
    ),
    "Op": frozenset(op for op in Op if op.name not in HOT and op is not Op.AGENT),
}
"""`Op` without what the interpreter runs itself, and without what loading turns into another."""

PARTIAL = {
    "vegakit.lang.check.foreign._SPACES": "values of other types have no functions of their own",
    "vegakit.lang.python.expressions.NO_EXPRESSIONS": "the expressions that are refused",
    "vegakit.lang.python.statements.NO_STATEMENTS": "the statements that are refused",
    "vegakit.program.machine.__init__ by program.Event": (
        "no host sends ChunkArrived or ProgramEnded yet, and nothing could be done with them"
    ),
    "vegakit.vm.lookahead._HANDLERS": "any other instruction ends the lookahead",
}
"""Tables that are meant to have some rows only, and why."""


class Table(NamedTuple):
    name: str
    union: str
    rows: Mapping[Any, Any]


def tables() -> list[Table]:
    modules = [
        importlib.import_module(found.name)
        for room in (vegakit.lang, vegakit.program, vegakit.vm)
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
    ]
    found = [table for module in modules for table in (*_held(module), *_written(module))]
    # A module that imports a table holds it too: it is named by the module that comes first.
    return [*{id(table.rows): table for table in reversed(found)}.values()]


def _held(module: ModuleType) -> Iterator[Table]:
    """Mappings of the module and of its classes."""
    own = [one for one in vars(module).values() if isinstance(one, type)]
    for owner in (module, *(one for one in own if one.__module__ == module.__name__)):
        prefix = module.__name__ if owner is module else f"{module.__name__}.{owner.__name__}"
        for name, rows in vars(owner).items():
            if isinstance(rows, Mapping) and (union := _union(rows)):
                yield Table(f"{prefix}.{name}", union, rows)


def _written(module: ModuleType) -> Iterator[Table]:
    """Dicts that are written out inside of functions."""
    assert module.__file__ is not None
    parsed = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    for function in ast.walk(parsed):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Dict) and len(node.keys) > 1:
                    rows = {_named(module, key): None for key in node.keys}
                    if union := _union(rows):
                        name = f"{module.__name__}.{function.name} by {union}"
                        yield Table(name, union, rows)


def _named(module: ModuleType, key: ast.expr | None) -> Any:
    match key:
        case ast.Name(id=name):
            return vars(module).get(name)
        case ast.Attribute(value=ast.Name(id=of), attr=name):
            return getattr(vars(module).get(of), name, None)
        case _:
            return None


def _union(rows: Mapping[Any, Any]) -> str:
    return next((name for name, kinds in UNIONS.items() if rows and kinds >= {*rows}), "")


def holes(found: list[Table]) -> list[str]:
    """A table is whole, or a part of one that is."""
    whole = [one for one in found if frozenset(one.rows) == UNIONS[one.union]]
    cold = {op: _OPS[COLD + op] for op in UNIONS["Op"]}
    rows = [(one.union, *row) for one in whole for row in one.rows.items()]
    rows += [("Op", *row) for row in cold.items()]
    problems: list[str] = []
    for table in found:
        is_part = all((table.union, *row) in rows for row in table.rows.items())
        if not is_part and table.name not in PARTIAL:
            missing = sorted(str(kind) for kind in UNIONS[table.union] - {*table.rows})
            problems.append(f"{table.name} has no row for {', '.join(missing)}")
    return problems


def test_every_table_has_a_row_for_every_kind() -> None:
    assert holes(tables()) == []


def test_a_missing_row_is_found() -> None:
    """In each table that is whole, whichever row it is."""
    found = tables()
    whole = [one for one in found if frozenset(one.rows) == UNIONS[one.union]]
    assert len(whole) > 12
    for table in whole:
        others = [one for one in found if one.union != table.union]
        for gone in table.rows:
            rest = {kind: row for kind, row in table.rows.items() if kind is not gone}
            [problem] = holes([*others, table._replace(rows=rest)])
            assert str(gone) in problem


def test_exceptions_are_tables_that_are_there() -> None:
    assert {*PARTIAL} <= {table.name for table in tables()}
