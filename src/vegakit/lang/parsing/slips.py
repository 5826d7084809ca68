"""What was meant where no statement or declaration begins: misspelt and foreign keywords."""

from vegakit.lang.diagnostics import Edit, nearest
from vegakit.lang.parsing.cursor import Cursor
from vegakit.lang.parsing.words import FOREIGN_WORDS, STATEMENT_WORDS

__all__ = ["SlipFinder"]

_INNER = (*STATEMENT_WORDS, "else", "catch")
_OUTER = (*_INNER, "fn", "agent", "tool", "type", "use", "supervisor", "program")
_ASSIGNING = frozenset(["+=", "-=", "*=", "/=", "%="])


class SlipFinder(Cursor):
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
        edit = Edit(at, end, meant) if meant.isalpha() else None
        self.report("misspelt-keyword", found, at, end, remedy, edit)
        self.faulty_lines.add(self.line_start(at))
        return meant

    def no_statement_end(self, i: int) -> None:
        """Behind an expression that began at token i stands no `;`: often one sees why."""
        kind = self.kinds[self.i]
        if kind in _ASSIGNING:
            target = self.source[self.starts[i] : self.ends[self.i - 1]]
            found = f"there is no `{kind}`"
            self.fail("foreign-operator", found, f"write `{target} = {target} {kind[0]} …`")
        if kind in {"text", "open"} and self.i == i + 1:
            word = self.values[i]
            self.fail(
                "expected", "the arguments of a call stand in parentheses", f"write {word}(…)"
            )

    def stray_semicolon(self) -> None:
        at, end = self.starts[self.i], self.ends[self.i]
        found = "this `;` ends no statement"
        self.report("stray-semicolon", found, at, end, "remove it", Edit(at, end, ""))
        self.i += 1
