"""The grammar of `vega.lark` as an oracle: accepts or refuses a program, and gives its shape.

A shape is nested tuples: the name of a node and its fields in order, without offsets. `shape_of`
makes the same of our own tree.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, Tree
from lark.exceptions import UnexpectedInput
from msgspec import Struct

Shape = Any
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Refused(Exception):  # noqa: N818
    pass


def shape_of(node: object) -> Shape:
    if isinstance(node, Struct):
        fields = [
            getattr(node, name) for name in node.__struct_fields__ if name not in {"at", "end"}
        ]
        return (type(node).__name__, *map(shape_of, fields))
    return tuple(map(shape_of, node)) if isinstance(node, tuple) else node


def shape_by_grammar(text: str) -> Shape:
    """Raises Refused."""
    try:
        tree = _grammar().parse(text)
    except UnexpectedInput as error:
        raise Refused(str(error)) from error
    _check(tree, text)
    return _Shapes().transform(tree)


@cache
def _grammar() -> Lark:
    grammar = Path(__file__).with_name("vega.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", propagate_positions=True)


def _check(tree: "Tree[Token]", text: str) -> None:
    """What a grammar cannot say."""
    for node in tree.iter_subtrees():
        at, end = getattr(node.meta, "start_pos", 0), getattr(node.meta, "end_pos", 0)
        if node.data in {"expr_stmt", "assign", "o_under"} and _first(node, text, at) == "{":
            raise Refused("a brace begins a block here")
        if node.data in {"string", "plain"} and text[at : at + 3] != '"""' and "\n" in text[at:end]:
            raise Refused("a string ends on its line")
        if node.data == "assign" and not _assignable(node.children[0]):
            raise Refused("nothing is assigned to this")
        named = [str(child.data) for child in node.children if isinstance(child, Tree)]
        words = [str(child) for child in node.children if isinstance(child, Token)]
        once = [name for name in named if name in _ONCE] + [w for w in words if w == "idempotent"]
        if len(once) != len(set(once)) or {"o_under", "o_rules"} <= set(once):
            raise Refused("twice")


_ONCE = frozenset(
    "capabilities paths commands hosts fn_budget description children o_timeout o_budget o_as "
    "o_wallet o_named o_under o_rules".split()
)


def _first(node: "Tree[Token]", text: str, at: int) -> str:
    if node.data == "o_under":
        inner = node.children[-1]
        return text[inner.meta.start_pos] if isinstance(inner, Tree) else ""
    return text[at : at + 1]


def _assignable(node: object) -> bool:
    while isinstance(node, Tree) and node.data in {"member", "index"}:
        node = node.children[0]
    if not isinstance(node, Tree) or node.data != "name_expr":
        return False
    (path,) = node.children
    return isinstance(path, Tree) and len(path.children) == 1


class _Shapes(Transformer[Token, Shape]):
    """A method for each rule of the grammar."""

    def start(self, found: list[Shape]) -> Shape:
        header = next((f for f in found if f[0] == "Grants"), None)
        decls = tuple(f for f in found if f[0].endswith("Decl") or f[0].startswith("Use"))
        body = tuple(f for f in found if f is not header and f not in decls)
        return ("Source", header, decls, body)

    def header(self, found: list[Shape]) -> Shape:
        return _grants(found)

    # Names

    def name(self, found: list[Shape]) -> Shape:
        return str(found[0])

    def path(self, found: list[Shape]) -> Shape:
        return "::".join(found)

    def name_expr(self, found: list[Shape]) -> Shape:
        return ("Name", found[0])

    # Declarations

    def use_mcp(self, found: list[Shape]) -> Shape:
        server, name = found[2], found[-1]
        return ("UseMcp", server, name or server)

    def use_file(self, found: list[Shape]) -> Shape:
        path, name = found[1], found[-1]
        return ("UseFile", path, name or path.split("/")[-1].removesuffix(".vega"))

    def use_node(self, found: list[Shape]) -> Shape:
        return ("UseNode", found[2], found[1])

    def record_type(self, found: list[Shape]) -> Shape:
        return ("TypeDecl", found[1], tuple(found[2:]), None)

    def alias_type(self, found: list[Shape]) -> Shape:
        return ("TypeDecl", found[1], (), found[2])

    def field(self, found: list[Shape]) -> Shape:
        return ("Field", *found)

    def param(self, found: list[Shape]) -> Shape:
        return ("Param", *found)

    def params(self, found: list[Shape]) -> Shape:
        return tuple(f for f in found if f is not None)

    def result(self, found: list[Shape]) -> Shape:
        return found[0]

    def fn_decl(self, found: list[Shape]) -> Shape:
        _, name, params, result, *clauses, body = found
        budget = next((c[1] for c in clauses if c[0] == "budget"), None)
        return ("FnDecl", name, params, result, _grants(clauses), budget, body)

    def fn_budget(self, found: list[Shape]) -> Shape:
        return ("budget", found[1])

    def tool_decl(self, found: list[Shape]) -> Shape:
        _, name, params, result, *clauses, body = found
        text = next((c[1] for c in clauses if c[0] == "description"), None)
        settings = tuple(
            ("Setting", str(c), ("Word", True)) for c in clauses if isinstance(c, Token)
        )
        described = None if text is None else ("Text", (text,) if text else ())
        return ("ToolDecl", name, params, result, described, _grants(clauses), body, settings)

    def description(self, found: list[Shape]) -> Shape:
        return ("description", found[0])

    def capabilities(self, found: list[Shape]) -> Shape:
        return ("capabilities", tuple(f for f in found[1:] if f is not None))

    def cap(self, found: list[Shape]) -> Shape:
        return ("CapName", found[0])

    def paths(self, found: list[Shape]) -> Shape:
        return ("paths", _texts(found[1:]))

    def commands(self, found: list[Shape]) -> Shape:
        return ("commands", _texts(found[1:]))

    def hosts(self, found: list[Shape]) -> Shape:
        return ("hosts", _texts(found[1:]))

    def agent_decl(self, found: list[Shape]) -> Shape:
        fields = tuple(f for f in found[2:] if f[0] == "AgentField")
        return ("AgentDecl", found[1], fields, tuple(f for f in found[2:] if f[0] == "ToolDecl"))

    def agent_value(self, found: list[Shape]) -> Shape:
        return ("AgentField", str(found[0]), found[1])

    def agent_block(self, found: list[Shape]) -> Shape:
        return ("AgentField", str(found[0]), tuple(found[1:]))

    def agent_tools(self, found: list[Shape]) -> Shape:
        return ("AgentField", "tools", tuple(f for f in found[1:] if f is not None))

    def tool_from(self, found: list[Shape]) -> Shape:
        return ("ToolRef", found[1], str(found[0]))

    def tool_named(self, found: list[Shape]) -> Shape:
        return ("ToolRef", found[0], "")

    def setting(self, found: list[Shape]) -> Shape:
        return ("Setting", str(found[0]), found[1])

    def supervisor_decl(self, found: list[Shape]) -> Shape:
        children = [f[1] for f in found[2:] if f[0] == "children"]
        rules = tuple(f for f in found[2:] if f[0] == "Setting")
        return ("SupervisorDecl", found[1], rules, children[0] if children else ())

    def children(self, found: list[Shape]) -> Shape:
        return ("children", tuple(f for f in found[1:] if f is not None))

    # Types

    def named_type(self, found: list[Shape]) -> Shape:
        return ("NamedType", found[0], None)

    def sized_type(self, found: list[Shape]) -> Shape:
        return ("NamedType", "str", _most(found[0]))

    def optional_type(self, found: list[Shape]) -> Shape:
        return ("OptionalType", found[0])

    def list_type(self, found: list[Shape]) -> Shape:
        return ("ListType", found[0], _most(found[1]))

    def map_type(self, found: list[Shape]) -> Shape:
        return ("MapType", found[1], _most(found[2]))

    def choice_type(self, found: list[Shape]) -> Shape:
        return ("ChoiceType", tuple(found))

    # Statements

    def block(self, found: list[Shape]) -> Shape:
        return ("Block", tuple(found))

    def let(self, found: list[Shape]) -> Shape:
        return ("Let", *found[1:])

    def assign(self, found: list[Shape]) -> Shape:
        return ("Assign", *found)

    def expr_stmt(self, found: list[Shape]) -> Shape:
        return ("ExprStmt", *found)

    def return_stmt(self, found: list[Shape]) -> Shape:
        return ("Return", found[1])

    def break_stmt(self, found: list[Shape]) -> Shape:
        del found
        return ("Break",)

    def continue_stmt(self, found: list[Shape]) -> Shape:
        del found
        return ("Continue",)

    def if_stmt(self, found: list[Shape]) -> Shape:
        _, test, then, _, other = found
        if other is not None and other[0] == "If":
            other = ("Block", (other,))
        return ("If", test, then, other)

    def while_stmt(self, found: list[Shape]) -> Shape:
        _, test, _, limit, body = found
        return ("While", test, body, limit)

    def for_stmt(self, found: list[Shape]) -> Shape:
        _, first, second, _, over, body = found
        return ("For", (first,) if second is None else (first, second), over, body)

    def try_stmt(self, found: list[Shape]) -> Shape:
        return ("Try", found[1], tuple(found[2:]))

    def catch(self, found: list[Shape]) -> Shape:
        _, kind, reason, body = found
        return ("Catch", kind or "", reason or "", body)

    def session_stmt(self, found: list[Shape]) -> Shape:
        _, _, budget, *rest = found
        settings = tuple(f for f in rest if f[0] == "Setting")
        (body,) = (f for f in rest if f[0] == "Block")
        return ("Session", budget, body, settings, tuple(f for f in rest if f[0] == "Catch"))

    def parallel_stmt(self, found: list[Shape]) -> Shape:
        return ("Parallel", found[1], tuple(found[2:]))

    def monitor_stmt(self, found: list[Shape]) -> Shape:
        return ("Monitor", found[1], found[2], ("Block", tuple(found[3:])))

    # Expressions

    def await_(self, found: list[Shape]) -> Shape:
        return ("Await", found[1])

    def later(self, found: list[Shape]) -> Shape:
        ask = found[1]
        return (*ask[:4], True, *ask[5:])

    def send(self, found: list[Shape]) -> Shape:
        to, arrow, message, *options = found
        given = dict(options)
        extra = (given.get("timeout"), given.get("budget"), given.get("as"))
        return ("Ask", to, message, arrow == "<~", False, *extra)

    def o_timeout(self, found: list[Shape]) -> Shape:
        return ("timeout", found[1])

    def o_budget(self, found: list[Shape]) -> Shape:
        return ("budget", found[1])

    def o_as(self, found: list[Shape]) -> Shape:
        return ("as", found[1])

    def o_wallet(self, found: list[Shape]) -> Shape:
        return ("wallet", found[1])

    def o_named(self, found: list[Shape]) -> Shape:
        return ("named", found[1])

    def o_under(self, found: list[Shape]) -> Shape:
        return ("under", found[-1])

    def o_rules(self, found: list[Shape]) -> Shape:
        return ("rules", found[-1])

    def rules(self, found: list[Shape]) -> Shape:
        return tuple(found)

    def spawn(self, found: list[Shape]) -> Shape:
        _, later, agent, *options = found
        given = dict(options)
        extra = (given.get(word) for word in ("wallet", "named", "under", "rules"))
        return ("Spawn", agent, later is not None, *extra)

    def race(self, found: list[Shape]) -> Shape:
        if len(found) == 2:
            return ("Race", "", found[1], None)
        _, name, _, of, _, where = found
        return ("Race", name, of, where)

    def cast(self, found: list[Shape]) -> Shape:
        return ("Cast", found[0], found[2])

    def coalesce(self, found: list[Shape]) -> Shape:
        return ("Binary", "??", *found)

    def binary(self, found: list[Shape]) -> Shape:
        left, operator, right = found
        return ("Binary", str(operator), left, right)

    def not_(self, found: list[Shape]) -> Shape:
        return ("Unary", "not", found[1])

    def minus(self, found: list[Shape]) -> Shape:
        return ("Unary", "-", found[1])

    def minus_number(self, found: list[Shape]) -> Shape:
        return ("Unary", "-", found[1])

    def member(self, found: list[Shape]) -> Shape:
        return ("Member", *found)

    def index(self, found: list[Shape]) -> Shape:
        return ("Index", *found)

    def named_arg(self, found: list[Shape]) -> Shape:
        return ("=", *found)

    def call(self, found: list[Shape]) -> Shape:
        callee, *args = (f for f in found if f is not None)
        values = tuple(a[2] if a[0] == "=" else a for a in args)
        return ("Call", callee, values, tuple(a[1] if a[0] == "=" else "" for a in args))

    def list_lit(self, found: list[Shape]) -> Shape:
        return ("ListLit", tuple(f for f in found if f is not None))

    def build(self, found: list[Shape]) -> Shape:
        _, name, _, over, _, where, item = found
        return ("Build", name, over, where, item)

    def map(self, found: list[Shape]) -> Shape:
        return ("MapLit", tuple(f for f in found if f is not None))

    def pair(self, found: list[Shape]) -> Shape:
        return ("Pair", *found)

    # Literals

    def number(self, found: list[Shape]) -> Shape:
        digits = found[0].replace("_", "")
        if found[0].type == "INT":
            return ("Whole", int(digits))
        return ("Decimal", float(digits))

    def money(self, found: list[Shape]) -> Shape:
        return ("MoneyLit", _nanos(found[0][1:]), "")

    def money_period(self, found: list[Shape]) -> Shape:
        amount, _, period = found[0][1:].partition("/")
        return ("MoneyLit", _nanos(amount), period)

    def duration(self, found: list[Shape]) -> Shape:
        digits, unit = re.findall(r"[\d_]+|[a-z]+", found[0])
        return ("Duration", int(digits.replace("_", "")) * UNITS[unit])

    def word(self, found: list[Shape]) -> Shape:
        return ("Word", {"true": True, "false": False, "null": None}[str(found[0])])

    def string(self, found: list[Shape]) -> Shape:
        return ("Text", tuple(part for part in _parts(found) if part != ""))

    def plain(self, found: list[Shape]) -> Shape:
        return "".join(_parts(found))


def _nanos(amount: str) -> int:
    whole, _, decimals = amount.partition(".")
    return int(whole) * 10**9 + int((decimals + "0" * 9)[:9])


def _grants(clauses: list[Shape]) -> Shape:
    given = {c[0]: c[1] for c in clauses if not isinstance(c, Token) and c[0] in _GRANTED}
    return ("Grants", *map(given.get, _GRANTED)) if given else None


_GRANTED = ("capabilities", "paths", "commands", "hosts")


def _texts(found: list[Shape]) -> Shape:
    return tuple(("Text", (text,) if text else ()) for text in found if text is not None)


def _parts(found: list[Shape]) -> list[Shape]:
    """Literal parts and expressions; a text in three quotes loses its indentation line by line."""
    inner = found[1:-1]
    if found[0].type == "TQ":
        inner = _dedented(inner)
    return [_unescaped(part) if isinstance(part, str) else part for part in inner]


def _dedented(parts: list[Shape]) -> list[Shape]:
    """The slow way: a list of lines, each a list of characters and expressions."""
    lines: list[list[Shape]] = [[]]
    for part in parts:
        for piece in part.replace("\r\n", "\n") if isinstance(part, str) else [part]:
            if piece == "\n":
                lines.append([])
            else:
                lines[-1].append(piece)
    indents = [_blank(line) for line in lines[1:] if _blank(line) < len(line)]
    least = min(indents, default=0)
    if len(lines) > 1 and _blank(lines[-1]) == len(lines[-1]):
        lines.pop()
    kept = [lines[0], *([line[min(least, _blank(line)) :] for line in lines[1:]])]
    if len(kept) > 1 and not kept[0]:
        kept.pop(0)
    return _rejoined(kept)


def _blank(line: list[Shape]) -> int:
    return next((i for i, piece in enumerate(line) if piece not in (" ", "\t")), len(line))


def _rejoined(lines: list[list[Shape]]) -> list[Shape]:
    pieces = [piece for line in lines for piece in (*line, "\n")][:-1]
    joined: list[Shape] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


def _unescaped(raw: str) -> str:
    found, at = "", 0
    while at < len(raw):
        if raw[at] != "\\":
            found, at = found + raw[at], at + 1
        elif raw[at + 1] == "u":
            stop = raw.index("}", at)
            found, at = found + chr(int(raw[at + 3 : stop], 16)), stop + 1
        else:
            found, at = found + ESCAPES.get(raw[at + 1], raw[at + 1]), at + 2
    return found


def _most(found: str | None) -> int | None:
    """The number at the end of `str; 20`, or alone."""
    return None if found is None else int(re.findall(r"[\d_]+$", found)[0].replace("_", ""))
