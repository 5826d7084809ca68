"""Statements as Vega."""

from vegakit.lang.python.printing.context import NoFormError
from vegakit.lang.python.printing.vega_expressions import put, settings_text, type_text, written
from vegakit.lang.tree import (
    Ask,
    Assign,
    Block,
    Break,
    Catch,
    Continue,
    ExprStmt,
    For,
    If,
    Let,
    NamedType,
    Node,
    Parallel,
    Return,
    Session,
    Stmt,
    Try,
    TypeExpr,
    While,
)

__all__ = ["Lines", "statements"]


class Lines:
    """Lines so far, and the comments that wait for their place."""

    def __init__(self, comments: list[tuple[int, str]], text: str) -> None:
        self.made: list[str] = []
        self.text = text
        self._waiting = comments

    def add(self, line: str) -> None:
        self.made.append(line)

    def before(self, at: int, *, beside: bool = False) -> None:
        """Comments above this place; with `beside` those behind it on its line too."""
        if beside:
            end = self.text.find("\n", at)
            at = len(self.text) if end < 0 else end
        while self._waiting and self._waiting[0][0] < at:
            self.add(self._waiting.pop(0)[1])

    def on_line(self, at: int, end: int) -> list[str]:
        """The comment behind what begins at `at`, before `end`."""
        line_end = self.text.find("\n", at)
        if self._waiting and at <= self._waiting[0][0] < min(end, line_end):
            return [self._waiting.pop(0)[1]]
        return []

    def say(self, line: str, node: Node) -> None:
        end = self.text.find("\n", node.end)
        end = len(self.text) if end < 0 else end
        found: list[str] = []
        while self._waiting and self._waiting[0][0] < end:
            found.append(self._waiting.pop(0)[1])
        self.add(f"{line}  {found[0]}" if found else line)
        self.made += found[1:]


def statements(lines: Lines, body: tuple[Stmt, ...], result: TypeExpr | None) -> None:
    for node in body:
        lines.before(node.at)
        _statement(lines, node, result)


def _statement(lines: Lines, node: Stmt, result: TypeExpr | None) -> None:  # noqa: C901, PLR0912
    match node:
        case Let(name=name, type=kind, value=value):
            typed = "" if kind is None else f": {type_text(kind)}"
            lines.say(f"let {written(name)}{typed} = {_held(value, kind)};", node)
        case Assign(target=target, value=value):
            lines.say(f"{put(target)} = {put(value)};", node)
        case ExprStmt(value=value):
            lines.say(f"{put(value)};", node)
        case Return(value=None):
            lines.say("return;", node)
        case Return(value=value):
            assert value is not None
            lines.say(f"return {_held(value, result)};", node)
        case Break():
            lines.say("break;", node)
        case Continue():
            lines.say("continue;", node)
        case If():
            _if(lines, node, result)
        case While(test=test, limit=limit):
            bound = "" if limit is None else f" limit {put(limit)}"
            _block(lines, f"while {put(test)}{bound}", node.body, result, node.at)
        case For(names=names, over=over):
            _block(
                lines,
                f"for {', '.join(map(written, names))} in {put(over)}",
                node.body,
                result,
                node.at,
            )
        case Try(catches=catches):
            _block(lines, "try", node.body, result, node.at)
            _catches(lines, catches, result)
        case Session(budget=budget, settings=settings, catches=catches):
            head = f"session budget {put(budget)}{settings_text(settings)}"
            _block(lines, head, node.body, result, node.at)
            _catches(lines, catches, result)
        case Parallel(catches=catches):
            _block(lines, "parallel", node.body, result, node.at)
            _catches(lines, catches, result)
        case _:
            raise NoFormError(node, "this statement")


def _held(value: object, kind: TypeExpr | None) -> str:
    """An answer takes the type of where it goes, so where that is another, its own is written."""
    is_text = isinstance(kind, NamedType) and kind.name == "str"
    if isinstance(value, Ask) and kind is not None and not is_text:
        return put(value, typed=True)
    return put(value)  # pyright: ignore[reportArgumentType]


def _block(
    lines: Lines, head: str, block: Block, result: TypeExpr | None, at: int | None = None
) -> None:
    """`at` is where its head begins: what is remarked on that line stays there."""
    beside = [] if at is None else lines.on_line(at, block.at)
    lines.add(f"{head} {{  {beside[0]}" if beside else f"{head} {{")
    statements(lines, block.body, result)
    lines.add("}")


def _if(lines: Lines, node: If, result: TypeExpr | None) -> None:
    _block(lines, f"if {put(node.test)}", node.then, result, node.at)
    other = node.other
    if other is None:
        return
    last = lines.made.pop()
    if len(other.body) == 1 and isinstance(other.body[0], If):
        begins = len(lines.made)
        _if(lines, other.body[0], result)
        lines.made[begins] = f"{last} else {lines.made[begins]}"
        return
    _block(lines, f"{last} else", other, result)


def _catches(lines: Lines, catches: tuple[Catch, ...], result: TypeExpr | None) -> None:
    for one in catches:
        last = lines.made.pop()
        reason = f"({written(one.reason)})" if one.reason else ""
        kind = f" {one.kind}" if one.kind else ""
        _block(lines, f"{last} catch{kind}{reason}", one.body, result)
