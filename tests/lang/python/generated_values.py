"""Random expressions of a few types, over the variables that are known."""

from random import Random

__all__ = ["KEYS", "Expressions"]

_WORDS = ("a", "bee", "Cat", " d ", "e,f", "", "naïve", "Ab aB")
KEYS = ("k", "l", "a")
_NEAR = 2**53


class Expressions:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.lines: list[str] = []
        self.level = 0
        self.scopes: list[dict[str, str]] = []
        self.count = 0
        self.loops = 0
        self.fixed: set[str] = set()
        self.risk = chance.random() < 0.35
        self.helpers: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append("    " * self.level + text)

    def pick(self, *ways: str) -> str:
        return self.chance.choice(ways)

    def known(self, kind: str) -> list[str]:
        return [name for scope in self.scopes for name, of in scope.items() if of == kind]

    def changeable(self, kind: str) -> list[str]:
        return [name for name in self.known(kind) if name not in self.fixed]

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def expr(self, kind: str, depth: int) -> str:
        names = self.known(kind)
        if names and (depth <= 0 or self.chance.random() < 0.35):
            return self.chance.choice(names)
        return getattr(self, f"a_{kind}")(depth)

    def some(self, kind: str, depth: int) -> str:
        """What items are taken of: not `[]` itself, whose items have no type."""
        for _ in range(5):
            text = self.expr(kind, depth)
            if "[]" not in text and "{}" not in text:
                return text
        return {"ints": "[1, 0]", "strs": '["a"]', "dict": '{"k": 1}'}[kind]

    def message(self, depth: int, mark: str = "") -> str:
        return f'f"{mark}{{{self.plain("int", depth - 1)}}} {{{self.plain("str", 0)}}}"'

    def plain(self, kind: str, depth: int) -> str:
        """What may stand inside an f-string: no quotes of its own."""
        for _ in range(5):
            text = self.expr(kind, depth)
            if '"' not in text and "\\" not in text and "{" not in text:
                return text
        return "1"

    def place(self) -> str:
        if self.risk and self.chance.random() < 0.3:
            return self.pick("-1", *self.known("int")) if self.known("int") else "-1"
        return str(self.chance.randrange(3))

    def a_int(self, depth: int) -> str:
        if depth <= 0:
            return str(self.chance.randrange(-3, 10))
        e, d = self.expr, depth - 1
        return self.pick(
            f"({e('int', d)} {self.pick('+', '-', '*')} {e('int', d)})",
            f"len({e(self.pick('str', 'ints', 'strs', 'dict'), d)})",
            self.divided(d),
            f"abs({e('int', d)})",
            f"{self.pick('min', 'max')}({e('int', d)}, {e('int', d)})",
            f"sum({e('ints', d)})",
            f"{self.some('ints', d)}[{self.place()}]"
            if self.chance.random() < 0.3
            else "[5, 2, 7][1]",
            f'{e("dict", d)}.get("{self.pick(*KEYS)}", {self.chance.randrange(5)})',
            f'{{"k": 3, **{e("dict", d)}}}["k"]',
            f'{self.some("dict", d)}["{self.pick(*KEYS)}"]' if self.chance.random() < 0.2 else "6",
            f"int({e('str', d)})" if self.chance.random() < 0.2 else "4",
            f'int("{self.chance.randrange(-9, 99)}")',
            f"{e('point', d)}.x",
            f"scaled({e('int', d)}, by={e('int', d)})",
            f'{e("str", 0)}.count("a")',
            f"ada.ask({self.message(d, 'int:')}, returns=int)",
        )

    def a_float(self, depth: int) -> str:
        """Ints stand beside floats, and alone only at a risk."""
        if depth <= 0:
            return self.pick("0.5", "2.25", "-1.5", "10.0", f"{_NEAR}.0")
        if self.risk and self.chance.random() < 0.02:
            return self.constant()
        e, d = self.expr, depth - 1
        return self.pick(
            f"({e('float', d)} {self.pick('+', '-')} {e('float', d)})",
            f"({e('float', d)} {self.pick('+', '-', '*')} {self.constant()})",
            f"({self.constant()} {self.pick('+', '-', '*')} {e('float', d)})",
            f"({e('float', d)} + {e('int', d)})",
            f"({e('float', d)} / {self.chance.randrange(1, 5)})",
            f"(({e('int', d)}) / {self.chance.randrange(1, 5)})",
            f"float({e('int', d)})",
            f"halved({e('float', d)})",
            f"abs({e('float', d)})",
            f"[{e('float', d)}, {e('float', 0)}][{self.chance.randrange(2)}]",
        )

    def constant(self) -> str:
        """An int that is seen before the run."""
        one, other = self.chance.randrange(-2, 5), self.chance.randrange(5)
        return self.pick(str(one), f"({one} {self.pick('+', '-', '*')} {other})")

    def near(self) -> str:
        """An int beside a float, both where floats are no longer as close as ints."""
        sign = self.pick("", "-")
        number = f"{sign}{_NEAR + self.chance.randrange(-2, 4)}"
        names = self.known("float")
        other = f"{sign}{_NEAR + self.chance.randrange(-2, 4)}.0"
        other = self.chance.choice(names) if names and self.chance.random() < 0.3 else other
        compared = self.pick("<", "<=", ">", ">=", "==", "!=")
        both = (number, other) if self.chance.random() < 0.5 else (other, number)
        return f" {compared} ".join(both)

    def divided(self, depth: int) -> str:
        sign = self.pick("//", "%")
        if self.risk and self.chance.random() < 0.5:
            return f"({self.expr('int', depth)} {sign} {self.chance.randrange(-3, 4)})"
        left = self.pick(f"len({self.expr('str', depth)})", f"abs({self.expr('int', depth)})")
        return f"({left} {sign} {self.chance.choice((0, 1, 2, 3, 3, 4, 5, 7))})"

    def a_str(self, depth: int) -> str:
        if depth <= 0:
            return f'"{self.pick(*_WORDS)}"'
        e, d = self.expr, depth - 1
        return self.pick(
            f'f"{{{self.plain("int", d)}}}-{{{self.plain("str", d)}}}"',
            f"({e('str', d)} + {e('str', d)})",
            f"{e('str', d)}.{self.pick('upper', 'lower', 'strip')}()",
            f'{e("str", d)}.replace("a", {e("str", 0)})',
            f"str({e('int', d)})",
            f"str({e('float', d)})",
            f'", ".join({e("strs", d)})',
            f"{e('str', 0)}[{self.pick('', '1', '-2')}:{self.pick('', '2', '-1')}]",
            f"(['x', 'y'] + {e('strs', d)})[{self.chance.randrange(3)}]",
            self.helped(d),
            f"({e('str', 0)} * {self.chance.randrange(3)})",
            f"{e('point', d)}.label",
            f"joined({e('strs', d)})",
            f'joined({e("strs", d)}, "?")',
            f"{self.pick('ada', 'bob')}({self.message(d)})",
            f"bob({self.message(d, 'fail:')})",
            f"vega.text({e(self.pick('bool', 'ints', 'dict', 'point'), d)})",
            self.note(),
        )

    def helped(self, depth: int) -> str:
        if not self.helpers:
            return '"alone"'
        args = (self.expr(kind, depth) for kind in ("int", "str", "ints"))
        return f"{self.chance.choice(self.helpers)}({', '.join(args)})"

    def note(self) -> str:
        names = self.known("point")
        if not names:
            return '"no note"'
        name = self.chance.choice(names)
        return f'({name}.note if {name}.note is not None else "none")'

    def a_bool(self, depth: int) -> str:
        if depth <= 0:
            return self.pick("True", "False")
        e, d = self.expr, depth - 1
        return self.pick(
            f"{e('int', d)} {self.pick('<', '<=', '>', '>=', '==', '!=')} {e('int', d)}",
            f"{e('str', d)} {self.pick('<', '==', '!=')} {e('str', d)}",
            f"({e('bool', d)} {self.pick('and', 'or')} {e('bool', d)})",
            f"not {e('bool', d)}",
            f"{e('int', d)} {self.pick('in', 'not in')} {e('ints', d)}",
            f'"{self.pick(*KEYS)}" in {e(self.pick("dict", "str", "strs"), d)}',
            f'{e("str", d)}.{self.pick("startswith", "endswith")}("a")',
            f"{e('ints', d)} == {e('ints', d)}",
            f"{e('float', d)} {self.pick('<', '<=', '>', '>=', '==', '!=')} {e('int', d)}",
            self.near(),
            f"{e('point', d)}.note is {self.pick('None', 'not None')}",
            f"ada.ask({self.message(d, 'bool:')}, returns=bool)",
        )

    def a_ints(self, depth: int) -> str:
        items = ", ".join(
            str(self.chance.randrange(-2, 9)) for _ in range(self.chance.randrange(4))
        )
        if depth <= 0 or self.chance.random() < 0.2:
            return f"[{items}]"
        e, d = self.expr, depth - 1
        name = self.fresh()
        self.scopes.append({name: "int"})
        item, where = e("int", d), e("bool", d)
        self.scopes.pop()
        return self.pick(
            f"[{item} for {name} in {self.some('ints', 0)}]",
            f"[{item} for {name} in range({self.chance.randrange(4)}) if {where}]",
            f"({e('ints', d)} + {e('ints', d)})",
            f"sorted({e('ints', d)})",
            f"list(range({self.chance.randrange(5)}))",
            f"list(reversed({e('ints', d)}))",
            f"[{e('int', d)}, {e('int', d)}]",
            f"list({e('dict', d)}.values())",
        )

    def a_strs(self, depth: int) -> str:
        items = ", ".join(f'"{self.pick(*_WORDS)}"' for _ in range(self.chance.randrange(4)))
        if depth <= 0 or self.chance.random() < 0.2:
            return f"[{items}]"
        e, d = self.expr, depth - 1
        return self.pick(
            f'{e("str", d)}.split(",")',
            f"{e('str', d)}.split()",
            f"sorted({e('strs', d)})",
            f"list({e('dict', d)}.keys())",
            f"({e('strs', d)} + [{e('str', d)}])",
            f"[{e('str', d)}]",
        )

    def a_dict(self, depth: int) -> str:
        keys = self.chance.sample(KEYS, self.chance.randrange(3))
        pairs = ", ".join(f'"{key}": {self.expr("int", depth - 1)}' for key in keys)
        if depth <= 0 or self.chance.random() < 0.4:
            return f"{{{pairs}}}"
        e, d = self.expr, depth - 1
        return self.pick(
            f'{{**{e("dict", d)}, "{self.pick(*KEYS)}": {e("int", d)}}}',
            f"({e('dict', d)} | {e('dict', d)})",
        )

    def a_point(self, depth: int) -> str:
        x, label = self.expr("int", depth - 1), self.expr("str", depth - 1)
        if depth <= 0:
            return f"Point(x={x}, label={label})"
        return self.pick(
            f"Point({x}, {label})",
            f"Point(x={x}, label={label}, note={self.expr('str', 0)})",
            f"moved({self.expr('point', depth - 1)}, {x})",
            f"ada.ask({self.message(0, 'point:')}, returns=Point)",
        )
