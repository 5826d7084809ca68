"""Random programs in the subset, run by Python itself and by Vega with the same answers.

    written(seed)      the text of a program, the same for the same seed
    compared(text)     what differs between the two runs; None where Vega refuses the program

Some lines are risky on purpose (an alias that is changed, a division of what may be negative): they
have to be refused, or mean the same. Under Python, agents are stand-ins that answer in turn.
"""

from random import Random

from tests.lang.python.both import Run, by_python, by_vega, refused_by
from tests.lang.python.generated_values import KEYS, Expressions
from tests.lang.python.hazards import HAZARDS, HEAD

__all__ = ["Difference", "compared", "written"]

_TYPES = ("int", "str", "bool", "float", "ints", "strs", "dict", "point")

Difference = tuple[str, Run, Run]


def compared(text: str) -> Difference | None:
    """A difference of nothing is `("", …)`."""
    if refused_by(text):
        return None
    ours, theirs = by_vega(text), by_python(text)
    is_same = ours == theirs
    if (ours.error, theirs.error) == ("LimitReached", repr(MemoryError())):
        # A text outgrew both: a program of Vega may hold less, so it is Vega that says how much.
        is_same = (ours.printed, ours.calls) == (theirs.printed, theirs.calls)
    return ("" if is_same else "they differ"), ours, theirs


def written(seed: int) -> str:
    return _Writer(Random(seed)).program()


class _Writer(Expressions):
    def program(self) -> str:
        for number in range(self.chance.randrange(3)):
            self.function(f"helper{number}")
            self.helpers.append(f"helper{number}")
        self.lines += ["", "", "@program", "def main() -> str:"]
        self.body(self.chance.randrange(5, 14))
        return HEAD + "\n".join(self.lines) + "\n"

    def function(self, name: str) -> None:
        self.lines += ["", "", f"def {name}(n: int, s: str, xs: list[int]) -> str:"]
        self.body(self.chance.randrange(2, 6), {"n": "int", "s": "str", "xs": "ints"})

    def body(self, statements: int, params: dict[str, str] | None = None) -> None:
        self.level, self.count = 1, 0
        self.scopes = [dict(params or {})]
        risky = self.chance.randrange(statements) if self.risk and not params else -1
        for number in range(statements):
            self.statement(2)
            if number == risky:
                self.hazard()
        self.say(f"return {self.expr('str', 2)}")
        self.level = 0

    # Statements

    def block(self, statements: int, depth: int, extra: dict[str, str] | None = None) -> None:
        self.level += 1
        self.scopes.append(dict(extra or {}))
        for _ in range(statements):
            self.statement(depth - 1)
        self.scopes.pop()
        self.level -= 1

    def statement(self, depth: int) -> None:
        plain = [self.assign, self.assign, self.again, self.printed, self.grow, self.change]
        nested = [self.branch, self.loop, self.attempt, self.chosen, self.beside, self.count_down]
        odd = [self.leave, self.alias, self.fail]
        roll = self.chance.random()
        if depth > 0 and roll < 0.35:
            self.chance.choice(nested)(depth)
        elif roll > 0.93:
            self.chance.choice(odd)()
        else:
            self.chance.choice(plain)()

    def assign(self) -> None:
        kind, name = self.chance.choice(_TYPES), self.fresh()
        self.say(f"{name} = {self.expr(kind, 2)}")
        self.scopes[-1][name] = kind

    def again(self) -> None:
        kind = self.chance.choice(_TYPES)
        names = self.changeable(kind)
        if not names:
            return self.assign()
        name = self.chance.choice(names)
        if kind in ("int", "float", "str") and self.chance.random() < 0.5:
            return self.say(f"{name} += {self.expr(kind, 1)}")
        if kind == "ints" and self.chance.random() < 0.1:
            return self.say(f"{name} += {self.expr(kind, 1)}")
        return self.say(f"{name} = {self.expr(kind, 2)}")

    def printed(self) -> None:
        kinds = [
            self.pick("int", "float", "str", "str") for _ in range(self.chance.randrange(1, 4))
        ]
        self.say(f"print({', '.join(self.expr(kind, 2) for kind in kinds)})")
        for kind in ("ints", "dict", "point", "bool", "strs"):
            if names := self.known(kind):
                self.say(f"print(vega.text({self.chance.choice(names)}))")

    def grow(self) -> None:
        kind = self.pick("ints", "strs")
        names = self.changeable(kind)
        if not names:
            return self.assign()
        name, item = self.chance.choice(names), self.expr(kind[:-1], 1)
        if self.chance.random() < 0.15:
            return self.say(f"{name}.append({item})")
        if self.chance.random() < 0.3:
            name = self.made(kind)
            return self.say(f"{name}.append({item})")
        return self.say(f"{name} = {name} + [{item}]")

    def change(self) -> None:
        kind = self.pick("ints", "dict", "point")
        names = self.changeable(kind)
        if not names:
            return self.assign()
        name = self.chance.choice(names) if self.chance.random() < 0.15 else self.made(kind)
        match kind:
            case "ints":
                self.say(f"{name} = {name} + [1, 2, 3]")
                self.say(f"{name}[{self.chance.randrange(3)}] = {self.expr('int', 1)}")
            case "dict":
                key = self.pick(*KEYS)
                self.say(f'{name}["{key}"] = {self.expr("int", 1)}')
                self.say(f'{name}["{key}"] += {self.expr("int", 1)}')
            case _:
                field = self.pick(f"x = {self.expr('int', 1)}", f"label = {self.expr('str', 1)}")
                self.say(f"{name}.{field}")
        return None

    def made(self, kind: str) -> str:
        """A variable with something new."""
        name = self.fresh()
        fresh = {"ints": "[7, 8, 9]", "strs": '["s"]', "dict": '{"k": 2}'}
        self.say(f"{name} = {fresh.get(kind, 'Point(4, self_label)')}".replace("self_label", '"q"'))
        self.scopes[-1][name] = kind
        return name

    def hazard(self) -> None:
        """Lines that have to be refused, or mean the same."""
        a, b = self.fresh(), self.fresh()
        for line in self.chance.choice(HAZARDS).strip("\n").split("\n"):
            self.say(line.replace("A", a).replace("B", b))

    def alias(self) -> None:
        """Fine by itself; a change of one of the two is not."""
        kind = self.pick("ints", "dict", "point")
        names = self.known(kind)
        if not names or not self.risk:
            return self.assign()
        name, other = self.fresh(), self.chance.choice(names)
        way = f"same({other})" if kind == "ints" and self.chance.random() < 0.3 else other
        self.say(f"{name} = {way}")
        self.scopes[-1][name] = kind
        return None

    def fail(self) -> None:
        if self.level > 1:
            self.say(f"raise Failed({self.expr('str', 1)})")
        else:
            self.printed()

    def leave(self) -> None:
        if self.loops:
            self.say(f"if {self.expr('bool', 1)}:")
            self.say(f"    {self.pick('break', 'continue')}")
        elif self.level > 1:
            self.say(f"return {self.expr('str', 1)}")
        else:
            self.printed()

    def branch(self, depth: int) -> None:
        self.say(f"if {self.expr('bool', 2)}:")
        self.block(self.chance.randrange(1, 3), depth)
        if self.chance.random() < 0.3:
            self.say(f"elif {self.expr('bool', 1)}:")
            self.block(1, depth)
        if self.chance.random() < 0.5:
            self.say("else:")
            self.block(1, depth)

    def chosen(self, _depth: int) -> None:
        """A variable that every branch gives a value."""
        kind, name = self.pick("int", "float", "str", "bool", "ints"), self.fresh()
        if self.chance.random() < 0.4:
            one, other = self.expr(kind, 1), self.expr(kind, 0)
            self.say(f"{name} = {one} if {self.expr('bool', 1)} else {other}")
        elif self.chance.random() < 0.5:
            self.say("try:")
            self.say(f"    {name} = {self.expr(kind, 2)}")
            self.say(f"except {self.pick('Exception', 'ValueError', 'IndexError')}:")
            self.say(f"    {name} = {self.expr(kind, 1)}")
        else:
            self.say(f"if {self.expr('bool', 1)}:")
            self.say(f"    {name} = {self.expr(kind, 2)}")
            self.say("else:")
            self.say(f"    {name} = {self.expr(kind, 1)}")
        self.scopes[-1][name] = kind

    def loop(self, depth: int) -> None:
        name, other = self.fresh(), self.fresh()
        ways = {
            f"{name} in range({self.chance.randrange(4)})": {name: "int"},
            f"{name} in {self.some('ints', 1)}": {name: "int"},
            f"{name} in {self.some('strs', 1)}": {name: "str"},
            f"{name}, {other} in enumerate({self.some('ints', 1)})": {name: "int", other: "int"},
            f"{name}, {other} in {self.some('dict', 0)}.items()": {name: "str", other: "int"},
            f"{name} in {self.some('dict', 0)}": {name: "str"},
            f"{name} in {self.some('dict', 0)}.keys()": {name: "str"},
            f"{name} in {self.some('dict', 0)}.values()": {name: "int"},
            f"{name}, {other} in enumerate({self.some('strs', 1)})": {name: "int", other: "str"},
            f"{name} in reversed({self.some('ints', 1)})": {name: "int"},
        }
        head = self.chance.choice(list(ways))
        self.say(f"for {head}:")
        self.loops += 1
        self.block(self.chance.randrange(1, 3), depth, ways[head])
        self.loops -= 1

    def count_down(self, depth: int) -> None:
        name = self.fresh()
        self.say(f"{name} = {self.chance.randrange(4)}")
        self.scopes[-1][name] = "int"
        self.fixed.add(name)
        self.say(f"while {name} > 0:")
        self.say(f"    {name} -= 1")
        self.loops += 1
        self.block(1, depth)
        self.loops -= 1

    def attempt(self, depth: int) -> None:
        self.say("try:")
        self.block(self.chance.randrange(1, 3), depth)
        kind = self.pick(
            "AgentFailed", "Failed", "IndexError", "KeyError", "ValueError", "ArithmeticError",
            "(IndexError, KeyError)", "Exception",
        )  # fmt: skip
        named = kind == "Failed" and self.chance.random() < 0.7
        self.say(f"except {kind}{' as e' if named else ''}:")
        if named:
            self.say('    print(f"failed: {e}")')
        self.block(1, depth)

    def beside(self, _depth: int) -> None:
        one, other = self.fresh(), self.fresh()
        if self.chance.random() < 0.5:
            self.say("with parallel():")
        else:
            dollars = 1 + 2 * len(self.helpers)  # those of the functions it calls fit into it
            self.say(f'with session(budget="${dollars}"):')
            self.say(f"    print({self.expr('str', 1)})")
            return
        self.say(f"    {one} = ada({self.message(1, 'beside:')})")
        self.say(f"    {other} = bob({self.message(1, 'beside:')})")
        self.scopes[-1] |= {one: "str", other: "str"}
