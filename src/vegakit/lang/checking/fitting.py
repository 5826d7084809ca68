"""Holding an expression to the type wanted there, and saying how to mend what does not fit."""

from vegakit.lang.checking.context import Body, infer
from vegakit.lang.checking.relations import UNKNOWN, is_json, shown, without_null
from vegakit.lang.diagnostics import Edit
from vegakit.lang.tree import Ask, Binary, Decimal, Expr, ListLit, MapLit, Text, Whole
from vegakit.lang.types import (
    ANY,
    BOOL,
    DURATION,
    FLOAT,
    INT,
    MONEY,
    NOTHING,
    NULL,
    STR,
    ChoiceOf,
    FutureOf,
    ListOf,
    OptionalOf,
    Plain,
    Type,
)

__all__ = ["check", "check_declared", "condition", "is_open", "null_advice", "refuse"]

_NO_RESULT = "a function with a result is declared with `-> T`"
_ARTICLES = {"int": "an int", "any": "any", "money": "money", "nothing": "nothing", "null": "null"}


def check(body: Body, node: Expr, want: Type, what: str) -> Type:
    """`what` is the thing that has this type: "the timeout", "`path`"."""
    kind = infer(body, node, want)
    if body.holes.fits(kind, want):
        return kind
    refuse(body, node, kind, want, what)
    return UNKNOWN


def check_declared(body: Body, node: Expr, want: Type, what: str) -> Type:
    """Where the type is written in the program: a send then asks for an answer of that type."""
    if isinstance(node, Ask) and node.answer is None and not (node.stream or node.later):
        body.answers[id(node)] = want
    return check(body, node, want, what)


def condition(body: Body, node: Expr, what: str) -> None:
    kind = infer(body, node, BOOL)
    if not body.holes.fits(kind, BOOL):
        refuse(body, node, kind, BOOL, what)


def refuse(body: Body, node: Expr, kind: Type, want: Type, what: str) -> None:
    kind, want = body.holes.full(kind), body.holes.full(want)
    if is_open(body, node, kind):
        return
    if kind == NOTHING:
        body.reports.error("no-value", node, "this gives no value", _NO_RESULT)
        return
    advice, edit = _advice(body, node, kind, want)
    want = body.holes.told(want)
    optional = isinstance(kind, OptionalOf) and body.holes.fits(kind.inner, want)
    body.reports.error(
        "may-be-null" if optional else "wrong-type",
        node,
        f"{what} must be {_article(want)}, this is {_article(kind)}",
        advice,
        edit,
    )


def is_open(body: Body, node: Expr, kind: Type) -> bool:
    """Reports a type that nothing has decided yet."""
    if not body.holes.is_open(kind):
        return False
    body.reports.error(
        "unknown-type",
        node,
        "the type of this is not known yet",
        "write the type at its `let`, such as `let items: [str] = [];`",
    )
    return True


def _article(kind: Type) -> str:
    if isinstance(kind, Plain):
        return _ARTICLES.get(kind.name, f"a {kind.name}")
    return shown(kind)


def _advice(body: Body, node: Expr, kind: Type, want: Type) -> tuple[str, Edit | None]:
    text, target = body.source(node), without_null(want)
    if isinstance(node, Whole | Decimal) and target in (MONEY, DURATION):
        return _unit(body, node, target)
    if isinstance(kind, OptionalOf) and body.holes.fits(kind.inner, want):
        return null_advice(body, node), None
    if kind == NULL and want != NOTHING:
        return f"what may be null is declared as `{shown(OptionalOf(want))}`", None
    if isinstance(kind, FutureOf) and body.holes.fits(kind.inner, want):
        return _replaced(node, f"await {text}")
    if isinstance(node, Ask) and kind == STR and is_json(want) and want != NOTHING:
        return _answered(node, want)
    return _converted(node, kind, target, text)


def null_advice(body: Body, node: Expr) -> str:
    """Only a variable or a field of one can be tested: the next call may give something else."""
    if body.scopes.place(node) is None:
        return "keep it, `let x = …;`, and test that: `if x != null { … }`; or write `… ?? other`"
    text = _short(body.source(node))
    return f"test it before, `if {text} != null {{ … }}`, or write `{text} ?? other`"


def _unit(body: Body, node: Expr, want: Type) -> tuple[str, Edit | None]:
    text = body.source(node)
    written = f"${text}" if want == MONEY else f"{text}s"
    return f"write {written}", Edit(node.at, node.end, written)


def _answered(node: Ask, want: Type) -> tuple[str, Edit | None]:
    written = f" as {shown(want)}"
    return f"an answer is a str unless asked for: add `{written.strip()}`", Edit(
        node.end, node.end, written
    )


def _converted(node: Expr, kind: Type, want: Type, text: str) -> tuple[str, Edit | None]:
    """What turns one type into the other, if something does."""
    if isinstance(node, Text | ListLit | MapLit):
        return _literal(node, want)
    if isinstance(node, Whole | Decimal) and want == STR:
        return _replaced(node, f'"{text}"')
    casts = kind == ANY or (kind == STR and isinstance(want, ChoiceOf))
    if casts or (
        isinstance(kind, ListOf) and isinstance(want, ListOf) and kind.inner == want.inner
    ):
        bare = f"({text})" if isinstance(node, Binary) else text
        return _replaced(node, f"{bare} as {shown(want)}", "which is checked when it runs")
    match kind, want:
        case Plain(name="int" | "str" | "money" | "duration"), Plain(name="float"):
            return _replaced(node, f"float({text})")
        case Plain(name="float" | "str"), Plain(name="int"):
            return _replaced(node, f"int({text})")
        case Plain(name="int" | "float" | "bool" | "money" | "duration"), Plain(name="str"):
            return _replaced(node, f"str({text})")
        case ListOf() | Plain(name="str"), Plain(name="bool"):
            return f"write `len({_short(text)}) > 0`", None
        case Plain(name="int"), Plain(name="bool"):
            return f"write `{_short(text)} != 0`", None
        case _:
            return "", None


def _literal(node: Text | ListLit | MapLit, want: Type) -> tuple[str, Edit | None]:
    """What was written itself has to change."""
    if isinstance(node, ListLit) and isinstance(want, ListOf):
        return f"it has {len(node.items)} items, {want.most} fit", None
    word = node.parts[0] if isinstance(node, Text) and len(node.parts) == 1 else ""
    if isinstance(word, str) and word.isdecimal() and word.isascii() and want in (INT, FLOAT):
        return _replaced(node, word)
    return "", None


def _replaced(node: Expr, written: str, why: str = "") -> tuple[str, Edit | None]:
    after = f", {why}" if why else ""
    return f"write `{_short(written)}`{after}", Edit(node.at, node.end, written)


def _short(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= 60 and line == text else f"{line[:57]}…"
