"""Python runs some code of a file as soon as it loads it: default values, arguments of decorators,
code at the top. A file that declares and no more runs nothing.

| inert                                       | everything else is code                         |
|---------------------------------------------|-------------------------------------------------|
| constants, names, lists and maps of them    | calls, comprehensions, f-strings, `await`       |
| types: `list[str]`, `str | None`, `a.b`     | operators on anything but types and numbers     |
| `Agent(…)`, `@tool(…)`, `vega.…(…)`, and    | any other call                                  |
| what pydantic and dataclasses declare       |                                                 |
| `if __name__ == "__main__":`                | any other statement but declarations            |
| imports                                     | imports of a file that lies beside it           |
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

_DECLARING: Final = {
    "vegakit": {"Agent", "MaxLen", "program", "tool", "vega"},
    "pydantic": {"ConfigDict", "Field"},
    "dataclasses": {"dataclass", "field"},
}
"""Whose calls only declare, by the module they come from."""

_MOST_CHARS = 80


class LoadTimeCode(Struct, frozen=True):
    """A piece of code that runs when the file is loaded, and its line."""

    line: int
    code: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.code}"


def load_time_code(text: str, is_beside: Callable[[str], bool]) -> tuple[LoadTimeCode, ...]:
    """`text` is sound Python; `is_beside` says whether a module of that name lies beside it."""
    module = ast.parse(text)
    found = dict.fromkeys(_Reader(module, is_beside).of(module.body))
    return tuple(
        LoadTimeCode(node.lineno, " ".join(ast.unparse(node).split())[:_MOST_CHARS])
        for node in found
    )


class _Reader:
    def __init__(self, module: ast.Module, is_beside: Callable[[str], bool]) -> None:
        self._is_beside = is_beside
        froms = [one for one in module.body if isinstance(one, ast.ImportFrom)]
        imported = {
            alias.asname or alias.name
            for one in froms
            for alias in one.names
            if not one.level and alias.name in _DECLARING.get(_first(one.module or ""), ())
        }
        own = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        self._declaring = imported - {one.name for one in module.body if isinstance(one, own)}
        self._annotations_run = not any(
            one.module == "__future__" and any(a.name == "annotations" for a in one.names)
            for one in froms
        )

    def of(self, body: Iterable[ast.stmt]) -> Iterator[ast.stmt | ast.expr]:
        for node in body:
            yield from self._statement(node)

    def _statement(self, node: ast.stmt) -> Iterator[ast.stmt | ast.expr]:
        match node:
            case ast.Pass():
                return
            case ast.Import(names=names):
                yield from [node] if any(self._is_beside(_first(a.name)) for a in names) else []
            case ast.ImportFrom(module=module, level=level):
                yield from [node] if level or self._is_beside(_first(module or "")) else []
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from self._code_in(_evaluated(node, annotations=self._annotations_run))
            case ast.ClassDef():
                bases = (*node.decorator_list, *node.bases, *(k.value for k in node.keywords))
                yield from self._code_in(bases)
                yield from self.of(node.body)
            case ast.Assign(targets=[ast.Name()], value=value) | ast.Expr(value=value):
                yield from self._code_in([value])
            case ast.AnnAssign(target=ast.Name(), annotation=annotation, value=value):
                kinds = [annotation] if self._annotations_run else []
                yield from self._code_in([*kinds, *([value] if value else [])])
            case ast.If() if _is_main(node.test):
                yield from self.of(node.orelse)
            case _:
                yield node

    def _code_in(self, values: Iterable[ast.expr]) -> Iterator[ast.expr]:
        return (value for value in values if not self._is_inert(value))

    def _is_inert(self, node: ast.expr) -> bool:
        match node:
            case ast.Constant() | ast.Name():
                return True
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return all(map(self._is_inert, parts))
            case ast.Dict(keys=keys, values=values):
                return all(key is None or self._is_inert(key) for key in keys) and all(
                    map(self._is_inert, values)
                )
            case ast.Attribute(value=of) | ast.UnaryOp(operand=of):
                return self._is_inert(of)
            case ast.Subscript(value=of, slice=inner):
                return self._is_inert(of) and self._is_inert(inner)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._is_inert(left) and self._is_inert(right)
            case ast.BinOp(left=ast.Constant(value=int()), right=ast.Constant(value=int())):
                return not isinstance(node.op, ast.Pow | ast.LShift)
            case ast.Call(func=func, args=args, keywords=keywords):
                given = (*args, *(keyword.value for keyword in keywords))
                return self._declares(func) and all(map(self._is_inert, given))
            case _:
                return False

    def _declares(self, func: ast.expr) -> bool:
        while isinstance(func, ast.Attribute):
            func = func.value
        return isinstance(func, ast.Name) and func.id in self._declaring


def _evaluated(
    node: ast.FunctionDef | ast.AsyncFunctionDef, *, annotations: bool
) -> Iterator[ast.expr]:
    """Where the function is defined, not where it is called."""
    given = node.args
    yield from node.decorator_list
    yield from given.defaults
    yield from (default for default in given.kw_defaults if default is not None)
    if annotations:
        every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
        yield from (one.annotation for one in every if one and one.annotation)
        yield from [node.returns] if node.returns else []


def _is_main(test: ast.expr) -> bool:
    """A loaded file has another name, so what stands there is not run."""
    match test:
        case ast.Compare(
            left=ast.Name(id="__name__"),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value="__main__")],
        ):
            return True
        case _:
            return False


def _first(module: str) -> str:
    return module.partition(".")[0]
