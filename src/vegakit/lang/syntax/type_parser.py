"""Parse types, texts and blocks of settings (pure)."""

from collections.abc import Sequence
from typing import NoReturn

from vegakit.lang.diagnostics import Edit
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.cursor import ParseError
from vegakit.lang.syntax.lexer import MAX_INT, unescaped, without_indent
from vegakit.lang.syntax.misspellings import MisspellingParser

# Types as written: `str`, `lib::Finding`, `T?`, `[T; 20]`, `{str: T}`, `"low" | "high"`.
#
# `str; 200` is a text of at most 200 characters. Inside brackets the `;` belongs to them, so there,
# and before `?`, it stands in parentheses: `[(str; 200); 10]`, `(str; 200)?`. Behind `as` a `;`
# with a number goes on with the type, as no statement of any use begins with a number.


_FOREIGN_TYPES = {
    "<": "write lists as [T] and maps as {str: T}",
    "[": "write lists as [T] and maps as {str: T}",
    "|": "choices are of texts only; a value that may be null has the type T?",
}


class TypeParser(MisspellingParser):
    """Parses types and texts."""

    def type(self, where: str = "", *, inside: bool = False) -> tree.TypeExpr:
        """Parse a type; `where` says in a message what it should follow. A `;` that follows one
        `inside` brackets is theirs."""
        i = self.i
        at = self.starts[i]
        kind = self.kinds[i]
        found: tree.TypeExpr
        if kind == "name":
            found = self.named_type(inside=inside)
            if where != "after `=`" and self.kinds[self.i] in _FOREIGN_TYPES:
                self.foreign_type(i, _FOREIGN_TYPES[self.kinds[self.i]])
        elif kind == "[":
            found = self.list_type()
        elif kind == "{":
            found = self.map_type()
        elif kind == "(":
            found = self.grouped_type()
        elif kind in {"text", "open"}:
            found = self.choice()
        else:
            what = f"a type {where}" if where else "a type"
            self.expected(what, "types are like str, int?, [str], {str: float} or a record's name")
        if self.kinds[self.i] == "?":
            self.no_sized_optional(found, i)
            self.i += 1
            found = tree.OptionalType(at, self.ends[self.i - 1], found)
        return found

    def path(self) -> str:
        """`a` or `a::b`."""
        path = self.name()
        while self.kinds[self.i] == "::":
            self.i += 1
            path += "::" + self.name("after `::`")
        return path

    def named_type(self, *, inside: bool) -> tree.NamedType:
        """Parse `str`, `Finding`, or `str; 200` of 200 characters at most."""
        at, path, most = self.starts[self.i], self.path(), None
        if path == "str" and not inside and self.kinds[self.i : self.i + 2] == [";", "int"]:
            most = self.most("characters")
        return tree.NamedType(at, self.ends[self.i - 1], path, most)

    def grouped_type(self) -> tree.TypeExpr:
        """Parse `(T)`, which is T."""
        opener = self.i
        self.i += 1
        self.deeper()
        inner = self.type()
        self.depth -= 1
        self.close(")", opener)
        return inner

    def no_sized_optional(self, found: tree.TypeExpr, i: int) -> None:
        """Refuse `str; 200?`, where one cannot see what the `?` is of."""
        if isinstance(found, tree.NamedType) and found.most is not None and self.kinds[i] != "(":
            written = f"(str; {found.most})?"
            at, end = found.at, self.ends[self.i]
            self.report(
                "expected", "a sized text that may be null stands in parentheses", at, end,
                f"write `{written}`", Edit(at, end, written),
            )  # fmt: skip

    def most(self, what: str) -> int | None:
        """Parse the bound of a type from its `;` on, if it has one."""
        if self.kinds[self.i] != ";":
            return None
        self.i += 1
        return self.count(f"after `;`: how many {what} there are at most")

    def list_type(self) -> tree.ListType:
        """Parse `[T]`, or `[T; 20]` of 20 items at most."""
        opener = self.i
        self.i += 1
        self.deeper()
        inner = self.type(inside=True)
        self.depth -= 1
        most = self.most("items")
        self.close("]", opener)
        return tree.ListType(self.starts[opener], self.ends[self.i - 1], inner, most)

    def map_type(self) -> tree.MapType:
        """Parse `{str: T}`, or `{str: T; 20}` of 20 keys at most; keys are always strings."""
        opener = self.i
        self.i += 1
        if not self.is_word("str"):
            self.no_key_type()
        self.i += 1
        self.take(":", "between key and value")
        self.deeper()
        inner = self.type(inside=True)
        self.depth -= 1
        most = self.most("keys")
        self.close("}", opener)
        return tree.MapType(self.starts[opener], self.ends[self.i - 1], inner, most)

    def no_key_type(self) -> NoReturn:
        """Report a map of other keys than strings, or what is a record."""
        if self.kinds[self.i] == "name" and self.values[self.i] not in {"int", "float", "bool"}:
            remedy = "declare a record: `type Name { field: str }` at top level"
            self.fail("expected", "a record is a type with a name", remedy)
        self.expected("`str`", "the keys of a map are strings: {str: T}")

    def choice(self) -> tree.ChoiceType:
        """Parse `"low" | "high"`, or a single text."""
        first = self.plain_text()
        choices = [_only(first)]
        while self.kinds[self.i] == "|":
            self.i += 1
            choices.append(_only(self.plain_text("after `|`")))
        return tree.ChoiceType(first.at, self.ends[self.i - 1], tuple(choices))

    def count(self, where: str) -> int:
        """Take a whole number; `where` says in a message what it should follow."""
        i = self.take("int", where)
        return self.whole(i)

    def whole(self, i: int) -> int:
        """Return the value of an int; one beyond 64 bits is reported and is 0."""
        digits = self.values[i].replace("_", "")
        if len(digits) > 19 or (value := int(digits)) > MAX_INT:
            found = f"{self.shown(i)} does not fit in 64 bits"
            at, end = self.starts[i], self.ends[i]
            self.report("number-too-large", found, at, end, f"the largest int is {MAX_INT}")
            return 0
        return value

    def plain_text(self, where: str = "") -> tree.Text:
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
            return tree.Text(text.at, text.end, ())
        return text

    def text(self) -> tree.Text:
        """A string, from its first quote on."""
        i = self.i
        self.i = i + 1
        if self.kinds[i] == "text":
            inner = self.values[i][1:-1]
            return tree.Text(self.starts[i], self.ends[i], (inner,) if inner else ())
        parts = self.parts()
        if self.values[i] == '"""':
            parts = without_indent(parts)
        literal = [unescaped(part) if isinstance(part, str) else part for part in parts]
        kept = tuple(part for part in literal if part != "")
        return tree.Text(self.starts[i], self.ends[self.i - 1], kept)

    def parts(self) -> list[str | tree.Expr]:
        """Parse the inside of a text with insertions, up to its end: strings and expressions in
        turn."""
        parts: list[str | tree.Expr] = []
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
        """Report empty braces in a text."""
        remedy = "write what to insert, or \\{\\} for braces in the text"
        self.fail("empty-interpolation", "nothing stands between these braces", remedy, i=opener)

    def expr(self) -> tree.Expr:
        """Parse an expression; `ExpressionParser` does it."""
        raise NotImplementedError


def _only(text: tree.Text) -> str:
    return "".join(part for part in text.parts if isinstance(part, str))


# Settings between braces: `{ strategy restart  max_restarts 3  window 60s }`.
#
# Nothing stands between two settings, so a value is one literal, name, list or call and no more.


_SEPARATORS = frozenset([",", ";"])
_APART = "leave it out: settings stand one after another, like: threshold 5  reset_after 30s"
_SIMPLE = frozenset("int float money duration true false null".split())


class SettingParser(TypeParser):
    """Parses settings between braces."""

    def settings(self, known: Sequence[str], owner: str) -> tuple[tree.Setting, ...]:
        """Parse settings in braces; `known` are the names that `owner` may have. A faulty one is
        reported and left out."""
        opener = self.take("{")
        found: list[tree.Setting] = []
        while self.kinds[self.i] not in {"}", "eof"}:
            try:
                found.append(self.setting(known, owner))
            except ParseError:
                self.skip_setting(known)
        self.close("}", opener)
        return tuple(found)

    def setting(self, known: Sequence[str], owner: str) -> tree.Setting:
        """Parse a name of `known` and its value."""
        i = self.i
        name = self.setting_name(known, owner)
        value = self.setting_value(name)
        return tree.Setting(self.starts[i], self.ends[self.i - 1], name, value)

    def setting_name(self, known: Sequence[str], owner: str) -> str:
        """A word that is nearly right is reported and then taken for the right one."""
        self.no_separator()
        i = self.i
        word = self.name(f"of a setting of {owner}")
        if word in known:
            return word
        return self.nearly(i, known, "unknown-setting", f"{owner} has no setting `{word}`")

    def no_separator(self, remedy: str = _APART) -> None:
        """A comma or semicolon between two settings is reported and passed over."""
        while self.kinds[self.i] in _SEPARATORS:
            at, end = self.starts[self.i], self.ends[self.i]
            found = f"{self.shown()} does not stand here"
            self.report("separator", found, at, end, remedy, Edit(at, end, ""))
            self.i += 1

    def setting_value(self, name: str, known: Sequence[str] = ()) -> tree.Expr:
        """Parse the value of a setting: a literal, a word, a call or a list. A word of `known` at
        the start of a line is the next setting and no value, unless what follows says otherwise."""
        i = self.i
        if self.kinds[i] in {":", "="}:
            at, end = self.starts[i], self.ends[i]
            found = f"{self.shown()} does not stand between a setting and its value"
            self.report("separator", found, at, end, f"write: {name} …", Edit(at, end, ""))
            self.i = i = i + 1
        kind = self.kinds[i]
        if kind in {"text", "open"}:
            return self.text()
        if kind == "[":
            self.deeper()
            items = self.series("[", lambda: self.setting_value(name))
            self.depth -= 1
            return tree.ListLit(self.starts[i], self.ends[self.i - 1], items)
        if kind == "name" and not self.no_value_here(known):
            path = self.path()
            word = tree.Name(self.starts[i], self.ends[self.i - 1], path)
            return self.call(word, word.at) if self.kinds[self.i] == "(" else word
        if kind == "-" and self.kinds[i + 1] in {"int", "float"}:
            self.i = i + 1
            value = self.atom(self.kinds[i + 1], i + 1)
            return tree.Unary(self.starts[i], self.ends[self.i - 1], "-", value)
        return self.atom(kind, i) if kind in _SIMPLE else self.no_setting_value(name)

    def no_value_here(self, known: Sequence[str]) -> bool:
        """The word on the next line is the next setting: this one was left without a value."""
        follows = self.kinds[self.i + 1] not in {"name", "}", "("}
        return follows and self.values[self.i] in known and self.begins_line(self.i)

    def no_setting_value(self, name: str) -> NoReturn:
        """Report that a setting has no value, behind its name if the line ends there."""
        end = self.ends[self.i - 1]
        found = f"expected the value of `{name}`, found {self.shown()}"
        if self.begins_line(self.i) or self.kinds[self.i] in {"}", "eof"}:
            self.report("expected-value", found, end, end + 1, f"write it after `{name}`")
            raise ParseError
        self.fail("expected-value", found, "a value is a number, a text, a word or a list")

    def skip_setting(self, known: Sequence[str]) -> None:
        """Skip to the next setting there is, to behind a block, or to the end of the braces."""
        began = self.i
        while (kind := self.kinds[self.i]) not in {"}", "eof"}:
            if kind == "{":
                self.skip_braces()
                return
            if self.i > began and kind == "name" and self.values[self.i] in known:
                return
            self.i += 1

    def allowance(self) -> tree.Expr | None:
        """`$5/day`, or None when there is no period."""
        i = self.i
        if self.kinds[i] != "money":
            return None
        self.i = i + 1
        period = self.period()
        if not period:
            self.i = i
            return None
        return tree.MoneyLit(self.starts[i], self.ends[self.i - 1], self.nanos(i), period)

    def atom(self, kind: str, i: int) -> tree.Expr:
        """Parse the literal at token i, which is of this kind; `ExpressionParser` does it."""
        raise NotImplementedError

    def call(self, callee: tree.Expr, at: int) -> tree.Expr:
        raise NotImplementedError

    def nanos(self, i: int) -> int:
        """Return the nano-dollars of an amount; `SendParser` does it."""
        raise NotImplementedError
