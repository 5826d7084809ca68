"""Types as written: `str`, `lib::Finding`, `T?`, `[T; 20]`, `{str: T}`, `"low" | "high"`."""

from typing import NoReturn

from vegakit.lang.parsing.literals import MAX_INT, unescaped, without_indent
from vegakit.lang.parsing.slips import SlipFinder
from vegakit.lang.tree import (
    ChoiceType,
    Expr,
    ListType,
    MapType,
    NamedType,
    OptionalType,
    Text,
    TypeExpr,
)

__all__ = ["TypeParser"]

_FOREIGN_TYPES = {
    "<": "write lists as [T] and maps as {str: T}",
    "[": "write lists as [T] and maps as {str: T}",
    "|": "choices are of texts only; a value that may be null has the type T?",
}


class TypeParser(SlipFinder):
    def type(self, where: str = "") -> TypeExpr:
        i = self.i
        at = self.starts[i]
        kind = self.kinds[i]
        found: TypeExpr
        if kind == "name":
            path = self.path()
            found = NamedType(at, self.ends[self.i - 1], path)
            if where != "after `=`" and self.kinds[self.i] in _FOREIGN_TYPES:
                self.expected("the end of the type", _FOREIGN_TYPES[self.kinds[self.i]])
        elif kind == "[":
            found = self.list_type()
        elif kind == "{":
            found = self.map_type()
        elif kind in {"text", "open"}:
            found = self.choice()
        else:
            what = f"a type {where}" if where else "a type"
            self.expected(what, "types are like str, int?, [str], {str: float} or a record's name")
        if self.kinds[self.i] == "?":
            self.i += 1
            found = OptionalType(at, self.ends[self.i - 1], found)
        return found

    def path(self) -> str:
        """`a` or `a::b`."""
        path = self.name()
        while self.kinds[self.i] == "::":
            self.i += 1
            path += "::" + self.name("after `::`")
        return path

    def list_type(self) -> ListType:
        opener = self.i
        self.i += 1
        self.deeper()
        inner, most = self.type(), None
        self.depth -= 1
        if self.kinds[self.i] == ";":
            self.i += 1
            most = self.count("after `;`: how many items there are at most")
        self.close("]", opener)
        return ListType(self.starts[opener], self.ends[self.i - 1], inner, most)

    def map_type(self) -> MapType:
        opener = self.i
        self.i += 1
        if not self.is_word("str"):
            self.expected("`str`", "the keys of a map are strings: {str: T}")
        self.i += 1
        self.take(":", "between key and value")
        self.deeper()
        inner = self.type()
        self.depth -= 1
        self.close("}", opener)
        return MapType(self.starts[opener], self.ends[self.i - 1], inner)

    def choice(self) -> ChoiceType:
        first = self.plain_text()
        choices = [_only(first)]
        while self.kinds[self.i] == "|":
            self.i += 1
            choices.append(_only(self.plain_text("after `|`")))
        return ChoiceType(first.at, self.ends[self.i - 1], tuple(choices))

    def count(self, where: str) -> int:
        i = self.take("int", where)
        return self.whole(i)

    def whole(self, i: int) -> int:
        digits = self.values[i].replace("_", "")
        if len(digits) > 19 or (value := int(digits)) > MAX_INT:
            found = f"{self.shown(i)} does not fit in 64 bits"
            at, end = self.starts[i], self.ends[i]
            self.report("number-too-large", found, at, end, f"the largest int is {MAX_INT}")
            return 0
        return value

    def plain_text(self, where: str = "") -> Text:
        """A text that says the same every time: no interpolation."""
        i = self.i
        if self.kinds[i] not in {"text", "open"}:
            word = self.values[i] if self.kinds[i] == "name" else "…"
            self.expected(f"a text in quotes {where}".rstrip(), f'write "{word}"')
        text = self.text()
        if any(not isinstance(part, str) for part in text.parts):
            found = "this text must be known before the program runs"
            self.report(
                "not-plain", found, text.at, text.end, "write it without {…}; for a brace write \\{"
            )
            return Text(text.at, text.end, ())
        return text

    def text(self) -> Text:
        """A string, from its first quote on."""
        i = self.i
        self.i = i + 1
        if self.kinds[i] == "text":
            inner = self.values[i][1:-1]
            return Text(self.starts[i], self.ends[i], (inner,) if inner else ())
        parts = self.parts()
        if self.values[i] == '"""':
            parts = without_indent(parts)
        literal = [unescaped(part) if isinstance(part, str) else part for part in parts]
        kept = tuple(part for part in literal if part != "")
        return Text(self.starts[i], self.ends[self.i - 1], kept)

    def parts(self) -> list[str | Expr]:
        parts: list[str | Expr] = []
        height = 0
        self.deeper()
        while (kind := self.kinds[self.i]) != "close":
            opener = self.i
            self.i += 1
            if kind == "chunk":
                parts.append(self.values[opener])
                continue
            if self.kinds[self.i] == "|}":
                self.nothing_inserted(opener)
            parts.append(self.expr())
            height = max(height, self.height)
            self.close("|}", opener)
        self.i += 1
        self.depth -= 1
        self.height = height
        self.grown()
        return parts

    def nothing_inserted(self, opener: int) -> NoReturn:
        remedy = "write what to insert, or \\{\\} for braces in the text"
        self.fail("empty-interpolation", "nothing stands between these braces", remedy, i=opener)

    def expr(self) -> Expr:
        raise NotImplementedError


def _only(text: Text) -> str:
    return "".join(part for part in text.parts if isinstance(part, str))
