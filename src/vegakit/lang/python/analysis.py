"""Analyses on Python's own syntax tree: aliasing, non-negative integers, definite assignment,
expressions without effects (pure).

They decide where Python and Vega mean the same. Each one is conservative: when it cannot tell,
the line is refused.
"""

import ast
from bisect import bisect_right
from collections.abc import Iterable, Iterator

# Expressions that may be worked out twice, sooner, or not at all.


def is_pure(node: ast.expr) -> bool:
    """Return whether an expression has no effect and cannot fail, so that it may be worked out
    twice, sooner, or not at all."""
    match node:
        case ast.Constant() | ast.Name():
            return True
        case ast.Attribute(value=of) | ast.UnaryOp(operand=of) | ast.FormattedValue(value=of):
            return is_pure(of)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult(), left=left, right=right):
            return is_pure(left) and is_pure(right)
        case ast.Compare(left=left, comparators=others):
            return is_pure(left) and all(map(is_pure, others))
        case ast.JoinedStr(values=values) | ast.List(elts=values) | ast.BoolOp(values=values):
            return all(map(is_pure, values))
        case ast.Dict(keys=keys, values=values):
            return all(one is None or is_pure(one) for one in [*keys, *values])
        case ast.Call(func=ast.Name(id="len"), args=[of]):
            return is_pure(of)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="vega"), attr="money" | "duration")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="vega"), attr="default"), args=args):
            return all(map(is_pure, args))
        case _:
            return False


# Whole numbers that are never below zero, as far as the lines of one function show it.
#
# On those, Python's `//` and `%` and an index mean what they mean here; on others they differ.


_MOST_PASSES = 50


def natural_names(function: ast.FunctionDef) -> set[str]:
    """Variables that only ever get such numbers: all are taken for it at first, then those that
    get anything else are struck out, until none is; where that takes too long, none is known."""
    given = list(_given(function))
    found = {name for name, _ in given} - {arg.arg for arg in function.args.args}
    for _ in range(_MOST_PASSES):
        wrong = {name for name, value in given if name in found and not is_natural(value, found)}
        if not wrong:
            return found
        found -= wrong
    return set()


def _given(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Each variable with each value it gets; None where nothing is known of it."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                yield name, value
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                yield name, ast.BinOp(ast.Name(target.id, ast.Load()), op, value)
            case ast.For(target=target, iter=over) | ast.comprehension(target=target, iter=over):
                yield from _walked(target, over)
            case ast.ExceptHandler(name=str() as name):
                yield name, None
            case _:
                pass


def _walked(target: ast.expr, over: ast.expr) -> Iterator[tuple[str, ast.expr | None]]:
    match target, over:
        case ast.Name(id=name), ast.Call(func=ast.Name(id="range"), args=args):
            yield name, (ast.Constant(0) if len(args) == 1 else args[0] if args else None)
        case (
            ast.Tuple(elts=[ast.Name(id=index), ast.Name(id=item)]),
            ast.Call(func=ast.Name(id="enumerate")),
        ):
            yield index, ast.Constant(0)
            yield item, None
        case _:
            for one in ast.walk(target):
                if isinstance(one, ast.Name):
                    yield one.id, None


def is_natural(node: ast.expr | None, natural: set[str]) -> bool:
    """Return whether an expression is a whole number that is never below zero. `natural` are the
    variables that are."""
    match node:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int() as value):
            return value >= 0
        case ast.Name(id=name):
            return name in natural
        case ast.BinOp(op=ast.Add() | ast.Mult() | ast.FloorDiv() | ast.Mod()):
            return is_natural(node.left, natural) and is_natural(node.right, natural)
        case ast.Call(func=ast.Name(id="len" | "abs")):
            return True
        case ast.Call(func=ast.Name(id="max"), args=[_, _, *_] as args):
            return any(is_natural(arg, natural) for arg in args)
        case ast.Call(func=ast.Name(id="min"), args=[_, _, *_] as args):
            return all(is_natural(arg, natural) for arg in args)
        case ast.Call(func=ast.Attribute(attr="count")):
            return True
        case _:
            return False


# Which variables have a value on every way through a statement, and which are read after it.


def assigned_names(function: ast.FunctionDef) -> dict[str, ast.AST]:
    """Return each variable with the first place that gives it a value. Variables of comprehensions
    are their own."""
    found: dict[str, ast.AST] = {}
    inner = {
        id(one)
        for node in ast.walk(function)
        if isinstance(node, ast.comprehension)
        for one in ast.walk(node.target)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in inner:
            first = found.setdefault(node.id, node)
            if node.lineno < getattr(first, "lineno", 0):
                found[node.id] = node
    return found


class VariableReads:
    """Knows where each variable of a function stands: by name, its lines with whether it is read
    there first."""

    def __init__(self, function: ast.FunctionDef) -> None:
        lines: dict[str, dict[int, bool]] = {}
        walked = {
            id(one)
            for node in ast.walk(function)
            if isinstance(node, ast.For)
            for one in ast.walk(node.target)
        }
        grown = {id(node.target) for node in ast.walk(function) if isinstance(node, ast.AugAssign)}
        begun: set[tuple[str, int]] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Name):
                here = lines.setdefault(node.id, {})
                is_read = isinstance(node.ctx, ast.Load) or id(node) in grown
                here[node.lineno] = here.get(node.lineno, False) or is_read
                if id(node) in walked:
                    begun.add((node.id, node.lineno))
        for name, line in begun:
            lines[name][line] = False
        self._lines = {name: sorted(here.items()) for name, here in lines.items()}

    def is_read_after(self, name: str, statement: ast.AST) -> bool:
        """Before it gets another value there."""
        end = getattr(statement, "end_lineno", 0)
        found = self._lines.get(name, [])
        at = bisect_right(found, (end, True))
        return at < len(found) and found[at][1]


def is_read_before_assignment(name: str, node: ast.stmt) -> bool:
    """Return whether some block of the statement reads the variable before it gives it a value,
    where Python has none."""
    match node:
        case ast.If(test=test, body=body, orelse=other):
            blocks, heads = [body, other], [test]
        case ast.Try(body=body, handlers=handlers):
            blocks, heads = [body, *(handler.body for handler in handlers)], []
        case ast.With(items=items, body=body):
            blocks, heads = [body], [item.context_expr for item in items]
        case _:
            return True
    return any(_reads(name, head) for head in heads) or any(
        _read_first(name, block) for block in blocks
    )


def _read_first(name: str, block: list[ast.stmt]) -> bool:
    for statement in block:
        match statement:
            case ast.Assign(targets=[ast.Name(id=given)], value=value) if given == name:
                return _reads(name, value)
            case ast.AnnAssign(target=ast.Name(id=given), value=ast.expr() as value) if (
                given == name
            ):
                return _reads(name, value)
            case _ if name in definitely_assigned(statement):
                return is_read_before_assignment(name, statement)
            case _ if _reads(name, statement):
                return True
            case _:
                pass
    return False


def _reads(name: str, node: ast.AST) -> bool:
    return any(_is_read(name, one) for one in ast.walk(node))


def _is_read(name: str, node: ast.AST) -> bool:
    match node:
        case ast.Name(id=read, ctx=ast.Load()) | ast.AugAssign(target=ast.Name(id=read)):
            return read == name
        case _:
            return False


def definitely_assigned(node: ast.stmt) -> dict[str, ast.expr]:
    """Return the variables that every way through a statement gives a value, with the first value
    of each."""
    match node:
        case ast.If(body=body, orelse=[_, *_] as other):
            return _common([body, other])
        case ast.Try(body=body, handlers=handlers):
            return _common([body, *(handler.body for handler in handlers)])
        case ast.With(body=body):
            return _in_block(body)[0]
        case _:
            return {}


def _common(blocks: Iterable[list[ast.stmt]]) -> dict[str, ast.expr]:
    """Blocks that do not go on need give nothing."""
    ways = [found for found, goes_on in map(_in_block, blocks) if goes_on]
    if not ways:
        return {}
    first, *others = ways
    return {name: value for name, value in first.items() if all(name in way for way in others)}


def _in_block(body: list[ast.stmt]) -> tuple[dict[str, ast.expr], bool]:
    found: dict[str, ast.expr] = {}
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.setdefault(name, value)
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                return found, False
            case _:
                for name, value in definitely_assigned(statement).items():
                    found.setdefault(name, value)
    return found, True


# Changes in place that nobody else can see: the only ones that mean the same here and in Python.
#
# Here values are copies. In Python a list, dict or record is shared by all who hold it, so a
# change such as `xs.append(x)` is let through only where this variable alone can hold it:
#
# - it is a local variable, and everything it was ever given was made on the spot
# - before the change it was put nowhere else: in no other variable, list, record or function
# - it is not being walked over by a loop around the change
#
# "Before" is by the lines, and inside a loop that both are in, always.


_READERS = frozenset(
    "len print str sorted list sum min max abs int float enumerate reversed round range".split()
)
_MADE = frozenset("list sorted str int float len sum abs round min max".split())
_MAKERS = frozenset("split strip lower upper replace join keys values ask count".split())
_HANDED_ON = frozenset("at cast default first last min max get insert".split())
"""Of `vega.…`: these give or keep what they are given."""
_TAKEN_FROM = frozenset("at first last min max get insert".split())
"""Of those: the first argument gives an item of it or is copied, and stays the variable's own. A
change reaches one step behind a name, so who holds an item does not see it."""

_Loops = tuple[ast.AST, ...]
_Event = tuple[str, ast.AST, _Loops]


def target_root(node: ast.expr) -> ast.expr:
    """Return the variable of `x.f[i]`."""
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
    """Return the changes that might be seen elsewhere: by the id of the statement, the reason.
    `makers` are names whose calls give something new: records and agents."""
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
            is_source = name in _TAKEN_FROM and child in parent.args[:1]
            return is_agent or (_is_vega(of) and (name not in _HANDED_ON or is_source))
        case _:
            return False


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _place(node: ast.AST) -> tuple[int, int]:
    return _line(node), getattr(node, "col_offset", 0)
