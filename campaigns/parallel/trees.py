"""Programs as trees of statements, so that a difference can be cut down to what causes it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["Block", "Part", "Stmt", "line", "shrunk", "text_of"]

Part: TypeAlias = "str | Block"


@dataclass
class Block:
    stmts: "list[Stmt]" = field(default_factory=list["Stmt"])


@dataclass
class Stmt:
    """`parts` are the text of it, with its blocks where they stand."""

    parts: list[Part]

    @property
    def blocks(self) -> list[Block]:
        return [part for part in self.parts if isinstance(part, Block)]


def line(text: str) -> Stmt:
    return Stmt([text])


def text_of(block: Block, indent: str = "") -> str:
    return "".join(_text(stmt, indent) for stmt in block.stmts)


def _text(stmt: Stmt, indent: str) -> str:
    """A block opens at the end of a line and closes at the start of one."""
    out = indent
    for part in stmt.parts:
        if isinstance(part, Block):
            out += "\n" + text_of(part, indent + "    ") + indent
        else:
            out += part.replace("\n", "\n" + indent)
    return out + "\n"


def shrunk(program: Block, still: Callable[[str], bool], most: int = 400) -> str:
    """The smallest that is found for which `still` holds; each look at one counts."""
    looks = 0
    found = True
    while found and looks < most:
        found = False
        for undo in _smaller(program):
            looks += 1
            if still(text_of(program)):
                found = True
            else:
                undo()
            if looks >= most:
                break
    return text_of(program)


def _smaller(block: Block) -> Iterator[Callable[[], None]]:
    """Makes one change after the other, each with what takes it back."""
    for size in (8, 4, 2, 1):
        at = 0
        while at < len(block.stmts) and size <= len(block.stmts):
            taken = block.stmts[at : at + size]
            block.stmts[at : at + size] = []
            yield _putting_back(block, at, taken)
            at += size if block.stmts[at : at + len(taken)] == taken else 0
    for at in range(len(block.stmts)):
        if at < len(block.stmts):
            yield from _opened(block, at)
            if at < len(block.stmts):
                for inner in block.stmts[at].blocks:
                    yield from _smaller(inner)


def _opened(block: Block, at: int) -> Iterator[Callable[[], None]]:
    """What stands in a block of a statement, in its place."""
    stmt = block.stmts[at]
    for inner in stmt.blocks:
        if stmt.parts[0].__class__ is str and str(stmt.parts[0]).startswith(("fn", "agent")):
            return
        block.stmts[at : at + 1] = inner.stmts
        count = len(inner.stmts)

        def undo(count: int = count) -> None:
            block.stmts[at : at + count] = [stmt]

        yield undo
        if block.stmts[at : at + 1] != [stmt]:
            return


def _putting_back(block: Block, at: int, taken: list[Stmt]) -> Callable[[], None]:
    def undo() -> None:
        block.stmts[at:at] = taken

    return undo
