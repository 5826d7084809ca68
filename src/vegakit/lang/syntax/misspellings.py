"""Tell what people write who know another language, and the keyword that was meant: it is
reported with what is written here (pure).

A rule is asked only where the parser is stuck, so a program without faults pays nothing for it.
"""

import re
from typing import NoReturn

from vegakit.lang.diagnostics import Edit, nearest
from vegakit.lang.syntax.cursor import (
    BRACKETS,
    CLOSING,
    FOREIGN_WORDS,
    STATEMENT_WORDS,
    Cursor,
    ParseError,
)

_INNER = (*STATEMENT_WORDS, "else", "catch")
_OUTER = (*_INNER, "fn", "agent", "tool", "type", "use", "node", "supervisor", "program")
_PLAIN_VALUES = frozenset(["text", "name", "int", "float", "true", "false", "null"])
_TWO_WORDS = frozenset(["if not", "else if", "while true", "while not"])
"""Keywords that can stand where one word of another language stood."""
_BEHIND = frozenset([";", ")", "}", "<", ">", "<=", ">=", "==", "!="])
"""What may stand behind `i--`, and behind no `-`."""
_FAR = 40
"""Tokens of a statement that are looked at, at most."""
_ASSIGNING = frozenset(["+=", "-=", "*=", "/=", "%="])
_TEXTS = frozenset(["text", "open"])
_OPTIONS = frozenset(["timeout", "budget", "as", "wallet", "named", "supervised"])

# Types of other languages, as they are written there.

_PLAIN = {
    **dict.fromkeys(("string", "String", "text", "char"), "str"),
    **dict.fromkeys(("integer", "Int", "long", "number", "i32", "i64", "usize"), "int"),
    **dict.fromkeys(("double", "Float", "f32", "f64"), "float"),
    **dict.fromkeys(("boolean", "Bool", "Boolean"), "bool"),
}
_WRITTEN_TYPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?:list|List|Array|array|Vec|vec|Set|set|Sequence)[\[<](\w+)[\]>]"), "[{}]"),
    (
        re.compile(
            r"(?:dict|Dict|map|Map|Record|HashMap|Object)[\[<](?:str|string|String),\s*(\w+)[\]>]"
        ),
        "{{str: {}}}",
    ),
    (re.compile(r"(?:Optional|Option|Maybe)[\[<](\w+)[\]>]"), "{}?"),
    (re.compile(r"(\w+)\[\]"), "[{}]"),
    (re.compile(r"(\w+)\s*\|\s*(?:null|None|undefined|nil)\b"), "{}?"),
)
_TYPES = frozenset(["str", "int", "float", "bool", "money", "duration", *_PLAIN])

# Heads of loops of other languages, without their parentheses.

_COUNTING = re.compile(
    r"(?:let |var |const |int |auto )?\s*(\w+)\s*:?=\s*(\w+)\s*;\s*\w+\s*(<=?)\s*([^;]+?)\s*;"
    r"\s*(?:\w+\+\+|\+\+\w+|\w+\s*\+=\s*1)\s*"
)
_COMMENT = re.compile(r"[ \t]*(//)[ \t]*[\w(][^\n]{0,120}[;{][ \t]*\n")
"""A division of other languages, between a value and what follows on another line."""
_WALKING = re.compile(r"(?:let |var |const |auto )?\s*(\w+(?:\s*,\s*\w+)?)\s+(?:of|in)\s+(.+)")


class MisspellingParser(Cursor):
    """Finds what was meant where the parser is stuck."""

    def adjoin(self, i: int) -> bool:
        """Return whether token i and the next one stand together."""
        return self.ends[i] == self.starts[i + 1]

    def foreign(
        self,
        message: str,
        remedy: str,
        first: int,
        last: int,
        written: str | None = None,
        code: str = "foreign-operator",
    ) -> NoReturn:
        """Report the tokens from `first` to `last`, with what is written in their place."""
        at, end = self.starts[first], self.ends[last]
        edit = None if written is None else Edit(at, end, written)
        self.report(code, message, at, end, remedy, edit)
        raise ParseError

    # Keywords

    def meant_word(self, outside: bool) -> str:
        """The keyword that the word here stands for: reported, or '' when it is none."""
        i = self.i
        word = self.values[i]
        meant = FOREIGN_WORDS.get(word) or nearest(word, _OUTER if outside else _INNER)
        if not meant or (meant in {"fn", "type", "use"} and not outside):
            return ""
        at, end = self.starts[i], self.ends[i]
        found = f"`{word}` is no keyword"
        remedy = f"write `{meant}`" if word in FOREIGN_WORDS else f"did you mean `{meant}`?"
        edit = Edit(at, end, meant) if meant.isalpha() or meant in _TWO_WORDS else None
        if word == "enum":
            remedy, edit = self.choices(i)
        elif word == "def" and self.source[at : self.source.find("\n", at)].rstrip()[-1:] == ":":
            remedy, edit = "write `fn name() { … }`: blocks stand in braces", None
        elif word == "do":
            remedy, edit = "write `while true { …; if … { break; } }`", None
        elif word == "finally":
            remedy, edit = "what has to run either way stands behind the `try`", None
        elif word in {"raise", "throw"}:
            edit = self.failure(i)
        elif word in {"import", "from", "include", "require"}:
            edit = self.used_file(i)
        self.report("misspelt-keyword", found, at, end, remedy, edit)
        self.faulty_lines.add(self.line_start(at))
        if word == "enum":
            raise ParseError
        return meant

    def choices(self, i: int) -> tuple[str, Edit | None]:
        """`enum Name { low, high }` is a type of texts."""
        name = self.values[i + 1]
        if self.kinds[i + 1] != "name" or self.kinds[i + 2] != "{":
            return 'write `type Name = "low" | "high"`', None
        names: list[str] = []
        last = i + 3
        while self.kinds[last] in {"name", ",", "text"}:
            if self.kinds[last] != ",":
                names.append(self.values[last].strip('"'))
            last += 1
        written = f"type {name} = " + " | ".join(f'"{one}"' for one in names)
        is_whole = self.kinds[last] == "}" and names
        edit = Edit(self.starts[i], self.ends[last], written) if is_whole else None
        return f"write `{written}`" if is_whole else 'write `type Name = "low" | "high"`', edit

    def failure(self, i: int) -> Edit | None:
        """`throw new Error("no")` and `raise "no"` are `fail("no")`."""
        last = i + 1 + (self.values[i + 1] == "new")
        if self.kinds[last] == "name" and self.kinds[last + 1] == "(":
            return Edit(self.starts[i], self.ends[last], "fail")
        if self.kinds[last] == "text" and self.kinds[last + 1] == ";":
            return Edit(self.starts[i], self.ends[last], f"fail({self.values[last]})")
        return None

    def used_file(self, i: int) -> Edit | None:
        """`import { f } from "./lib/text.vega"` is `use "lib/text.vega"`."""
        last = i + 1
        while not self.begins_line(last) and self.kinds[last] not in {"text", "eof", ";"}:
            last += 1
        path = self.values[last].strip('"').removeprefix("./")
        if self.kinds[last] != "text" or not path.endswith(".vega"):
            return None
        return Edit(self.starts[i], self.ends[last], f'use "{path}"')

    # Statements

    def no_statement_end(self, i: int) -> None:
        """Report why no `;` stands behind an expression that began at token i, where one can see
        it."""
        kind, here = self.kinds[self.i], self.i
        if kind in _ASSIGNING:
            self.no_assigning(i, kind)
        if self.kinds[i] == "name" and here == i + 1:
            self.no_declaration(i, kind)
        is_head = kind == "{" or here == i + 1
        if is_head and self.kinds[i] == "name" and self.values[i] in FOREIGN_WORDS:
            self.i = i
            self.meant_word(outside=False)
            raise ParseError
        if kind in _TEXTS and here == i + 1 and not self.adjoin(i):
            word = self.values[i]
            self.fail(
                "expected", "the arguments of a call stand in parentheses", f"write {word}(…)"
            )

    def no_assigning(self, i: int, kind: str) -> NoReturn:
        """Report `x += 1`."""
        target = self.source[self.starts[i] : self.ends[self.i - 1]]
        edit, last = None, self.i + 1
        while self.kinds[last] not in {";", "}", "eof"} and not self.begins_line(last):
            last += 1
        if self.kinds[last] == ";" and last > self.i + 1:
            value = self.source[self.starts[self.i + 1] : self.ends[last - 1]]
            value = value if last == self.i + 2 or kind == "+=" else f"({value})"
            written = f"= {target} {kind[0]} {value}"
            edit = Edit(self.starts[self.i], self.ends[last - 1], written)
        found = f"there is no `{kind}`"
        self.fail("foreign-operator", found, f"write `{target} = {target} {kind[0]} …`", edit)

    def no_declaration(self, i: int, kind: str) -> None:
        """Report `x := 3`, `x: int = 3` and `int x = 3`."""
        word, after = self.values[i], self.kinds[i + 2]
        if kind == ":" and after == "=":
            self.foreign("a variable is declared by `let`", f"write `let {word} = …`", i, i + 2,
                         f"let {word} =", "expected")  # fmt: skip
        if kind == ":" and after in {"name", "[", "{"}:
            found = "a variable is declared by `let`"
            at = self.starts[i]
            edit = Edit(at, at, "let ")
            self.fail("expected", found, f"write `let {word}: … = …`", edit, i)
        if kind == "name" and after == "=" and (word in _TYPES or word[0].isupper()):
            name, plain = self.values[i + 1], _PLAIN.get(word, word)
            found = "a variable is declared by `let`, its type stands after its name"
            self.foreign(found, f"write `let {name}: {plain} = …`", i, i + 1,
                         f"let {name}: {plain}", "expected")  # fmt: skip

    def stray_semicolon(self) -> None:
        """Report a `;` that ends nothing, and go on behind it."""
        at, end = self.starts[self.i], self.ends[self.i]
        found = "this `;` ends no statement"
        self.report("stray-semicolon", found, at, end, "remove it", Edit(at, end, ""))
        self.i += 1

    def no_loop_parentheses(self) -> NoReturn:
        """Report `for (…) { … }`, and go on at its block."""
        opener, depth = self.i, 0
        while self.kinds[self.i] not in {"eof", "{", "}"}:
            depth += (self.kinds[self.i] == "(") - (self.kinds[self.i] == ")")
            self.i += 1
            if depth == 0:
                break
        last = self.i - 1
        inside = self.source[self.ends[opener] : self.starts[last]]
        written = None
        if counted := _COUNTING.fullmatch(inside.strip()):
            name, first, sign, most = counted.groups()
            if sign == "<=":
                most = str(int(most) + 1) if most.isdecimal() else f"{most} + 1"
            written = f"{name} in range({most if first == '0' else f'{first}, {most}'})"
        elif walked := _WALKING.fullmatch(inside.strip()):
            written = f"{walked[1]} in {walked[2]}"
        remedy = f"write `for {written or 'x in xs'} {{ … }}`"
        found = "a loop has no parentheses"
        self.foreign(found, remedy, opener, last, written, "expected")

    # Values

    def foreign_value(self, kind: str) -> None:
        """Report what cannot begin a value, if it is a sign of another language."""
        i = self.i
        before = self.kinds[i - 1] if i else ""
        if kind == "=" and before in {"==", "!="} and self.adjoin(i - 1):
            found = f"there is no `{before}=`"
            self.foreign(found, f"write `{before}`", i - 1, i, before)
        if kind == "+" and before == "+" and self.adjoin(i - 1):
            self.no_step(i - 1, i)
        if kind == self.kinds[i + 1] == "+" and self.adjoin(i) and self.kinds[i + 2] == "name":
            name = self.values[i + 2]
            stands = before in {";", "{", "}"} and self.kinds[i + 3] in {";", "}"}
            written = f"{name} = {name} + 1"
            self.foreign("there is no `++`", f"write `{written}`", i, i + 2,
                         written if stands else None)  # fmt: skip
        if i > 1 and before == self.kinds[i - 2] == "-" and self.adjoin(i - 2) and kind in _BEHIND:
            self.no_step(i - 2, i - 1)
        if kind == before == "*" and self.adjoin(i - 1):
            remedy = "write `math::pow(2.0, 3.0)`, or multiply"
            self.foreign("there is no `**`", remedy, i - 1, i)
        if kind == "fn" and before == "async":
            found = "no function is `async`: a send waits by itself"
            at, end = self.starts[i - 1], self.starts[i]
            edit = Edit(at, end, "")
            self.report("expected-value", found, at, end - 1, "leave `async` out", edit)
            raise ParseError

    def no_step(self, first: int, last: int) -> NoReturn:
        """Report `i++` or `i--`."""
        sign, edit, name = self.kinds[first], None, "i"
        if first and self.kinds[first - 1] == "name":
            name = self.values[first - 1]
            if self.kinds[last + 1] in {";", "}"} and self.kinds[first - 2] in {";", "{", "}"}:
                edit = Edit(self.starts[first], self.ends[last], f" = {name} {sign} 1")
        at, end = self.starts[first], self.ends[last]
        remedy = f"write `{name} = {name} {sign} 1`"
        remedy += "" if edit else " as a statement of its own"
        self.report("foreign-operator", f"there is no `{sign}{sign}`", at, end, remedy, edit)
        raise ParseError

    def stuck(self) -> None:
        """Report the token here, which cannot stand behind a value, if it is a sign of another
        language."""
        i, kind = self.i, self.kinds[self.i]
        before, word = self.kinds[i - 1], self.values[i - 1]
        if kind == "?":
            self.no_ternary()
        self.as_in_python()
        if kind in _TEXTS and before == "name" and self.adjoin(i - 1) and len(word) <= 2:
            found = f"a string has no letter before it, this has `{word}`"
            remedy = "leave it out: {…} is inserted in every string"
            self.foreign(found, remedy, i - 1, i - 1, "", "expected")
        if kind == "name" and word == "new" and before == "name":
            at, end = self.starts[i - 1], self.starts[i]
            found, remedy = "there is no `new`", f"write `{self.values[i]}(…)`"
            self.report("foreign-operator", found, at, at + 3, remedy, Edit(at, end, ""))
            raise ParseError
        if kind == "{" and before == "name" and word[0].isupper():
            self.no_braces_of_record()
        if kind == "->" and before == "name" and self.kinds[i + 1] in _TEXTS:
            self.foreign("a message is sent by `<-`", "write `<-`", i, i, "<-")
        if kind in {"->", "=>"}:
            remedy = "declare a function by `fn`; lists are built by [for x in xs { … }]"
            self.foreign("there are no functions without names", remedy, i, i)
        if kind == "," and self.values[i + 1] in _OPTIONS:
            remedy = "leave the comma out"
            found = "what belongs to a send or spawn follows it without a comma"
            self.foreign(found, remedy, i, i, "", "separator")
        if kind == "if" and not self.begins_line(i):
            remedy = "declare the variable by `let`, then assign to it in `if … { … } else { … }`"
            self.foreign("`if` is a statement and gives no value", remedy, i, i)

    def named_argument(self) -> bool:
        """Report `f(name="Ada")`, and go on at the value."""
        i = self.i
        if self.kinds[i] != "=" or self.kinds[i - 1] != "name":
            return False
        written = ":" if self.starts[i + 1] > self.ends[i] else ": "
        edit = Edit(self.ends[i - 1], self.ends[i], written)
        remedy, found = f"write `{self.values[i - 1]}: …`", "an argument is named by `:`"
        self.report("expected", found, self.starts[i], self.ends[i], remedy, edit)
        self.i += 1
        return True

    def no_braces_of_record(self) -> None:
        """Report `Point { x: 1 }`."""
        i, kinds = self.i, self.kinds
        if kinds[i + 1] != "name" or kinds[i + 2] != ":":
            return
        closer = self.on_to("}", i)
        fields = self.between(i + 1, closer - 1)
        is_whole = closer > i and "{" not in kinds[i + 1 : closer]
        written = f"({fields})" if is_whole else None
        remedy = f"write `{self.values[i - 1]}{written or '(…)'}`"
        at = self.ends[i - 1]
        end = self.ends[closer] if is_whole else self.ends[i]
        edit = Edit(at, end, written) if written else None
        found = "a record is made like a call, with parentheses"
        self.report("expected", found, self.starts[i], self.ends[i], remedy, edit)
        self.i = max(closer + 1, i)
        raise ParseError

    def no_ternary(self) -> NoReturn:
        """Report `a ? b : c` or `a?.b`, which the language does not have. Of two values that do
        nothing, the variable that gets one of them can get the other first."""
        i, kinds = self.i, self.kinds
        remedy, edit = "use `if`, or `a ?? b` for a value that may be null", None
        found = "there is no `?.`" if kinds[i + 1] == "." else "there is no `a ? b : c`"
        begin = self.back_to("let", i)
        one, colon, other, end = [*kinds[i + 1 : i + 5], *[""] * 4][:4]
        if begin >= 0 and {one, other} <= _PLAIN_VALUES and (colon, end) == (":", ";"):
            equals = next((at for at in range(begin, i) if kinds[at] == "="), i)
            name, one, other = (self.between(at, at) for at in (begin + 1, i + 1, i + 3))
            declared = self.between(begin, equals)
            chosen = f"if {self.between(equals + 1, i - 1)} {{ {name} = {one}; }}"
            remedy = f"write `{declared} {other}; {chosen}`"
            at = self.starts[begin]
            margin = " " * (at - self.source.rfind("\n", 0, at) - 1)
            edit = Edit(at, self.ends[i + 4], f"{declared} {other};\n{margin}{chosen}")
        self.fail("foreign-operator", found, remedy, edit)

    def as_in_python(self) -> None:
        """Report `n // 2`, `[x for x in xs]`, `x is not None` and `x not in xs`."""
        i, kind, word = self.i, self.kinds[self.i], self.values[self.i]
        if behind := _COMMENT.match(self.source, self.ends[i - 1], self.starts[i]):
            at = behind.start(1)
            found, remedy = "`//` begins a comment", "write `/`, which of ints leaves out the rest"
            self.report("foreign-operator", found, at, at + 2, remedy, Edit(at, at + 2, "/"))
            self.i -= 1  # the next line, which begins here, is not part of what is wrong
            raise ParseError
        if self.begins_line(i):
            return
        if kind == "for":
            self.no_comprehension()
        if kind == "name" and word == "is":
            sign, last = ("!=", i + 1) if self.values[i + 1] == "not" else ("==", i)
            is_null = self.values[last + 1] in {"None", "nil", "undefined"}
            last, sign = (last + 1, f"{sign} null") if is_null else (last, sign)
            self.foreign("there is no `is`", f"write `{sign}`", i, last, sign)
        if kind == "not" and self.kinds[i + 1] == "in":
            self.foreign("there is no `not in`", "write `not (x in xs)`", i, i + 1)

    def no_comprehension(self) -> NoReturn:
        """Report `[x * 2 for x in xs]`."""
        i, kinds, edit = self.i, self.kinds, None
        remedy = "the loop comes first: write `[for x in xs { x * 2 }]`"
        opener, closer = self.bracket(i, -1), self.bracket(i, 1)
        is_known = 0 <= opener < closer and (kinds[opener], kinds[closer]) == ("[", "]")
        behind = [*kinds[i + 1 : closer]] if is_known else ["for"]
        if not {"for", "else"} & {*behind} and behind.count("if") <= 1:
            item, loop = self.between(opener + 1, i - 1), self.between(i, closer - 1)
            written = f"[{loop} {{ {item} }}]"
            remedy = f"the loop comes first: write `{written}`"
            edit = Edit(self.starts[opener], self.ends[closer], written)
        found = "a list is built by a loop that stands before its items"
        self.report("foreign-operator", found, self.starts[i], self.ends[i], remedy, edit)
        raise ParseError

    def no_reason_of_all(self) -> NoReturn:
        """Report `catch (e)`. A name that is read nowhere can be left out."""
        i = self.i
        name, at, end = self.values[i + 1], self.starts[i], self.ends[i + 2]
        is_read = self.kinds[i + 1] != "name" or re.search(rf"\b{name}\b", self.source[end:])
        remedy = (
            f"write `catch Failed({name})` for what `fail` says, or the name of another error: of "
            "several errors, write a `catch` for each"
            if is_read
            else "write `catch`: it takes every error"
        )
        edit = None if is_read else Edit(self.ends[i - 1], end, "")
        found = "a `catch` that takes every error has no reason to name"
        self.report("expected", found, at, end, remedy, edit)
        raise ParseError

    def no_slice(self, opener: int) -> None:
        """Report `xs[1:3]`, whose bracket is token `opener`."""
        i, kinds, edit = self.i, self.kinds, None
        if kinds[i] == "::" and i == opener + 1:
            remedy = "write `[for i in range(len(xs)) if i % 2 == 0 { xs[i] }]`"
            self.foreign("there are no slices in brackets", remedy, i, i)
        if kinds[i] != ":":
            return
        remedy = "write `list::slice(xs, 1, 3)` of a list, `str::slice(text, 1, 3)` of a str"
        closer = self.on_to("]", i)
        if closer > i and kinds[opener - 1] == "name" and kinds[opener - 2] != ".":
            of, first = self.values[opener - 1], self.between(opener + 1, i - 1) or "0"
            last = self.between(i + 1, closer - 1)
            written = f"slice({of}, {first}{last and f', {last}'})"
            remedy = f"write `list::{written}` of a list, `str::{written}` of a str"
            if declared := re.search(rf'\b{of} ?[:=] ?(\[|str\b|")', self.source):
                written = f"{'list' if declared[1] == '[' else 'str'}::{written}"
                remedy = f"write `{written}`"
                edit = Edit(self.starts[opener - 1], self.ends[closer], written)
        at, end = self.starts[i], self.ends[i]
        self.report("foreign-operator", "there are no slices in brackets", at, end, remedy, edit)
        raise ParseError

    def between(self, first: int, last: int) -> str:
        """Return what is written from one token to another, empty if that is before it."""
        return self.source[self.starts[first] : self.ends[last]] if first <= last else ""

    def on_to(self, kind: str, i: int) -> int:
        """Return the next token of this kind behind token i, -1 if none is near."""
        near = range(i, min(i + _FAR, len(self.kinds)))
        return next((at for at in near if self.kinds[at] == kind), -1)

    def bracket(self, i: int, step: int) -> int:
        """Return the bracket around token i that opens (`step` -1) or closes (1); -1 if none is
        near."""
        depth = 0
        for at in range(i, min(max(i + step * _FAR, -1), len(self.kinds)), step):
            depth += step * ((self.kinds[at] in BRACKETS) - (self.kinds[at] in CLOSING))
            if depth < 0:
                return at
        return -1

    def back_to(self, kind: str, i: int) -> int:
        """Return the last token of this kind before token i in its statement, -1 if none is."""
        for at in range(i, max(i - _FAR, -1), -1):
            if self.kinds[at] == kind:
                return at
            if self.kinds[at] in {";", "{", "}"}:
                break
        return -1

    def foreign_type(self, i: int, remedy: str) -> None:
        """Report a type of another language, whose name is token i, and go on behind it."""
        at = self.starts[i]
        for pattern, written in _WRITTEN_TYPES:
            if found := pattern.match(self.source, at):
                made = written.format(_PLAIN.get(found[1], found[1]))
                message = f"`{found[0]}` is written `{made}` here"
                edit = Edit(at, found.end(), made)
                self.report("expected", message, at, found.end(), remedy, edit)
                while self.starts[self.i] < found.end():
                    self.i += 1
                return
        self.expected("the end of the type", remedy)
