"""Changes in place that nobody else can see: the only ones that mean the same here and in Python.

Here values are copies. In Python a list, dict or record is shared by all who hold it, so a change
such as `xs.append(x)` is let through only where this variable alone can hold it:

- it is a local variable, and everything it was ever given was made on the spot
- before the change it was put nowhere else: in no other variable, list, record or function
- it is not being walked over by a loop around the change

"Before" is by the lines, and inside a loop that both are in, always.
"""

import ast
from collections.abc import Iterator

__all__ = ["changes_in", "shared_changes", "target_root"]

_READERS = frozenset(
    "len print str sorted list sum min max abs int float enumerate reversed round range".split()
)
_MADE = frozenset("list sorted str int float len sum abs round min max".split())
_MAKERS = frozenset("split strip lower upper replace join keys values ask count".split())
_HANDED_ON = frozenset("at cast default first last min max get insert".split())
"""Of `vega.…`: these give or keep what they are given."""

_Loops = tuple[ast.AST, ...]
_Event = tuple[str, ast.AST, _Loops]


def target_root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node


def changes_in(node: ast.AST) -> str:
    """The variable that this statement changes in place, or ''."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"))):
            return name
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute() as target]):
            root = target_root(target)
            return root.id if isinstance(root, ast.Name) else ""
        case ast.AugAssign(target=target):
            root = target_root(target)
            return root.id if isinstance(root, ast.Name) else ""
        case _:
            return ""


def shared_changes(function: ast.FunctionDef, makers: set[str]) -> dict[int, str]:
    """Of each change that might be seen elsewhere, by the id of its statement: why. `makers` are
    names whose calls give something new: records and agents."""
    walk = _Walk(makers)
    walk.bind_parameters(function)
    walk.block(function.body, ())
    return dict(walk.verdicts())


class _Walk:
    def __init__(self, makers: set[str]) -> None:
        self._makers = makers
        self._given: dict[str, str] = {}
        self._fresh: list[_Event] = []
        self._escapes: dict[str, list[tuple[ast.AST, _Loops]]] = {}
        self._changes: list[_Event] = []
        self._walked: dict[str, list[ast.AST]] = {}

    def bind_parameters(self, function: ast.FunctionDef) -> None:
        for arg in function.args.args:
            self._given[arg.arg] = "the caller of this function holds it too"

    def verdicts(self) -> Iterator[tuple[int, str]]:
        for escapes in self._escapes.values():
            escapes.sort(key=lambda escape: _place(escape[0]))
        for name, node, loops in self._changes:
            why = self._given.get(name, "") or self._seen_by(name, node, loops)
            if why:
                yield id(node), why

    def _seen_by(self, name: str, change: ast.AST, loops: _Loops) -> str:
        for loop in self._walked.get(name, ()):
            if loop in loops:
                return f"the loop on line {_line(loop)} is walking over it"
        escapes = self._escapes.get(name, [])
        if escapes and _place(escapes[0][0]) < _place(change):
            return f"it was put somewhere else on line {_line(escapes[0][0])}"
        for escape, around in escapes if loops else ():
            shared = [loop for loop in loops if loop in around]
            if any(not self._made_in(name, loop, escape, change) for loop in shared):
                return f"it was put somewhere else on line {_line(escape)}"
        return ""

    def _made_in(self, name: str, loop: ast.AST, *later: ast.AST) -> bool:
        """A new one is made in each round of the loop, before these."""
        body = loop.body if isinstance(loop, ast.For | ast.While) else []
        return any(
            made == name and node in body and all(_place(node) <= _place(one) for one in later)
            for made, node, _ in self._fresh
        )

    # Walking

    def block(self, body: list[ast.stmt], loops: _Loops) -> None:
        for statement in body:
            self._statement(statement, loops)

    def _statement(self, node: ast.stmt, loops: _Loops) -> None:  # noqa: C901, PLR0912
        changed = changes_in(node)
        if changed:
            self._changes.append((changed, node, loops))
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._bind(name, node, value, loops)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._bind(name, node, value, loops)
            case ast.For(target=target, iter=over):
                self._take_loop(node, target, over, loops)
            case ast.While(test=test):
                self._read(test, (*loops, node))
                self.block(node.body, (*loops, node))
                return
            case ast.Return(value=ast.Name()):
                return
            case ast.Assign(value=value):
                self._escaping(value, loops)
                for target in node.targets:
                    self._read(target, loops)
                return
            case _:
                pass
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._statement(child, (*loops, node) if isinstance(node, ast.For) else loops)
            elif isinstance(child, ast.ExceptHandler):
                self.block(child.body, loops)
            elif isinstance(child, ast.expr | ast.withitem):
                self._read(child, loops)

    def _bind(self, name: str, node: ast.stmt, value: ast.expr, loops: _Loops) -> None:
        if self._is_fresh(value):
            self._fresh.append((name, node, loops))
        else:
            self._given.setdefault(name, f"on line {_line(node)} it may be given a shared one")
        self._escaping(value, loops)

    def _take_loop(self, node: ast.For, target: ast.expr, over: ast.expr, loops: _Loops) -> None:
        for one in ast.walk(target):
            if isinstance(one, ast.Name):
                self._given.setdefault(one.id, "the list it comes from holds it too")
        for one in ast.walk(over):
            if isinstance(one, ast.Name):
                self._walked.setdefault(one.id, []).append(node)

    def _is_fresh(self, node: ast.expr) -> bool:
        match node:
            case ast.List() | ast.Dict() | ast.ListComp() | ast.Constant() | ast.JoinedStr():
                return True
            case ast.BinOp() | ast.Compare() | ast.BoolOp() | ast.UnaryOp():
                return True
            case ast.Subscript(slice=ast.Slice()):
                return True
            case ast.Call(func=ast.Name(id=name)):
                return name in _MADE or name in self._makers
            case ast.Call(func=ast.Attribute(attr=name, value=of)):
                return name not in _HANDED_ON if _is_vega(of) else name in _MAKERS
            case _:
                return False

    def _escaping(self, node: ast.expr, loops: _Loops) -> None:
        if isinstance(node, ast.Name):
            self._escapes.setdefault(node.id, []).append((node, loops))
        else:
            self._read(node, loops)

    def _read(self, node: ast.AST, loops: _Loops) -> None:
        """Names below it that are put somewhere; those that are only looked at are not."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Name):
                if not _only_looks(node, child, self._makers):
                    self._escapes.setdefault(child.id, []).append((child, loops))
            else:
                self._read(child, loops)


def _is_vega(node: ast.expr) -> bool:
    root = target_root(node)
    return isinstance(root, ast.Name) and root.id == "vega"


def _only_looks(parent: ast.AST, child: ast.Name, makers: set[str]) -> bool:
    match parent:
        case ast.BinOp() | ast.Compare() | ast.UnaryOp() | ast.BoolOp() | ast.FormattedValue():
            return True
        case ast.Attribute() | ast.comprehension():
            return True
        case ast.Subscript(value=of):
            return child is of
        case ast.Call(func=func) if child is func:
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in _READERS
        case ast.Call(func=ast.Attribute(value=of, attr=name)):
            root = target_root(of)
            is_agent = isinstance(root, ast.Name) and root.id in makers
            return is_agent or (_is_vega(of) and name not in _HANDED_ON)
        case _:
            return False


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _place(node: ast.AST) -> tuple[int, int]:
    return _line(node), getattr(node, "col_offset", 0)
