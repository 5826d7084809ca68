"""Settings between braces: `{ strategy restart  max_restarts 3  window 60s }`.

Nothing stands between two settings, so a value is one literal, name, list or call and no more.
"""

from collections.abc import Sequence
from typing import NoReturn

from vegakit.lang.diagnostics import Edit
from vegakit.lang.parsing.cursor import FaultError
from vegakit.lang.parsing.types import TypeParser
from vegakit.lang.tree import Expr, ListLit, MoneyLit, Name, Setting, Unary

__all__ = ["SettingParser"]

_SEPARATORS = frozenset([",", ";"])
_APART = "write settings one after another, like: threshold 5  reset_after 30s"
_SIMPLE = frozenset("int float money duration true false null".split())


class SettingParser(TypeParser):
    def settings(self, known: Sequence[str], owner: str) -> tuple[Setting, ...]:
        opener = self.take("{")
        found: list[Setting] = []
        while self.kinds[self.i] not in {"}", "eof"}:
            try:
                found.append(self.setting(known, owner))
            except FaultError:
                self.skip_setting(known)
        self.close("}", opener)
        return tuple(found)

    def setting(self, known: Sequence[str], owner: str) -> Setting:
        i = self.i
        name = self.setting_name(known, owner)
        value = self.setting_value(name)
        return Setting(self.starts[i], self.ends[self.i - 1], name, value)

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

    def setting_value(self, name: str, known: Sequence[str] = ()) -> Expr:
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
            return ListLit(self.starts[i], self.ends[self.i - 1], items)
        if kind == "name" and not self.no_value_here(known):
            path = self.path()
            word = Name(self.starts[i], self.ends[self.i - 1], path)
            return self.call(word, word.at) if self.kinds[self.i] == "(" else word
        if kind == "-" and self.kinds[i + 1] in {"int", "float"}:
            self.i = i + 1
            value = self.atom(self.kinds[i + 1], i + 1)
            return Unary(self.starts[i], self.ends[self.i - 1], "-", value)
        if kind in _SIMPLE:
            return self.atom(kind, i)
        return self.no_setting_value(name)

    def no_value_here(self, known: Sequence[str]) -> bool:
        """The word on the next line is the next setting: this one was left without a value."""
        follows = self.kinds[self.i + 1] not in {"name", "}", "("}
        return follows and self.values[self.i] in known and self.begins_line(self.i)

    def no_setting_value(self, name: str) -> NoReturn:
        end = self.ends[self.i - 1]
        found = f"expected the value of `{name}`, found {self.shown()}"
        if self.begins_line(self.i) or self.kinds[self.i] in {"}", "eof"}:
            self.report("expected-value", found, end, end + 1, f"write it after `{name}`")
            raise FaultError
        self.fail("expected-value", found, "a value is a number, a text, a word or a list")

    def skip_setting(self, known: Sequence[str]) -> None:
        """To the next setting there is, or to the end of the braces."""
        began = self.i
        while (kind := self.kinds[self.i]) not in {"}", "eof"}:
            if kind == "{":
                self.skip_braces()
                return
            if self.i > began and kind == "name" and self.values[self.i] in known:
                return
            self.i += 1

    def allowance(self) -> Expr | None:
        """`$5/day`, or None when there is no period."""
        i = self.i
        if self.kinds[i] != "money":
            return None
        self.i = i + 1
        period = self.period()
        if not period:
            self.i = i
            return None
        return MoneyLit(self.starts[i], self.ends[self.i - 1], self.nanos(i), period)

    def atom(self, kind: str, i: int) -> Expr:
        raise NotImplementedError

    def call(self, callee: Expr, at: int) -> Expr:
        raise NotImplementedError

    def nanos(self, i: int) -> int:
        raise NotImplementedError
