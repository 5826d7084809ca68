"""Check an expression against the type expected there, and say how to fix what does not (pure)."""

from vegakit.lang.check.comparisons import answer_compared, sent_comparison
from vegakit.lang.check.context import (
    UNKNOWN,
    BodyCheck,
    infer,
    is_json,
    without_null,
)
from vegakit.lang.diagnostics import Edit
from vegakit.lang.syntax.tree import (
    Ask,
    Binary,
    Build,
    Decimal,
    Expr,
    ListLit,
    MapLit,
    MoneyLit,
    Node,
    Race,
    Text,
    Unary,
    Whole,
)
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
    MapOf,
    OptionalOf,
    Plain,
    Type,
    is_text,
    type_label,
    unbounded,
)

# Holding an expression to the type wanted there, and suggesting a fix for what does not fit.


_NO_RESULT = "a function with a result is declared with `-> T`"
_ARTICLES = {"int": "an int", "any": "any", "money": "money", "nothing": "nothing", "null": "null"}


def check(
    body: BodyCheck, node: Expr, expected: Type, what: str, like: tuple[Expr, ...] = ()
) -> Type:
    """`what` is the thing that has this type: "the timeout", "`path`". It is the type of what it
    has to be `like`, if that decided it."""
    kind = infer(body, node, expected)
    if body.type_variables.fits(kind, expected):
        return kind
    refuse(body, node, kind, expected, what, as_floats(body, like, expected, kind))
    return UNKNOWN


def as_floats(
    body: BodyCheck, nodes: tuple[Expr, ...], kind: Type, met: Type
) -> tuple[str, Edit | None] | None:
    """Return advice to make floats of ints that met a float, which as an int would lose its
    fraction; None of other types."""
    seen = body.type_variables.seen
    if not nodes or (seen(kind), seen(met)) != (INT, FLOAT):
        return None
    at, written = nodes[0].at, ""
    for node in nodes:
        text = body.source(node)
        is_literal = text.removeprefix("-").replace("_", "").isdecimal()
        written += body.source(Node(at, node.at))
        written += f"{text}.0" if is_literal else f"float({text})"
        at = node.end
    remedy = f"ints and floats do not mix here: write `{in_short(written)}`"
    return remedy, Edit(nodes[0].at, at, written)


def check_amount(body: BodyCheck, node: Expr, what: str) -> None:
    """Check money that may be spent, which is not below zero."""
    check(body, node, MONEY, what)
    if isinstance(node, Unary) and isinstance(node.of, MoneyLit) and node.of.nanos:
        amount = body.source(node.of)
        body.reports.error(
            "bad-money",
            node,
            f"{what} is below zero: nothing could be spent",
            f"write `{amount}`",
            Edit(node.at, node.end, amount),
        )


def check_declared(body: BodyCheck, node: Expr, expected: Type, what: str) -> Type:
    """Check a value against a type that is written in the program: a send then asks for an
    answer of that type, and so do those that run in a race."""
    due = [node]
    while due:
        one = due.pop()
        if isinstance(one, Race):
            due += candidates(one)
        elif isinstance(one, Ask) and one.answer is None and not (one.stream or one.later):
            body.answers[id(one)] = expected
    return check(body, node, expected, what)


def condition(body: BodyCheck, node: Expr, what: str) -> None:
    """Check a condition, which is a bool."""
    kind = infer(body, node, BOOL)
    if not body.type_variables.fits(kind, BOOL):
        refuse(body, node, kind, BOOL, what)


def refuse(
    body: BodyCheck,
    node: Expr,
    kind: Type,
    expected: Type,
    what: str,
    better: tuple[str, Edit | None] | None = None,
) -> None:
    """Report that a value does not fit, and how to change it; `better` is advice of who knows more
    than the types."""
    kind, expected = body.type_variables.full(kind), body.type_variables.full(expected)
    if is_open(body, node, kind):
        return
    if kind == NOTHING:
        body.reports.error("no-value", node, "this gives no value", _NO_RESULT)
        return
    advice, edit = better or _advice(body, node, kind, expected)
    expected = body.type_variables.described(expected)
    optional = isinstance(kind, OptionalOf) and body.type_variables.fits(kind.inner, expected)
    body.reports.error(
        "may-be-null" if optional else "wrong-type",
        node,
        f"{what} must be {_article(expected)}, this is {_article(kind)}",
        advice,
        edit,
    )


def is_open(body: BodyCheck, node: Expr, kind: Type) -> bool:
    """Reports a type that nothing has decided yet."""
    if not body.type_variables.is_open(kind):
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
        length = "" if kind.most is None else f" of at most {kind.most} characters"
        return _ARTICLES.get(kind.name, f"a {kind.name}{length}")
    return type_label(kind)


def _advice(body: BodyCheck, node: Expr, kind: Type, expected: Type) -> tuple[str, Edit | None]:
    text, target = body.source(node), without_null(expected)
    if isinstance(node, Whole | Decimal) and target in (MONEY, DURATION):
        return _unit(body, node, target)
    if isinstance(kind, OptionalOf) and body.type_variables.fits(kind.inner, expected):
        return null_advice(body, node, expected)
    if kind == NULL and expected != NOTHING:
        return f"what may be null is declared as `{type_label(OptionalOf(expected))}`", None
    if isinstance(kind, FutureOf) and body.type_variables.fits(kind.inner, expected):
        advice, _ = _replaced(node, f"await {text}")
        return advice, Edit(node.at, node.end, f"(await {text})")
    if isinstance(node, Ask) and target == BOOL and sent_comparison(body, node) is not None:
        return answer_compared(body, node)
    if isinstance(node, Ask) and is_text(kind) and is_json(expected) and expected != NOTHING:
        return _answered(node, expected)
    return _converted(node, kind, target, text)


def null_advice(body: BodyCheck, node: Expr, expected: Type) -> tuple[str, Edit | None]:
    """Only a variable or a field of one can be tested: the next call may give something else."""
    text, edit = body.source(node), _present(body, node, expected)
    name = in_short(text) if body.scopes.place(node) is not None else ""
    test = f"test it before, `if {name} != null {{ … }}`" if name else "keep it, `let x = …;`, and "
    test = test if name else f"{test}test that: `if x != null {{ … }}`"
    if edit is None:
        return f"{test}, or write `{name or '…'} ?? other`", None
    if body.targets.get(id(node)) or expected == BOOL:
        return f"{test}, or write `{in_short(edit.text)}`", edit
    shown = edit.text if in_short(edit.text) == edit.text else f"(… as {_operand(expected)})"
    return f"{test}, or write `{name or '…'} ?? other`; `{shown}` fails where it is null", edit


def _present(body: BodyCheck, node: Expr, expected: Type) -> Edit | None:
    """Return what stands for a value that may be null: in an assignment the value that was there
    before, in a condition a comparison, and else a cast, which fails where it is null."""
    text = body.source(node)
    if before := body.targets.get(id(node)):
        return Edit(node.at, node.end, f"{text} ?? {before}")
    if expected == BOOL:
        return Edit(node.at, node.end, f"({text} == true)")
    if not is_json(expected) or expected == UNKNOWN or isinstance(node, Ask):
        return None
    bare = f"({text})" if isinstance(node, Binary) else text
    cast, around = f"{bare} as {_operand(expected)}", body.names.unit.text
    alone = around[node.at - 1 : node.at] in {"(", "["} and around[node.end] in {")", "]"}
    return Edit(node.at, node.end, cast if alone else f"({cast})")


def _unit(body: BodyCheck, node: Expr, expected: Type) -> tuple[str, Edit | None]:
    text = body.source(node)
    written = f"${text}" if expected == MONEY else f"{text}s"
    return f"write {written}", Edit(node.at, node.end, written)


def _answered(node: Ask, expected: Type) -> tuple[str, Edit | None]:
    written, said = _operand(expected), node.answer
    if said is not None and said.at >= node.message.end:  # in Python it may be written nowhere
        edit = Edit(said.at, said.end, written)
        return f"it asks for a str: write `{written}` as the type of the answer", edit
    edit = Edit(node.end, node.end, f" as {written}")
    return f"an answer is a str unless asked for: add `as {written}`", edit


def _converted(node: Expr, kind: Type, expected: Type, text: str) -> tuple[str, Edit | None]:
    """Return what turns one type into the other, if something does."""
    if isinstance(node, Text | ListLit | MapLit):
        return _literal(node, expected)
    if isinstance(node, Whole | Decimal) and is_text(expected):
        return _replaced(node, f'"{text}"')
    if kind == ANY or (is_text(kind) and isinstance(expected, ChoiceOf)) or _same(kind, expected):
        bare = f"({text})" if isinstance(node, Binary) else text
        shown = bare if in_short(bare) == bare else "…"
        cast = f" as {_operand(expected)}"
        help_ = f"write `{shown}{cast}`, which is checked when it runs"
        return help_, Edit(node.at, node.end, f"{bare}{cast}")
    match kind, expected:
        case Plain(name="int" | "str" | "money" | "duration"), Plain(name="float"):
            return _replaced(node, f"float({text})")
        case Plain(name="float" | "str"), Plain(name="int"):
            return _replaced(node, f"int({text})")
        case Plain(name="int" | "float" | "bool" | "money" | "duration"), Plain(name="str"):
            return _replaced(node, f"str({text})")
        case _, Plain(name="bool"):
            return _tested(node, kind, text)
        case _:
            return "", None


def _tested(node: Expr, kind: Type, text: str) -> tuple[str, Edit | None]:
    """Return a comparison in place of a value that is no bool."""
    match kind:
        case ListOf() | MapOf():
            written = f"len({text}) > 0"
        case Plain(name="str"):
            written = f'{text} != ""'
        case Plain(name="int"):
            written = f"{text} != 0"
        case OptionalOf():
            written = f"{text} != null"
        case _:
            return "", None
    if isinstance(node, Binary | Ask):
        return f"compare it: `{in_short(written)}`", None
    return _replaced(node, written)


def _same(kind: Type, expected: Type) -> bool:
    """Whether only lengths are different."""
    match kind, expected:
        case (ListOf(inner=one), ListOf(inner=other)) | (MapOf(inner=one), MapOf(inner=other)):
            return unbounded(one) == unbounded(other)
        case _:
            return is_text(kind) and is_text(expected)


def _operand(kind: Type) -> str:
    """The type behind `as`: in parentheses where the `;` of a size could be read as an end."""
    return f"({type_label(kind)})" if is_text(kind) and kind != STR else type_label(kind)


def _literal(node: Text | ListLit | MapLit, expected: Type) -> tuple[str, Edit | None]:
    """What was written itself has to change."""
    if isinstance(node, ListLit) and isinstance(expected, ListOf):
        return f"it has {len(node.items)} items, {expected.most} fit", None
    if isinstance(node, MapLit) and isinstance(expected, MapOf):
        return f"it has {len(node.pairs)} keys, {expected.most} fit", None
    if isinstance(node, Text) and isinstance(expected, Plain) and expected.most is not None:
        return _shortened(node, expected.most)
    word = node.parts[0] if isinstance(node, Text) and len(node.parts) == 1 else ""
    if isinstance(word, str) and word.isdecimal() and word.isascii() and expected in (INT, FLOAT):
        return _replaced(node, word)
    return "", None


def _shortened(node: Text, most: int) -> tuple[str, Edit | None]:
    literal = constant_text(node)
    if literal is not None:
        return f"it has {len(literal)} characters, {most} fit", None
    return f"cut it: `str::slice(…, 0, {most}) as (str; {most})`", None


def _replaced(node: Expr, written: str, why: str = "") -> tuple[str, Edit | None]:
    after = f", {why}" if why else ""
    return f"write `{in_short(written)}`{after}", Edit(node.at, node.end, written)


def in_short(text: str) -> str:
    """Return the beginning of a text that is long, or has more than one line."""
    line = text.split("\n", 1)[0]
    return line if len(line) <= 60 and line == text else f"{line[:57]}…"


def is_longer(kind: Type, to: Type) -> bool:
    """Return whether a value that is written out has more in it than this type lets it have."""
    match kind, without_null(to):
        case (ListOf(), ListOf(most=int() as most)) | (MapOf(), MapOf(most=int() as most)):
            return kind.most is not None and kind.most > most
        case Plain(name="str"), Plain(name="str", most=int() as most):
            return kind.most is not None and kind.most > most
        case _:
            return False


def constant_text(node: Expr) -> str | None:
    """The text of a string without expressions in it."""
    if isinstance(node, Text) and all(isinstance(part, str) for part in node.parts):
        return "".join(str(part) for part in node.parts)
    return None


def candidates(node: Race) -> tuple[Expr, ...]:
    """Return what is written in the list of a race."""
    return (node.of.item,) if isinstance(node.of, Build) else node.of.items
