"""Names, calls and methods of other languages, and what is written here in their place (pure).

Only asked for names that nobody declared, so what a program declares itself is never taken for
something else.
"""

from typing import NamedTuple

from vegakit.lang.check.context import BodyCheck
from vegakit.lang.check.symbols import AgentSymbol, closest_name
from vegakit.lang.diagnostics import Edit
from vegakit.lang.library import LIBRARY
from vegakit.lang.syntax.tree import (
    Binary,
    Call,
    Decimal,
    Expr,
    ExprStmt,
    Index,
    Member,
    Name,
    Node,
    Text,
    Whole,
)
from vegakit.lang.types import (
    FLOAT,
    INT,
    MONEY,
    STR,
    ChoiceOf,
    ListOf,
    MapOf,
    ProcessOf,
    Type,
    is_text,
)


class ForeignAdvice(NamedTuple):
    """Advice says what is written instead: the help of a diagnostic, and an edit if any."""

    help: str = ""
    edit: Edit | None = None


def written_instead(where: Node, text: str, why: str = "") -> ForeignAdvice:
    """Return the advice to write `text` where a node stands."""
    shown = text if len(text) <= 60 and "\n" not in text else f"{text[:57]}…"
    return ForeignAdvice(f"write `{shown}`{why}", Edit(where.at, where.end, text))


# Words that are values elsewhere.


_VALUES = {
    **dict.fromkeys(("None", "nil", "undefined", "NULL", "Null", "none", "nullptr"), "null"),
    **dict.fromkeys(("True", "TRUE"), "true"),
    **dict.fromkeys(("False", "FALSE"), "false"),
}
_NO_OBJECTS = frozenset(["self", "this", "super"])


def foreign_value(node: Name) -> ForeignAdvice | None:
    """Return the value that a word of another language stands for."""
    if node.name in _VALUES:
        return written_instead(node, _VALUES[node.name])
    if node.name in _NO_OBJECTS:
        return ForeignAdvice("there are no objects: a function is given what it works on")
    if node.name == "__name__":
        return ForeignAdvice("leave it out: `fn main` is run by itself")
    return None


# Functions that are called otherwise.


_RENAMED = {
    **dict.fromkeys(("println", "log", "echo", "puts", "printf"), "print"),
    **dict.fromkeys(("open", "read_file", "readFile", "load_file"), "file::read"),
    **dict.fromkeys(("write_file", "writeFile", "save_file"), "file::write"),
    **dict.fromkeys(("raise", "throw", "error", "panic", "Error", "Exception"), "fail"),
    **dict.fromkeys(("string", "String", "to_string", "toString"), "str"),
    **dict.fromkeys(("length", "size", "count"), "len"),
    **dict.fromkeys(("parseInt", "integer"), "int"),
    **dict.fromkeys(("parseFloat", "Number"), "float"),
    **dict.fromkeys(("sorted", "sort"), "list::sort"),
    **dict.fromkeys(("sum", "total"), "list::sum"),
    **dict.fromkeys(("fetch", "http_get"), "http::get"),
    **dict.fromkeys(("shell", "run", "system"), "exec"),
    "sleep": "process::sleep",
    "exit": "process::exit",
    "abs": "math::abs",
    "round": "math::round",
    "set": "list::unique",
    "reversed": "list::reverse",
}
_MEMBERS = {
    **dict.fromkeys(
        (
            "console.log",
            "console.error",
            "fmt.Println",
            "fmt.Printf",
            "logger.info",
            "logging.info",
            "log.info",
            "log.Println",
        ),
        "print",
    ),
    **{f"Math.{one}": f"math::{one}" for one in "abs max min floor ceil round sqrt pow".split()},
    **dict.fromkeys(("JSON.parse", "json.loads"), "json::parse"),
    **dict.fromkeys(("JSON.stringify", "json.dumps"), "json::text"),
    "Object.keys": "map::keys",
    "Object.values": "map::values",
    "requests.get": "http::get",
    "time.sleep": "process::sleep",
    "fs.readFileSync": "file::read",
    "fs.writeFileSync": "file::write",
    "os.listdir": "file::list",
    "os.path.exists": "file::exists",
    "subprocess.run": "exec::run",
}


def foreign_function(body: BodyCheck, node: Call, callee: Name) -> ForeignAdvice | None:
    """Return what is called here instead of a function that nobody declared."""
    name = callee.name
    if name == "input":
        asked = ", ".join([*map(body.source, node.args), "1h"][-2:])
        return written_instead(node, f"human::ask({asked})")
    if name == "assert":
        return ForeignAdvice("write `if not … { fail(reason); }`")
    if name in ("min", "max"):
        space = "list" if len(node.args) == 1 else "math"
        return written_instead(callee, f"{space}::{name}")
    return written_instead(callee, _RENAMED[name]) if name in _RENAMED else None


def foreign_member(body: BodyCheck, callee: Member) -> ForeignAdvice | None:
    """Return what is called instead of `console.log` or `file.read`."""
    root = callee.of
    while isinstance(root, Member):
        root = root.of
    if not isinstance(root, Name) or body.scopes.find(root.name) or body.names.find(root.name):
        return None
    said = body.source(callee)
    meant = said.replace(".", "::") if said.replace(".", "::") in LIBRARY else _MEMBERS.get(said)
    return written_instead(callee, meant) if meant else None


# Methods: values have no functions of their own.


_ASKING = frozenset("ask send run call prompt chat complete invoke generate query message".split())
_IN_PLACE = {"push": "append", "add": "append", "append": "append"}
_MADE_ANEW = {"sort": "list::sort", "reverse": "list::reverse"}
_METHODS = {
    "toUpperCase": "upper",
    "toLowerCase": "lower",
    "strip": "trim",
    "includes": "contains",
    "indexOf": "find",
    "startswith": "starts_with",
    "startsWith": "starts_with",
    "endswith": "ends_with",
    "endsWith": "ends_with",
    "replaceAll": "replace",
    "substring": "slice",
    "substr": "slice",
    "splitlines": "lines",
    "padStart": "pad_left",
    "padEnd": "pad_right",
    "ljust": "pad_right",
    "rjust": "pad_left",
    "charAt": "at",
}
_OF_LISTS = {"includes": "contains", "indexOf": "index_of", "index": "index_of"}
_OF_MAPS = {"containsKey": "has", "has_key": "has", "delete": "remove", "pop": "remove"}
_SPACES: dict[type, tuple[str, dict[str, str]]] = {
    ListOf: ("list", _OF_LISTS),
    MapOf: ("map", _OF_MAPS),
}


def asked_agent(
    body: BodyCheck, node: Call, callee: Member, of: Type | None
) -> ForeignAdvice | None:
    """Return the send that `Guide.ask("…")` is meant for."""
    agent = body.names.find(callee.of.name) if isinstance(callee.of, Name) else None
    is_agent = isinstance(of, ProcessOf) or (of is None and isinstance(agent, AgentSymbol))
    if not is_agent or callee.name not in _ASKING or len(node.args) != 1:
        return None
    return sent(body, node, callee.of, node.args[0])


def sent(body: BodyCheck, node: Call, to: Expr, message: Expr) -> ForeignAdvice:
    """Return the send in place of a call, in parentheses where something follows it."""
    written = f"{body.source(to)} <- {body.source(message)}"
    text = body.names.unit.text
    before, after = text[: node.at].rstrip()[-1:], text[node.end :].lstrip()[:1]
    is_whole = before in "=({[,;}" and after in ";,)]}"
    return written_instead(node, written if is_whole else f"({written})")


def method_written(body: BodyCheck, node: Call, callee: Member, of: Type) -> ForeignAdvice:
    """Return the function of the library that a method is meant for. What changes a list in place
    elsewhere is an assignment, where it stands alone."""
    space, words = ("str", _METHODS) if of == STR else _SPACES.get(type(of), ("", {}))
    if not space:
        return ForeignAdvice("functions stand by themselves: `name(value)`")
    source, given = body.source(callee.of), [body.source(arg) for arg in node.args]
    is_alone = _stands_alone(body, node) and _is_place(callee.of)
    if space == "list" and callee.name in _IN_PLACE and len(given) == 1:
        made = f"{source} + [{given[0]}]"
        return written_instead(node, f"{source} = {made}" if is_alone else made)
    if space == "list" and callee.name in _MADE_ANEW and is_alone:
        return written_instead(node, f"{source} = {_MADE_ANEW[callee.name]}({source})")
    if space == "list" and callee.name == "join" and len(given) == 1:
        return written_instead(node, f"str::join({source}, {given[0]})")
    if space == "str" and callee.name == "join" and len(given) == 1:
        return written_instead(node, f"str::join({given[0]}, {source})")
    if callee.name in ("length", "size"):
        return written_instead(node, f"len({source})")
    if callee.name in ("map", "filter") and space == "list":
        return ForeignAdvice("build a list: `[for x in xs if x > 1 { x * 2 }]`")
    ends = [name.rpartition("::")[2] for name in LIBRARY if name.startswith(f"{space}::")]
    name = words.get(callee.name) or closest_name(callee.name, ends)
    if space == "map" and callee.name == "get" and len(given) == 2:
        name = "get_or"
    if not name:
        return ForeignAdvice(f"functions of a {space} are called as `{space}::len(…)`")
    return written_instead(node, f"{space}::{name}({', '.join([source, *given])})")


def _stands_alone(body: BodyCheck, node: Call) -> bool:
    place = body.program.place
    return isinstance(place, ExprStmt) and place.value is node


def _is_place(node: Expr) -> bool:
    while isinstance(node, Member | Index):
        node = node.of
    return isinstance(node, Name)


def printed_together(body: BodyCheck, node: Call) -> ForeignAdvice:
    """`print(a, b)` is one text."""
    if any(node.names):
        return ForeignAdvice("it prints one value on a line of its own")
    parts = [_inserted(body, arg) for arg in node.args]
    return written_instead(node, f'{body.source(node.callee)}("{" ".join(parts)}")')


def _inserted(body: BodyCheck, arg: Expr) -> str:
    source = body.source(arg)
    is_line = isinstance(arg, Text) and source.startswith('"') and not source.startswith('"""')
    return source[1:-1] if is_line else f"{{{source}}}"


# Operators that take other operands elsewhere.


def text_operand(body: BodyCheck, node: Binary, left: Type) -> ForeignAdvice:
    """`"-" * 20` and `"%d" % n`."""
    if node.op == "%":
        return ForeignAdvice('put it inside the text: `"… {n}"`')
    is_left = is_text(left) or isinstance(left, ChoiceOf)
    text, count = (node.left, node.right) if is_left else (node.right, node.left)
    return written_instead(node, f"str::repeat({body.source(text)}, {body.source(count)})")


def number_beside_unit(body: BodyCheck, node: Binary, left: Type, right: Type) -> ForeignAdvice:
    """A number beside money or a duration has no unit."""
    side = node.left if left in (INT, FLOAT) else node.right
    text, is_money = body.source(side), MONEY in (left, right)
    if isinstance(side, Whole | Decimal):
        return written_instead(side, f"${text}" if is_money else f"{text}s")
    bare = f"({text})" if isinstance(side, Binary) else text
    written = f"{'$1' if is_money else '1s'} * {bare}"
    return (
        ForeignAdvice(f"write `{written}`") if node.op in "*/%" else written_instead(side, written)
    )
