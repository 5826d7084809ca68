"""Whether a change in place can be seen elsewhere: who else may hold a list, dict or record at a
line of a function of Python (pure).
"""

import ast
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Set as AbstractSet
from typing import NamedTuple, cast

from vegakit.lang.python.analysis import target_root

# Changes in place that nobody else can see: the only ones that mean the same here and in Python.
#
# Here values are copies. In Python a list, dict or record is shared by all who hold it, so a
# change such as `xs.append(x)` is let through only where this variable alone can hold it:
#
# - it is a local variable, and everything it was ever given was made on the spot
# - before the change it was put nowhere else: in no other variable, list or record, and given to
#   no function whose result could hold it (a function changes nothing that it is given)
# - it is not being walked over by a loop around the change
#
# "Before" is after the variable last got something new on every way to the change, by the lines;
# inside a loop that began after that, always.


_READERS = frozenset(
    "len print str sorted list sum min max abs int float enumerate reversed round range".split()
)
_MADE = frozenset("list sorted str int float len sum abs round min max".split())
_LOOKS = frozenset(
    "split strip lower upper replace join keys values count startswith endswith".split()
)
"""Methods that give something new, and keep nothing of what they are given."""
_MAKERS = _LOOKS | {"ask"}
_HANDED_ON = frozenset("at cast default first last min max get get_or insert".split())
"""Of `vega.…`: these give or keep what they are given."""
_TAKEN_FROM = frozenset("at first last min max get get_or insert".split())
"""Of those: the first argument gives an item of it or is copied, and stays the variable's own. A
change reaches one step behind a name, so who holds an item does not see it."""

_Loops = tuple[ast.AST, ...]


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


def shared_changes(
    function: ast.FunctionDef, makers: AbstractSet[str], lookers: AbstractSet[str] = frozenset()
) -> dict[int, str]:
    """Return the changes that might be seen elsewhere: by the id of the statement, the reason.
    `makers` are names whose calls give something new: records, agents and functions; `lookers` are
    functions that keep nothing of what they are given."""
    return dict(_walked_through(function, makers, lookers).verdicts())


def makers_among(
    functions: Mapping[str, ast.FunctionDef], makers: AbstractSet[str], lookers: AbstractSet[str]
) -> set[str]:
    """Return the functions that only ever return what they made: nobody else holds it."""
    found: set[str] = set()
    for name, function in functions.items():
        if _walked_through(function, makers | found, lookers).returns_new():
            found.add(name)
    return found


def _walked_through(
    function: ast.FunctionDef, makers: AbstractSet[str], lookers: AbstractSet[str]
) -> "_Walk":
    walk = _Walk(makers, lookers)
    walk.bind_parameters(function)
    walk.block(function.body, ())
    walk.sort_escapes()
    return walk


class _Use(NamedTuple):
    """A place where a variable is changed or returned, with what it held there: the statement that
    made it new, the reason why others may hold it, or None where several ways lead here."""

    name: str
    node: ast.AST
    loops: _Loops
    held: "_Made | str | None"


class _Made(NamedTuple):
    node: ast.AST
    loops: _Loops


class _Walk:
    """Goes through a function once, in the order of its lines. `_scopes` are the blocks around this
    point, each with what its variables hold: that of an inner block is forgotten at its end, but a
    shared one that is given there may be held from then on."""

    def __init__(self, makers: AbstractSet[str], lookers: AbstractSet[str]) -> None:
        self._makers, self._lookers = makers, lookers
        self._scopes: list[dict[str, _Made | str]] = [{}]
        self._given: dict[str, str] = {}
        self._made: set[str] = set()
        self._escapes: dict[str, list[ast.AST]] = {}
        self._in_loops: dict[tuple[str, int], str] = {}
        self._changes: list[_Use] = []
        self._returned: list[_Use] = []
        self._all_new = True

    def bind_parameters(self, function: ast.FunctionDef) -> None:
        for arg in function.args.args:
            self._give(arg.arg, "the caller of this function holds it too", ())

    def sort_escapes(self) -> None:
        """By their places: of an expression, what stands first is not always looked at first."""
        for escapes in self._escapes.values():
            escapes.sort(key=_place)

    def verdicts(self) -> Iterator[tuple[int, str]]:
        for use in self._changes:
            if why := self._seen_by(use):
                yield id(use.node), why

    def returns_new(self) -> bool:
        """Whether all that it returns was made here, and put nowhere else."""
        return self._all_new and not any(
            use.name not in self._made or self._seen_by(use) for use in self._returned
        )

    def _seen_by(self, use: _Use) -> str:
        """Who else may hold it. What happened before it was made new does not matter, unless a
        loop leads from there to here without making it new."""
        made = use.held
        if made is None:
            if use.name in self._given:
                return self._given[use.name]
            made = _Made(ast.Pass(end_lineno=0, end_col_offset=0), ())
        if isinstance(made, str):
            return made
        for loop in use.loops[len(made.loops) :]:
            if why := self._in_loops.get((use.name, id(loop)), ""):
                return why
        escapes = self._escapes.get(use.name, [])
        first = bisect_right(escapes, _end(made.node), key=_place)
        if first < len(escapes) and _place(escapes[first]) < _place(use.node):
            return _put_on(escapes[first])
        return ""

    # Walking

    def block(self, body: list[ast.stmt], loops: _Loops) -> None:
        self._scopes.append({})
        for statement in body:
            self._statement(statement, loops)
        self._scopes.pop()

    def _statement(self, node: ast.stmt, loops: _Loops) -> None:
        if changed := changes_in(node):
            self._changes.append(self._use(changed, node, loops))
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._bind(name, node, value, loops)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._bind(name, node, value, loops)
            case ast.For():
                self._loop_over(node, loops)
            case ast.While(test=test, body=body):
                self._read(test, (*loops, node))
                self.block(body, (*loops, node))
            case ast.Return(value=value):
                self._return(node, value, loops)
            case ast.Assign(value=value):
                self._escaping(value, loops)
                for target in node.targets:
                    self._read(target, loops)
            case _:
                self._others(node, loops)

    def _others(self, node: ast.AST, loops: _Loops) -> None:
        """Expressions, and blocks in their order."""
        for _, part in ast.iter_fields(node):
            parts = cast("list[object]", part if isinstance(part, list) else [part])
            self.block([one for one in parts if isinstance(one, ast.stmt)], loops)
            for one in parts:
                if isinstance(one, ast.ExceptHandler | ast.match_case):
                    self._others(one, loops)
                elif isinstance(one, ast.expr | ast.withitem):
                    self._read(one, loops)

    def _use(self, name: str, node: ast.AST, loops: _Loops) -> _Use:
        held = (scope[name] for scope in reversed(self._scopes) if name in scope)
        return _Use(name, node, loops, next(held, None))

    def _bind(self, name: str, node: ast.stmt, value: ast.expr, loops: _Loops) -> None:
        if isinstance(value, ast.Name) and value.id == name:
            return
        self._escaping(value, loops)
        if self._is_fresh(value):
            self._made.add(name)
            self._scopes[-1][name] = _Made(node, loops)
        else:
            got = f"on line {_line(node)} it got a value that something else may hold"
            self._give(name, got, loops)

    def _give(self, name: str, why: str, loops: _Loops) -> None:
        for scope in self._scopes:
            scope[name] = why
        self._given.setdefault(name, why)
        for loop in loops:
            self._in_loops.setdefault((name, id(loop)), why)

    def _return(self, node: ast.Return, value: ast.expr | None, loops: _Loops) -> None:
        if isinstance(value, ast.Name):
            self._returned.append(self._use(value.id, node, loops))
            return
        self._all_new = self._all_new and value is not None and self._is_fresh(value)
        if value is not None:
            self._read(value, loops)

    def _loop_over(self, node: ast.For, loops: _Loops) -> None:
        inner = (*loops, node)
        self._read(node.iter, loops)
        for one in ast.walk(node.target):
            if isinstance(one, ast.Name):
                self._give(one.id, "the list it comes from holds it too", inner)
        for one in self._walked_over(node.iter):
            why = f"the loop on line {_line(node)} is walking over it"
            self._in_loops.setdefault((one.id, id(node)), why)
        self.block(node.body, inner)
        self.block(node.orelse, inner)

    def _walked_over(self, over: ast.expr) -> Iterator[ast.Name]:
        """Not the parts of what is made before the loop begins: `sorted(xs)`, `xs + ys`."""
        match over:
            case ast.Call(func=ast.Name(id="enumerate" | "reversed"), args=[inner]):
                yield from self._walked_over(inner)
            case ast.Call(func=ast.Attribute(attr="keys" | "values" | "items", value=inner)):
                yield from self._walked_over(inner)
            case ast.Call(func=ast.Name(id="range")):
                pass
            case _ if not self._is_fresh(over):
                yield from (one for one in ast.walk(over) if isinstance(one, ast.Name))
            case _:
                pass

    def _is_fresh(self, node: ast.expr) -> bool:
        match node:
            case ast.List() | ast.Dict() | ast.ListComp() | ast.Constant() | ast.JoinedStr():
                return True
            case ast.BinOp() | ast.Compare() | ast.UnaryOp():
                return True
            case ast.BoolOp(values=values):
                return all(map(self._is_fresh, values))
            case ast.IfExp(body=one, orelse=other):
                return self._is_fresh(one) and self._is_fresh(other)
            case ast.Subscript(slice=ast.Slice()):
                return True
            case ast.Call(func=ast.Name(id=name)):
                return name in _MADE or name in self._makers
            case ast.Call(func=ast.Attribute(attr="cast", value=of), args=[one, *_]) if _is_vega(
                of
            ):
                return self._is_fresh(one)
            case ast.Call(func=ast.Attribute(attr=name, value=of)):
                return name not in _HANDED_ON if _is_vega(of) else name in _MAKERS
            case _:
                return False

    def _escape(self, name: ast.Name, loops: _Loops) -> None:
        self._escapes.setdefault(name.id, []).append(name)
        for loop in loops:
            self._in_loops.setdefault((name.id, id(loop)), _put_on(name))

    def _escaping(self, node: ast.expr, loops: _Loops) -> None:
        if isinstance(node, ast.Name):
            self._escape(node, loops)
        else:
            self._read(node, loops)

    def _read(self, node: ast.AST, loops: _Loops) -> None:
        """Names below it that are put somewhere; those that are only looked at are not."""
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.Name):
                self._read(child, loops)
            elif not _only_looks(node, child, self._makers, self._lookers):
                self._escape(child, loops)


def _put_on(node: ast.AST) -> str:
    return f"it was put somewhere else on line {_line(node)}"


def _is_vega(node: ast.expr) -> bool:
    root = target_root(node)
    return isinstance(root, ast.Name) and root.id == "vega"


def _only_looks(
    parent: ast.AST, child: ast.Name, makers: AbstractSet[str], lookers: AbstractSet[str]
) -> bool:
    match parent:
        case ast.BinOp() | ast.Compare() | ast.UnaryOp() | ast.FormattedValue():
            return True
        case ast.Attribute() | ast.comprehension():
            return True
        case ast.Subscript(value=of):
            return child is of
        case ast.Dict(keys=keys, values=values):
            return any(key is None and one is child for key, one in zip(keys, values, strict=True))
        case ast.Call(func=func) if child is func:
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in _READERS or name in lookers
        case ast.Call(func=ast.Attribute(value=of, attr=name)):
            root = target_root(of)
            is_agent = isinstance(root, ast.Name) and root.id in makers
            is_source = name in _TAKEN_FROM and child in parent.args[:1]
            return (
                is_agent
                or name in _LOOKS
                or (_is_vega(of) and (name not in _HANDED_ON or is_source))
            )
        case _:
            return False


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _place(node: ast.AST) -> tuple[int, int]:
    return _line(node), getattr(node, "col_offset", 0)


def _end(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)
